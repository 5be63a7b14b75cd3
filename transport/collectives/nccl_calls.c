/* nccl_calls: the calls of an nccl communicator, enqueued on a stream. */
#include "transport/collectives/nccl_state.h"

enum { PIECE_GRANULE_ELEMENTS = 64 }; /* pieces of a slot are multiples of this, except the last */

/* A call that is being enqueued. */
struct transfer {
    struct nccl *nccl;
    const struct collective_call *call;
    const struct collective_group *group;
    struct ncclComm *comm;
    CUstream stream;
};

static char *address_at(const struct transfer *transfer, uint64_t offset) {
    return transfer->nccl->space_addresses[transfer->call->space] + offset;
}

static uint64_t element_bytes(const struct transfer *transfer) {
    return (uint64_t)dtype_bytes(transfer->call->wire);
}

static char *own_slot(const struct transfer *transfer, uint64_t slots) {
    return address_at(transfer,
                      slots + (uint64_t)transfer->group->index * transfer->call->slot_bytes);
}

static bool check_nccl(const struct transfer *transfer, unsigned result, const char *action) {
    return nccl_check(transfer->nccl, transfer->comm, result, action) == OK;
}

/* Returns the address of the sum that this rank stores, which is f32. */
static float *own_sum(const struct transfer *transfer) {
    const struct collective_call *call = transfer->call;
    uint64_t elements = call->slot_bytes / element_bytes(transfer);
    return (float *)(void *)address_at(transfer,
                                       call->to + (uint64_t)transfer->group->index * elements * 4);
}

/* Describes the exchange of one slot with every peer. The slot for peer i is sent from the address
 * from + i * from_stride. The slot of peer i is received at to + k * to_stride. k is i, or one less
 * if skips_own is set and i is above the index of this rank. */
struct slot_exchange {
    const char *from;          /* address of the first slot to send */
    uint64_t from_stride;      /* distance in bytes between the slots that are sent */
    char *to;                  /* address of the first received slot */
    uint64_t to_stride, bytes; /* distance in bytes between received slots; slot size */
    bool skips_own;            /* `to` has no slot for this rank */
};

static bool send_and_receive(const struct transfer *transfer,
                             const struct slot_exchange *exchange) {
    const struct nccl_library *library = &transfer->nccl->library;
    const struct collective_group *group = transfer->group;
    unsigned result = library->ncclGroupStart();
    for (int step = 1; step < group->size && result == NCCL_SUCCESS; step++) {
        int to = (group->index + step) % group->size;
        int from = (group->index + group->size - step) % group->size;
        int slot = exchange->skips_own && from > group->index ? from - 1 : from;
        result =
            library->ncclSend(exchange->from + (uint64_t)to * exchange->from_stride,
                              exchange->bytes, NCCL_INT8, to, transfer->comm, transfer->stream);
        if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) {
            result = library->ncclRecv(exchange->to + (uint64_t)slot * exchange->to_stride,
                                       exchange->bytes, NCCL_INT8, from, transfer->comm,
                                       transfer->stream);
        }
        result = result == NCCL_IN_PROGRESS ? NCCL_SUCCESS : result;
    }
    unsigned ended = library->ncclGroupEnd();
    return check_nccl(transfer, result == NCCL_SUCCESS ? ended : result,
                      "exchange data with the other ranks");
}

static CUresult add_slots(const struct transfer *transfer, const void *others,
                          uint64_t stride_bytes, uint64_t first, uint64_t elements) {
    const struct collective_call *call = transfer->call;
    const struct nccl_sum sum = {.wire = call->wire,
                                 .size = transfer->group->size,
                                 .index = transfer->group->index,
                                 .own = own_slot(transfer, call->from) +
                                        first * element_bytes(transfer),
                                 .others = others,
                                 .stride_bytes = stride_bytes,
                                 .to = own_sum(transfer) + first,
                                 .elements = elements,
                                 .stream = transfer->stream};
    return transfer->nccl->args.add(transfer->nccl->args.callback_context, &sum);
}

