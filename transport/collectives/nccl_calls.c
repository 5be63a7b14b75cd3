/* The calls of the nccl communicator, each as work of a stream. */
#include "transport/collectives/nccl_state.h"

enum { PIECE_ELEMENTS = 64 }; /* pieces of a slot are multiples of it, but for the last one */

/* One call on its way. */
struct passage {
    struct nccl *nccl;
    const struct collective_call *call;
    const struct collective_group *group;
    struct ncclComm *comm;
    CUstream stream;
};

static char *at(const struct passage *passage, uint64_t offset) {
    return passage->nccl->spaces[passage->call->space] + offset;
}

static uint64_t element_bytes(const struct passage *passage) {
    return (uint64_t)dtype_bytes(passage->call->wire);
}

static char *own_slot(const struct passage *passage, uint64_t slots) {
    return at(passage, slots + (uint64_t)passage->group->index * passage->call->slot_bytes);
}

static bool take(const struct passage *passage, unsigned result, const char *action) {
    return nccl_check(passage->nccl, passage->comm, result, action) == OK;
}

/* Where slot 0 of the sums is, the own one is this. */
static float *own_sum(const struct passage *passage) {
    const struct collective_call *call = passage->call;
    uint64_t elements = call->slot_bytes / element_bytes(passage);
    return (float *)(void *)at(passage, call->to + (uint64_t)passage->group->index * elements * 4);
}

/* A slot for every peer: bytes from `from + peer * from_apart` go there, what comes from it goes to
 * to_of(peer). Peers begin with the next one, so that not all ranks send to one. */
struct exchange {
    const char *from;
    uint64_t from_apart;
    char *to;
    uint64_t to_apart, bytes;
    bool packed; /* `to` has no place for the own slot */
};

static bool send_and_receive(const struct passage *passage, const struct exchange *exchange) {
    const struct nccl_library *library = &passage->nccl->library;
    const struct collective_group *group = passage->group;
    unsigned result = library->ncclGroupStart();
    for (int step = 1; step < group->size && result == NCCL_SUCCESS; step++) {
        int to = (group->index + step) % group->size;
        int from = (group->index + group->size - step) % group->size;
        int place = exchange->packed && from > group->index ? from - 1 : from;
        result = library->ncclSend(exchange->from + (uint64_t)to * exchange->from_apart,
                                   exchange->bytes, NCCL_INT8, to, passage->comm, passage->stream);
        if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
            result =
                library->ncclRecv(exchange->to + (uint64_t)place * exchange->to_apart,
                                  exchange->bytes, NCCL_INT8, from, passage->comm, passage->stream);
        }
        result = result == NCCL_IN_PROGRESS ? NCCL_SUCCESS : result;
    }
    unsigned ended = library->ncclGroupEnd();
    return take(passage, result == NCCL_SUCCESS ? ended : result, "send and receive slots");
}

static CUresult add(const struct passage *passage, const void *others, uint64_t apart,
                    uint64_t first, uint64_t elements) {
    const struct collective_call *call = passage->call;
    const struct nccl_sum sum = {.wire = call->wire,
                                 .size = passage->group->size,
                                 .index = passage->group->index,
                                 .own =
                                     own_slot(passage, call->from) + first * element_bytes(passage),
                                 .others = others,
                                 .apart = apart,
                                 .to = own_sum(passage) + first,
                                 .elements = elements,
                                 .stream = passage->stream};
    return passage->nccl->add(passage->nccl->program, &sum);
}

static bool take_cuda(const struct passage *passage, CUresult result) {
    if (result == CUDA_SUCCESS) {
        return true;
    }
    if (!passage->nccl->failed) {
        passage->nccl->failed = true;
        (void)cuda_device_fault(passage->nccl->device, result, STATUS_FAILED,
                                "enqueue a part of a collective", &passage->nccl->trouble);
    }
    return false;
}

uint64_t nccl_staging_min(int size) {
    return (uint64_t)size * PIECE_ELEMENTS * sizeof(float);
}

/* In pieces that fit the staging: each waits, in the stream, until the last one was added. */
static bool sum_in_order(const struct passage *passage) {
    const struct nccl *nccl = passage->nccl;
    const struct collective_call *call = passage->call;
    uint64_t width = element_bytes(passage);
    uint64_t elements = call->slot_bytes / width;
    uint64_t others = (uint64_t)passage->group->size - 1;
    ASSERT(others == 0 || nccl->staging_bytes >= nccl_staging_min(passage->group->size));
    uint64_t most = others == 0 ? elements : nccl->staging_bytes / others / width;
    most = others == 0 ? most : most / PIECE_ELEMENTS * PIECE_ELEMENTS;
    bool good = true;
    for (uint64_t first = 0; first < elements && good; first += most) {
        uint64_t some = elements - first < most ? elements - first : most;
        const struct exchange exchange = {.from = at(passage, call->from) + first * width,
                                          .from_apart = call->slot_bytes,
                                          .to = nccl->staging,
                                          .to_apart = most * width,
                                          .bytes = some * width,
                                          .packed = true};
        good = (others == 0 || send_and_receive(passage, &exchange)) &&
               take_cuda(passage, add(passage, nccl->staging, most * width, first, some));
    }
    return good;
}

