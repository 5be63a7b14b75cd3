/* nccl_library: the functions of NCCL that collectives between GPUs call, found when a site of
 * several ranks computes on them. Its header is not needed to build: what is used of it is declared
 * here, and a test holds that against the header where there is one. Tests fill the table with
 * functions that move bytes between processes without a GPU. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_NCCL_LIBRARY_H
#define SKEP_TRANSPORT_COLLECTIVES_NCCL_LIBRARY_H

#include "base/fault.h"

#include <cuda.h>
#include <limits.h>
#include <stddef.h>

/* 2.19: buffers are registered with ncclCommRegister. */
enum { NCCL_VERSION_LEAST = 21900, NCCL_ID_BYTES = 128, NCCL_UNSET = INT_MIN };

enum nccl_result { NCCL_SUCCESS = 0, NCCL_REMOTE_ERROR = 6, NCCL_IN_PROGRESS = 7 };
enum nccl_type { NCCL_INT8 = 0, NCCL_FLOAT32 = 7 };
enum nccl_reduction { NCCL_SUM = 0 };

struct ncclComm; /* NCCL's own */

/* What the first rank of a group makes and all of them join with. */
struct nccl_id {
    char bytes[NCCL_ID_BYTES];
};

/* As version 2.18 has it; later ones read no further, which `version` tells them. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, ctas_least, ctas_most;
    const char *net_name;
    int split_share;
    int unset; /* where later versions have what comes next */
};
enum { NCCL_CONFIG_MAGIC = (int)0xcafebeef, NCCL_CONFIG_VERSION = 21800 };

/* X(type of the result, name, parameters). Enums are `unsigned` here, as in the header. */
#define NCCL_FUNCTIONS(X)                                                                          \
    X(unsigned, ncclGetVersion, (int *version))                                                    \
    X(unsigned, ncclCommGetAsyncError, (struct ncclComm * comm, unsigned *error))                  \
    X(unsigned, ncclCommFinalize, (struct ncclComm * comm))                                        \
    X(unsigned, ncclCommDestroy, (struct ncclComm * comm))                                         \
    X(unsigned, ncclCommAbort, (struct ncclComm * comm))                                           \
    X(const char *, ncclGetErrorString, (unsigned result))                                         \
    X(const char *, ncclGetLastError, (struct ncclComm * comm))                                    \
    X(unsigned, ncclCommRegister,                                                                  \
      (struct ncclComm *const comm, void *buffer, size_t bytes, void **handle))                    \
    X(unsigned, ncclCommDeregister, (struct ncclComm *const comm, void *handle))                   \
    X(unsigned, ncclGroupStart, (void))                                                            \
    X(unsigned, ncclGroupEnd, (void))                                                              \
    X(unsigned, ncclAllGather,                                                                     \
      (const void *from, void *to, size_t count, unsigned type, struct ncclComm *comm,             \
       CUstream stream))                                                                           \
    X(unsigned, ncclReduceScatter,                                                                 \
      (const void *from, void *to, size_t count, unsigned type, unsigned reduction,                \
       struct ncclComm *comm, CUstream stream))                                                    \
    X(unsigned, ncclAllReduce,                                                                     \
      (const void *from, void *to, size_t count, unsigned type, unsigned reduction,                \
       struct ncclComm *comm, CUstream stream))                                                    \
    X(unsigned, ncclBroadcast,                                                                     \
      (const void *from, void *to, size_t count, unsigned type, int root, struct ncclComm *comm,   \
       CUstream stream))                                                                           \
    X(unsigned, ncclSend,                                                                          \
      (const void *from, size_t count, unsigned type, int peer, struct ncclComm *comm,             \
       CUstream stream))                                                                           \
    X(unsigned, ncclRecv,                                                                          \
      (void *to, size_t count, unsigned type, int peer, struct ncclComm *comm, CUstream stream))

#define NCCL_MEMBER(type, name, parameters) type(*name) parameters;
struct nccl_library {
    NCCL_FUNCTIONS(NCCL_MEMBER)
    unsigned (*ncclGetUniqueId)(struct nccl_id *id);
    unsigned (*ncclCommInitRankConfig)(struct ncclComm **comm, int size, struct nccl_id id,
                                       int index, struct nccl_config *config);
};
#undef NCCL_MEMBER

/* nccl_library_find: the table of this machine's NCCL, which stays loaded.
 * errors  STATUS_INPUT: no library, one that is too old (naming its version), or one without a
 *         function that is needed (naming it); *library is then untouched */
MUST_CHECK enum status nccl_library_find(struct nccl_library *library, struct fault *fault);

#endif