static bool check_cuda(const struct transfer *transfer, CUresult result) {
    if (result == CUDA_SUCCESS) {
        return true;
    }
    if (!transfer->nccl->has_failed) {
        transfer->nccl->has_failed = true;
        (void)cuda_device_fault(transfer->nccl->args.device, result, STATUS_FAILED,
                                "enqueue a part of a collective", &transfer->nccl->failure);
    }
    return false;
}

uint64_t nccl_staging_bytes_min(int size) {
    return (uint64_t)size * PIECE_GRANULE_ELEMENTS * sizeof(float);
}

/* Sums in pieces that fit the staging buffer. The stream executes the pieces in order, so one
 * buffer is enough. */
static bool sum_in_order(const struct transfer *transfer) {
    const struct nccl *nccl = transfer->nccl;
    const struct collective_call *call = transfer->call;
    uint64_t width = element_bytes(transfer);
    uint64_t elements = call->slot_bytes / width;
    uint64_t others = (uint64_t)transfer->group->size - 1;
    ASSERT(others == 0 ||
           nccl->args.staging_bytes >= nccl_staging_bytes_min(transfer->group->size));
    uint64_t piece_elements = others == 0 ? elements : nccl->args.staging_bytes / others / width;
    piece_elements = others == 0 ? piece_elements
                                 : piece_elements / PIECE_GRANULE_ELEMENTS * PIECE_GRANULE_ELEMENTS;
    bool is_ok = true;
    for (uint64_t first = 0; first < elements && is_ok; first += piece_elements) {
        uint64_t count = elements - first < piece_elements ? elements - first : piece_elements;
        const struct slot_exchange exchange = {.from =
                                                   address_at(transfer, call->from) + first * width,
                                               .from_stride = call->slot_bytes,
                                               .to = nccl->args.staging,
                                               .to_stride = piece_elements * width,
                                               .bytes = count * width,
                                               .skips_own = true};
        is_ok = (others == 0 || send_and_receive(transfer, &exchange)) &&
                check_cuda(transfer, add_slots(transfer, nccl->args.staging, piece_elements * width,
                                               first, count));
    }
    return is_ok;
}

static bool can_sum_in_rings(const struct transfer *transfer) {
    return transfer->nccl->args.sum_in_rings && transfer->call->wire == DTYPE_F32 &&
           transfer->comm != NULL;
}

static bool enqueue_reduce_scatter(const struct transfer *transfer) {
    const struct collective_call *call = transfer->call;
    if (!can_sum_in_rings(transfer)) {
        return sum_in_order(transfer);
    }
    return check_nccl(transfer,
                      transfer->nccl->library.ncclReduceScatter(
                          address_at(transfer, call->from), own_sum(transfer),
                          call->slot_bytes / sizeof(float), NCCL_FLOAT32, NCCL_SUM, transfer->comm,
                          transfer->stream),
                      "reduce and scatter slots");
}

static bool enqueue_all_gather(const struct transfer *transfer) {
    const struct collective_call *call = transfer->call;
    return transfer->comm == NULL ||
           check_nccl(transfer,
                      transfer->nccl->library.ncclAllGather(
                          own_slot(transfer, call->to), address_at(transfer, call->to),
                          call->slot_bytes, NCCL_INT8, transfer->comm, transfer->stream),
                      "gather slots");
}

static bool enqueue_all_reduce(const struct transfer *transfer) {
    const struct collective_call *call = transfer->call;
    if (!can_sum_in_rings(transfer)) {
        return sum_in_order(transfer) && enqueue_all_gather(transfer);
    }
    uint64_t count = call->slot_bytes / sizeof(float) * (uint64_t)transfer->group->size;
    return check_nccl(transfer,
                      transfer->nccl->library.ncclAllReduce(
                          address_at(transfer, call->from), address_at(transfer, call->to), count,
                          NCCL_FLOAT32, NCCL_SUM, transfer->comm, transfer->stream),
                      "sum slots");
}