static bool sums_in_rings(const struct passage *passage) {
    return passage->nccl->in_rings && passage->call->wire == DTYPE_F32 && passage->comm != NULL;
}

static bool reduce_scatter(const struct passage *passage) {
    const struct collective_call *call = passage->call;
    if (!sums_in_rings(passage)) {
        return sum_in_order(passage);
    }
    return take(passage,
                passage->nccl->library.ncclReduceScatter(
                    at(passage, call->from), own_sum(passage), call->slot_bytes / sizeof(float),
                    NCCL_FLOAT32, NCCL_SUM, passage->comm, passage->stream),
                "sum and scatter");
}

static bool all_gather(const struct passage *passage) {
    const struct collective_call *call = passage->call;
    return passage->comm == NULL ||
           take(passage,
                passage->nccl->library.ncclAllGather(own_slot(passage, call->to),
                                                     at(passage, call->to), call->slot_bytes,
                                                     NCCL_INT8, passage->comm, passage->stream),
                "gather");
}

static bool all_reduce(const struct passage *passage) {
    const struct collective_call *call = passage->call;
    if (!sums_in_rings(passage)) {
        return sum_in_order(passage) && all_gather(passage);
    }
    uint64_t count = call->slot_bytes / sizeof(float) * (uint64_t)passage->group->size;
    return take(passage,
                passage->nccl->library.ncclAllReduce(at(passage, call->from), at(passage, call->to),
                                                     count, NCCL_FLOAT32, NCCL_SUM, passage->comm,
                                                     passage->stream),
                "sum");
}

static bool all_to_all(const struct passage *passage) {
    const struct collective_call *call = passage->call;
    const struct cuda_driver *driver = &passage->nccl->device->driver;
    const struct exchange exchange = {.from = at(passage, call->from),
                                      .from_apart = call->slot_bytes,
                                      .to = at(passage, call->to),
                                      .to_apart = call->slot_bytes,
                                      .bytes = call->slot_bytes};
    CUresult result = driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)own_slot(passage, call->to),
                                            (CUdeviceptr)(uintptr_t)own_slot(passage, call->from),
                                            call->slot_bytes, passage->stream);
    return take_cuda(passage, result) &&
           (passage->comm == NULL || send_and_receive(passage, &exchange));
}

static bool broadcast(const struct passage *passage) {
    const struct collective_call *call = passage->call;
    return passage->comm == NULL ||
           take(passage,
                passage->nccl->library.ncclBroadcast(at(passage, call->to), at(passage, call->to),
                                                     call->slot_bytes, NCCL_INT8, call->root,
                                                     passage->comm, passage->stream),
                "broadcast");
}

/* A sum of one number that nobody reads. */
static bool barrier(const struct passage *passage) {
    const struct nccl *nccl = passage->nccl;
    ASSERT(nccl->staging_bytes >= sizeof(float));
    return passage->comm == NULL ||
           take(passage,
                nccl->library.ncclAllReduce(nccl->staging, nccl->staging, 1, NCCL_FLOAT32, NCCL_SUM,
                                            passage->comm, passage->stream),
                "meet");
}

static bool enqueue(const struct passage *passage) {
    if (passage->call->slot_bytes == 0 && passage->call->kind != COLLECTIVE_BARRIER) {
        return true;
    }
    switch (passage->call->kind) {
    case COLLECTIVE_ALL_GATHER:
        return all_gather(passage);
    case COLLECTIVE_REDUCE_SCATTER:
        return reduce_scatter(passage);
    case COLLECTIVE_ALL_REDUCE:
        return all_reduce(passage);
    case COLLECTIVE_ALL_TO_ALL:
        return all_to_all(passage);
    case COLLECTIVE_BROADCAST:
        return broadcast(passage);
    case COLLECTIVE_BARRIER:
        return barrier(passage);
    case COLLECTIVE_KIND_COUNT:
        break;
    }
    return true;
}

void nccl_enqueue(struct communicator *communicator, const struct collective_call *call,
                  CUstream stream) {
    struct nccl *nccl = communicator->self;
    if (nccl->failed || atomic_load(&nccl->ended)) {
        return;
    }
    int ring = nccl->ring_of[call->group];
    const struct passage passage = {.nccl = nccl,
                                    .call = call,
                                    .group = &communicator->groups[call->group],
                                    .comm = ring < 0 ? NULL : nccl->rings[ring].comm,
                                    .stream = stream};
    (void)enqueue(&passage); /* what went wrong is kept */
}

void nccl_run(void *self, const struct collective_call *call) {
    struct nccl *nccl = self;
    struct communicator *communicator = nccl->communicator;
    CUresult result = CUDA_SUCCESS;
    struct fault ignored; /* kept */
    if (nccl->failed || atomic_load(&nccl->ended)) {
        return;
    }
    nccl_enqueue(communicator, call, nccl->stream);
    if (nccl_wait(communicator, nccl->stream, &result, &ignored) == OK && result == CUDA_SUCCESS) {
        communicator->received_bytes[call->kind] +=
            collective_received(&communicator->groups[call->group], call);
    }
}
