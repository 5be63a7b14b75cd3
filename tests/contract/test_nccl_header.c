/* What transport/collectives/nccl_library.h declares of NCCL is what this machine's nccl.h has:
 * else this file does not compile. */
#include "transport/collectives/nccl_library.h"

#include <nccl.h>

#define SAME_FUNCTION(type, name, parameters)                                                      \
    static type(*const own_##name) parameters __attribute__((unused)) = name;
NCCL_FUNCTIONS(SAME_FUNCTION)
/* These take structs, which only look alike. */
static ncclResult_t (*const own_id)(ncclUniqueId *) __attribute__((unused)) = ncclGetUniqueId;
static ncclResult_t (*const own_init)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *)
    __attribute__((unused)) = ncclCommInitRankConfig;

#define SAME(a, b) _Static_assert((unsigned)(a) == (unsigned)(b), #a)
SAME(NCCL_SUCCESS, ncclSuccess);
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_INT8, ncclInt8);
SAME(NCCL_FLOAT32, ncclFloat32);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);
SAME(sizeof(struct nccl_id), sizeof(ncclUniqueId));

#define SAME_PLACE(own, theirs)                                                                    \
    _Static_assert(offsetof(struct nccl_config, own) == offsetof(ncclConfig_t, theirs), #own)
SAME_PLACE(size, size);
SAME_PLACE(magic, magic);
SAME_PLACE(version, version);
SAME_PLACE(blocking, blocking);
SAME_PLACE(cga_cluster_size, cgaClusterSize);
SAME_PLACE(ctas_min, minCTAs);
SAME_PLACE(ctas_max, maxCTAs);
SAME_PLACE(net_name, netName);
SAME_PLACE(split_share, splitShare);
_Static_assert(sizeof(struct nccl_config) <= sizeof(ncclConfig_t), "a part of it");

int main(void) {
    static const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    return theirs.magic == (unsigned)NCCL_CONFIG_MAGIC ? 0 : 1;
}