static bool enqueue_all_to_all(const struct transfer *transfer) {
    const struct collective_call *call = transfer->call;
    const struct cuda_driver *driver = &transfer->nccl->args.device->driver;
    const struct slot_exchange exchange = {.from = address_at(transfer, call->from),
                                           .from_stride = call->slot_bytes,
                                           .to = address_at(transfer, call->to),
                                           .to_stride = call->slot_bytes,
                                           .bytes = call->slot_bytes};
    CUresult result = driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)own_slot(transfer, call->to),
                                            (CUdeviceptr)(uintptr_t)own_slot(transfer, call->from),
                                            call->slot_bytes, transfer->stream);
    return check_cuda(transfer, result) &&
           (transfer->comm == NULL || send_and_receive(transfer, &exchange));
}

static bool enqueue_broadcast(const struct transfer *transfer) {
    const struct collective_call *call = transfer->call;
    return transfer->comm == NULL ||
           check_nccl(transfer,
                      transfer->nccl->library.ncclBroadcast(address_at(transfer, call->to),
                                                            address_at(transfer, call->to),
                                                            call->slot_bytes, NCCL_INT8, call->root,
                                                            transfer->comm, transfer->stream),
                      "broadcast");
}

/* A barrier is a sum of one unused number. */
static bool enqueue_barrier(const struct transfer *transfer) {
    const struct nccl *nccl = transfer->nccl;
    ASSERT(nccl->args.staging_bytes >= sizeof(float));
    return transfer->comm == NULL ||
           check_nccl(transfer,
                      nccl->library.ncclAllReduce(nccl->args.staging, nccl->args.staging, 1,
                                                  NCCL_FLOAT32, NCCL_SUM, transfer->comm,
                                                  transfer->stream),
                      "pass a barrier");
}

static bool enqueue_call(const struct transfer *transfer) {
    if (transfer->call->slot_bytes == 0 && transfer->call->kind != COLLECTIVE_BARRIER) {
        return true;
    }
    switch (transfer->call->kind) {
    case COLLECTIVE_ALL_GATHER:
        return enqueue_all_gather(transfer);
    case COLLECTIVE_REDUCE_SCATTER:
        return enqueue_reduce_scatter(transfer);
    case COLLECTIVE_ALL_REDUCE:
        return enqueue_all_reduce(transfer);
    case COLLECTIVE_ALL_TO_ALL:
        return enqueue_all_to_all(transfer);
    case COLLECTIVE_BROADCAST:
        return enqueue_broadcast(transfer);
    case COLLECTIVE_BARRIER:
        return enqueue_barrier(transfer);
    case COLLECTIVE_KIND_COUNT:
        break;
    }
    return true;
}

void nccl_enqueue(struct communicator *communicator, const struct collective_call *call,
                  CUstream stream) {
    struct nccl *nccl = communicator->self;
    if (nccl->has_failed || atomic_load(&nccl->is_aborted)) {
        return;
    }
    int comm_index = nccl->comm_index[call->group];
    const struct transfer transfer = {.nccl = nccl,
                                      .call = call,
                                      .group = &communicator->groups[call->group],
                                      .comm = comm_index < 0 ? NULL : nccl->comms[comm_index].comm,
                                      .stream = stream};
    (void)enqueue_call(&transfer); /* a failure is stored, and returned by nccl_failure */
}

void nccl_run(void *self, const struct collective_call *call) {
    struct nccl *nccl = self;
    struct communicator *communicator = nccl->communicator;
    CUresult result = CUDA_SUCCESS;
    struct fault ignored; /* not needed: the communicator stores the fault too */
    if (nccl->has_failed || atomic_load(&nccl->is_aborted)) {
        return;
    }
    nccl_enqueue(communicator, call, nccl->stream);
    if (nccl_wait(communicator, nccl->stream, &result, &ignored) == OK && result == CUDA_SUCCESS) {
        communicator->received_bytes[call->kind] +=
            collective_received_bytes(&communicator->groups[call->group], call);
    }
}
