/* nccl_transfer: the calls of the emulated NCCL as work of streams. Each is two pieces: one hands
 * out what this rank sends, when the buffer is free again; one takes what the others have sent,
 * when all are as far. */
#include "tests/emulated/nccl_parts.h"

#include "tests/emulated/driver.h"

#include <stdlib.h>
#include <string.h>

struct transfer *transfer_new(struct ncclComm *comm, enum transfer_kind kind) {
    struct transfer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        nccl_stop("no memory");
    }
    made->comm = comm;
    made->kind = kind;
    made->next = comm->transfers;
    comm->transfers = made;
    return made;
}

/* ---- running ---- */

static struct channel_rank *rank_of(const struct ncclComm *comm, int rank) {
    return &comm->channel->ranks[rank];
}

static char *room_of(const struct ncclComm *comm, int rank, uint64_t number) {
    size_t place = (size_t)rank * NCCL_TURNS + number % NCCL_TURNS;
    return (char *)comm->channel + sizeof *comm->channel + place * NCCL_ROOM_BYTES;
}

/* Which transfer of this communicator a piece is about to make. */
static uint64_t number_of(const struct ncclComm *comm) {
    return atomic_load(&rank_of(comm, comm->index)->taken);
}

static bool is_broken(struct ncclComm *comm) {
    if (emulated_nccl.plan.error_at > 0 && comm->done + 1 >= emulated_nccl.plan.error_at &&
        comm->state == NCCL_SUCCESS) {
        (void)nccl_refuse(NCCL_REMOTE_ERROR, "injected: a link broke");
        comm->state = NCCL_REMOTE_ERROR;
    }
    return comm->state == NCCL_REMOTE_ERROR;
}

/* The buffer of this turn is free when everybody has taken what was in it. */
static bool may_offer(void *context) {
    struct ncclComm *comm = ((struct transfer *)context)->comm;
    if (comm->aborted) {
        return true;
    }
    uint64_t number = number_of(comm);
    bool free_again = !is_broken(comm);
    for (int rank = 0; rank < comm->size && free_again; rank++) {
        free_again = atomic_load(&rank_of(comm, rank)->taken) + NCCL_TURNS > number;
    }
    return free_again;
}

static bool may_take(void *context) {
    struct ncclComm *comm = ((struct transfer *)context)->comm;
    if (comm->aborted) {
        return true;
    }
    uint64_t number = number_of(comm);
    bool all = comm->state == NCCL_SUCCESS && nccl_draw(4) > 0;
    for (int rank = 0; rank < comm->size && all; rank++) {
        all = atomic_load(&rank_of(comm, rank)->offered) > number;
    }
    return all;
}

static void offer_part(struct channel_offer *offer, int rank, char *room, uint64_t *used,
                       const struct part *part) {
    offer->present[rank] = part->address != NULL;
    offer->at[rank] = *used;
    offer->bytes[rank] = part->bytes;
    if (part->address != NULL) {
        if (*used + part->bytes > NCCL_ROOM_BYTES) {
            nccl_stop("a transfer of more than %d bytes", NCCL_ROOM_BYTES);
        }
        memcpy(room + *used, part->address, part->bytes);
        *used += part->bytes;
    }
}

static void offer(void *context) {
    struct transfer *transfer = context;
    struct ncclComm *comm = transfer->comm;
    if (comm->aborted) {
        return;
    }
    uint64_t number = number_of(comm);
    struct channel_rank *own = rank_of(comm, comm->index);
    struct channel_offer *made = &own->offers[number % NCCL_TURNS];
    char *room = room_of(comm, comm->index, number);
    uint64_t used = 0;
    made->kind = transfer->kind;
    if (transfer->kind == TRANSFER_SUM) {
        const struct part all = {(char *)(uintptr_t)transfer->from,
                                 transfer->count * sizeof(float)};
        offer_part(made, 0, room, &used, &all);
    }
    for (int rank = 0; transfer->kind == TRANSFER_SLOTS && rank < comm->size; rank++) {
        offer_part(made, rank, room, &used, &transfer->send[rank]);
    }
    atomic_fetch_add(&own->offered, 1);
}

static const struct channel_offer *offer_of(const struct ncclComm *comm, int rank,
                                            const struct transfer *transfer, uint64_t number) {
    const struct channel_offer *theirs = &rank_of(comm, rank)->offers[number % NCCL_TURNS];
    if (theirs->kind != transfer->kind) {
        nccl_stop("transfer %llu is of one kind here and of another on rank %d of %d",
                  (unsigned long long)number, rank, comm->size);
    }
    return theirs;
}

