/* nccl_library: the functions of NCCL, loaded when a site of several ranks runs on GPUs. NCCL's
 * header is not needed to build: the declarations are here, and a test compares them with the
 * header if it is installed. Tests fill the table with functions that need no GPU. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_NCCL_LIBRARY_H
#define SKEP_TRANSPORT_COLLECTIVES_NCCL_LIBRARY_H

#include "base/fault.h"

#include <cuda.h>
#include <limits.h>
#include <stddef.h>

/* The minimum version is 2.19, because that is the first with ncclCommRegister. */
enum { NCCL_VERSION_MIN = 21900, NCCL_ID_BYTES = 128, NCCL_UNSET = INT_MIN };

enum nccl_result { NCCL_SUCCESS = 0, NCCL_REMOTE_ERROR = 6, NCCL_IN_PROGRESS = 7 };
enum nccl_type { NCCL_INT8 = 0, NCCL_FLOAT32 = 7 };
enum nccl_reduction { NCCL_SUM = 0 };

struct ncclComm; /* NCCL's own */

/* Identifies a group. Its first rank creates the id, and all of its ranks join with it. */
struct nccl_id {
    char bytes[NCCL_ID_BYTES];
};

/* ncclConfig_t in the layout of version 2.18. Later versions of NCCL read no further fields,
 * because `version` says 2.18.
 * */
struct nccl_config {
    size_t size; /* size of this struct */
    unsigned magic, version;
    int blocking, cga_cluster_size, ctas_min, ctas_max; /* as in ncclConfig_t */
    const char *net_name; /* network that NCCL must use; NULL: NCCL chooses one */
    int split_share;      /* whether ncclCommSplit shares resources; always NCCL_UNSET */
    int unset;            /* first field that later versions added; always NCCL_UNSET */
};
enum { NCCL_CONFIG_MAGIC = (int)0xcafebeef, NCCL_CONFIG_VERSION = 21800 };

/* X(result type, name, parameters). Enums are `unsigned`, as in NCCL's header. */
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

/* nccl_library_find: load the NCCL of this machine. It stays loaded.
 * errors  STATUS_INPUT: there is no NCCL, it is too old, or it lacks a function; *library is then
 *         unchanged */
MUST_CHECK enum status nccl_library_find(struct nccl_library *library, struct fault *fault);

#endif