static void take_slots(const struct transfer *transfer, uint64_t number) {
    const struct ncclComm *comm = transfer->comm;
    for (int rank = 0; rank < comm->size; rank++) {
        const struct part *wanted = &transfer->receive[rank];
        const struct channel_offer *theirs = offer_of(comm, rank, transfer, number);
        if (theirs->present[comm->index] != (wanted->address != NULL) ||
            (wanted->address != NULL && theirs->bytes[comm->index] != wanted->bytes)) {
            nccl_stop("transfer %llu: rank %d sends %llu bytes, rank %d expects %llu",
                      (unsigned long long)number, rank,
                      (unsigned long long)theirs->bytes[comm->index], comm->index,
                      (unsigned long long)wanted->bytes);
        }
        if (wanted->address != NULL) {
            memcpy(wanted->address, room_of(comm, rank, number) + theirs->at[comm->index],
                   wanted->bytes);
        }
    }
}

/* From a place that depends on the element, round all ranks: another order than the group's. */
static void take_sum(const struct transfer *transfer, uint64_t number) {
    const struct ncclComm *comm = transfer->comm;
    for (int rank = 0; rank < comm->size; rank++) {
        if (offer_of(comm, rank, transfer, number)->bytes[0] != transfer->count * sizeof(float)) {
            nccl_stop("transfer %llu: rank %d sums another number of elements",
                      (unsigned long long)number, rank);
        }
    }
    for (uint64_t i = 0; i < transfer->wanted; i++) {
        uint64_t element = transfer->first + i;
        int begin = (int)(element * (uint64_t)comm->size / transfer->count) + 1;
        float sum = 0;
        for (int step = 0; step < comm->size; step++) {
            int rank = (begin + step) % comm->size;
            const float *theirs = (const float *)(const void *)room_of(comm, rank, number);
            sum = step == 0 ? theirs[element] : sum + theirs[element];
        }
        transfer->to[i] = sum;
    }
}

static void take(void *context) {
    const struct transfer *transfer = context;
    struct ncclComm *comm = transfer->comm;
    if (comm->aborted) {
        return;
    }
    uint64_t number = number_of(comm);
    if (transfer->kind == TRANSFER_SUM) {
        take_sum(transfer, number);
    } else {
        take_slots(transfer, number);
    }
    comm->done++;
    atomic_fetch_add(&rank_of(comm, comm->index)->taken, 1);
}

/* ---- enqueueing ---- */

unsigned transfer_enqueue(struct ncclComm *comm) {
    struct transfer *transfer = comm->pending;
    comm->pending = NULL;
    if (emulated_driver_enqueue_when(comm->stream, may_offer, offer, transfer) != CUDA_SUCCESS ||
        emulated_driver_enqueue_when(comm->stream, may_take, take, transfer) != CUDA_SUCCESS) {
        return nccl_refuse(1, emulated_driver_reason());
    }
    return NCCL_SUCCESS;
}

unsigned transfer_issue(struct transfer *transfer, CUstream stream) {
    struct ncclComm *comm = transfer->comm;
    if (comm->pending != NULL || comm->questions > 0) {
        nccl_stop("a call while another is in progress");
    }
    unsigned connected = nccl_connect(comm, transfer->between_two);
    if (connected != NCCL_SUCCESS) {
        return connected;
    }
    comm->pending = transfer;
    comm->stream = stream;
    if (nccl_draw(2) == 0) {
        return transfer_enqueue(comm);
    }
    comm->questions = (int)nccl_draw(3) + 1;
    return NCCL_IN_PROGRESS;
}

static struct transfer *grouped(struct ncclComm *comm, CUstream stream) {
    if (emulated_nccl.group_depth == 0) {
        nccl_stop("a send or receive outside of a group");
    }
    if (emulated_nccl.grouped == NULL) {
        emulated_nccl.grouped = transfer_new(comm, TRANSFER_SLOTS);
        emulated_nccl.grouped->between_two = true;
        emulated_nccl.grouped_on = stream;
    }
    if (emulated_nccl.grouped->comm != comm || emulated_nccl.grouped_on != stream) {
        nccl_stop("a group over several communicators or streams is not emulated");
    }
    return emulated_nccl.grouped;
}

static unsigned put_part(struct ncclComm *comm, struct part *part, const struct part *wanted,
                         int peer) {
    if (peer < 0 || peer >= comm->size || part->address != NULL) {
        nccl_stop("rank %d: no such rank, or twice in one group", peer);
    }
    *part = *wanted;
    return NCCL_SUCCESS;
}

static unsigned send_to(const void *from, size_t count, unsigned type, int peer,
                        struct ncclComm *comm, CUstream stream) {
    const struct part wanted = {(char *)(uintptr_t)from, count * (type == NCCL_INT8 ? 1 : 4)};
    return put_part(comm, &grouped(comm, stream)->send[peer], &wanted, peer);
}

static unsigned receive_from(void *to, size_t count, unsigned type, int peer, struct ncclComm *comm,
                             CUstream stream) {
    const struct part wanted = {to, count * (type == NCCL_INT8 ? 1 : 4)};
    return put_part(comm, &grouped(comm, stream)->receive[peer], &wanted, peer);
}

static unsigned group_start(void) {
    emulated_nccl.group_depth++;
    return NCCL_SUCCESS;
}

static unsigned group_end(void) {
    struct transfer *transfer = emulated_nccl.grouped;
    if (emulated_nccl.group_depth-- != 1) {
        nccl_stop("groups within groups are not emulated");
    }
    emulated_nccl.grouped = NULL;
    return transfer != NULL ? transfer_issue(transfer, emulated_nccl.grouped_on) : NCCL_SUCCESS;
}

static unsigned all_gather(const void *from, void *to, size_t count, unsigned type,
                           struct ncclComm *comm, CUstream stream) {
    struct transfer *transfer = transfer_new(comm, TRANSFER_SLOTS);
    if (type != NCCL_INT8 || (const char *)from != (char *)to + (size_t)comm->index * count) {
        nccl_stop("only gathers of bytes, in place, are emulated");
    }
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank != comm->index) {
            transfer->send[rank] = (struct part){(char *)(uintptr_t)from, count};
            transfer->receive[rank] = (struct part){(char *)to + (size_t)rank * count, count};
        }
    }
    return transfer_issue(transfer, stream);
}

static unsigned broadcast(const void *from, void *to, size_t count, unsigned type, int root,
                          struct ncclComm *comm, CUstream stream) {
    struct transfer *transfer = transfer_new(comm, TRANSFER_SLOTS);
    if (type != NCCL_INT8 || from != to) {
        nccl_stop("only broadcasts of bytes, in place, are emulated");
    }
    for (int rank = 0; rank < comm->size && root == comm->index; rank++) {
        if (rank != root) {
            transfer->send[rank] = (struct part){to, count};
        }
    }
    if (root != comm->index) {
        transfer->receive[root] = (struct part){to, count};
    }
    return transfer_issue(transfer, stream);
}

static unsigned sum(struct transfer *transfer, unsigned type, unsigned reduction, CUstream stream) {
    if (type != NCCL_FLOAT32 || reduction != NCCL_SUM) {
        nccl_stop("only sums of f32 are emulated");
    }
    return transfer_issue(transfer, stream);
}

static unsigned reduce_scatter(const void *from, void *to, size_t count, unsigned type,
                               unsigned reduction, struct ncclComm *comm, CUstream stream) {
    struct transfer *transfer = transfer_new(comm, TRANSFER_SUM);
    transfer->from = from;
    transfer->to = to;
    transfer->count = count * (size_t)comm->size;
    transfer->first = count * (size_t)comm->index;
    transfer->wanted = count;
    return sum(transfer, type, reduction, stream);
}

static unsigned all_reduce(const void *from, void *to, size_t count, unsigned type,
                           unsigned reduction, struct ncclComm *comm, CUstream stream) {
    struct transfer *transfer = transfer_new(comm, TRANSFER_SUM);
    transfer->from = from;
    transfer->to = to;
    transfer->count = count;
    transfer->wanted = count;
    return sum(transfer, type, reduction, stream);
}

void transfer_fill_table(struct nccl_library *library) {
    library->ncclGroupStart = group_start;
    library->ncclGroupEnd = group_end;
    library->ncclSend = send_to;
    library->ncclRecv = receive_from;
    library->ncclAllGather = all_gather;
    library->ncclBroadcast = broadcast;
    library->ncclReduceScatter = reduce_scatter;
    library->ncclAllReduce = all_reduce;
}
