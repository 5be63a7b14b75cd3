/* shm_run: the calls of an shm communicator. Each function that does one step of a call returns
 * false if the calls were aborted.
 *
 * Each rank visits its peers in group order, starting after itself, so that ranks at equal speed do
 * not read the memory of the same peer at the same time. */
#include "transport/collectives/shm_state.h"

/* A running call. */
struct transfer {
    struct shm *shm;
    const struct collective_call *call;
    const struct collective_group *group;
    unsigned char *own; /* this rank's memory of the space */
};

static unsigned char *rank_memory(const struct transfer *transfer, int index) {
    return transfer->shm->arenas[transfer->call->space][transfer->group->ranks[index]];
}

static uint32_t publish_phase(struct transfer *transfer) {
    return shm_board_publish(&transfer->shm->board, transfer->call->group);
}

static bool await_rank(struct transfer *transfer, int index, uint32_t phase) {
    return shm_board_await(&transfer->shm->board, transfer->call->group,
                           transfer->group->ranks[index], phase);
}

static int peer_at_distance(const struct transfer *transfer, int step) {
    return (transfer->group->index + step) % transfer->group->size;
}

static bool await_all(struct transfer *transfer, uint32_t phase) {
    for (int step = 1; step < transfer->group->size; step++) {
        if (!await_rank(transfer, peer_at_distance(transfer, step), phase)) {
            return false;
        }
    }
    return true;
}

static bool publish_and_await_all(struct transfer *transfer) {
    return await_all(transfer, publish_phase(transfer));
}

/* Copy a slot from a peer's memory at `from` to this rank's memory at `to`. */
static void copy_slot(struct transfer *transfer, int index, uint64_t from, uint64_t to) {
    const struct collective_call *call = transfer->call;
    memcpy(transfer->own + to, rank_memory(transfer, index) + from, call->slot_bytes);
    transfer->shm->communicator->received_bytes[call->kind] += call->slot_bytes;
}

/* Copy every slot from its owner, each as soon as the owner has completed `phase`. */
static bool gather_slots(struct transfer *transfer, uint32_t phase) {
    for (int step = 1; step < transfer->group->size; step++) {
        int peer = peer_at_distance(transfer, step);
        uint64_t slot = transfer->call->to + (uint64_t)peer * transfer->call->slot_bytes;
        if (!await_rank(transfer, peer, phase)) {
            return false;
        }
        copy_slot(transfer, peer, slot, slot);
    }
    return true;
}

static bool run_all_to_all(struct transfer *transfer, uint32_t phase) {
    const struct collective_call *call = transfer->call;
    uint64_t index = (uint64_t)transfer->group->index;
    uint64_t from = call->from + index * call->slot_bytes;
    memcpy(transfer->own + call->to + index * call->slot_bytes, transfer->own + from,
           call->slot_bytes);
    for (int step = 1; step < transfer->group->size; step++) {
        int peer = peer_at_distance(transfer, step);
        if (!await_rank(transfer, peer, phase)) {
            return false;
        }
        copy_slot(transfer, peer, from, call->to + (uint64_t)peer * call->slot_bytes);
    }
    return true;
}

static bool run_broadcast(struct transfer *transfer, uint32_t phase) {
    const struct collective_call *call = transfer->call;
    if (call->root == transfer->group->index) {
        return true;
    }
    if (!await_rank(transfer, call->root, phase)) {
        return false;
    }
    copy_slot(transfer, call->root, call->to, call->to);
    return true;
}

/* Sum this rank's slot over all ranks, in group order. If it works in place, it overwrites only
 * data that no other rank reads. */
static bool sum_own_slot(struct transfer *transfer, uint32_t phase) {
    const struct collective_call *call = transfer->call;
    const struct collective_group *group = transfer->group;
    struct shm *shm = transfer->shm;
    if (!await_all(transfer, phase)) {
        return false;
    }
    uint64_t elements = call->slot_bytes / (uint64_t)dtype_bytes(call->wire);
    for (int index = 0; index < group->size; index++) {
        shm->sources[index] =
            rank_memory(transfer, index) + call->from + (uint64_t)group->index * call->slot_bytes;
        if (index != group->index) {
            shm->communicator->received_bytes[call->kind] += call->slot_bytes;
        }
    }
    uint64_t to = call->to + (uint64_t)group->index * elements * sizeof(float);
    shm_sum(call->wire, shm->sources, group->size, shm->scratch, (float *)(transfer->own + to),
            elements);
    return true;
}

static bool run_all_reduce(struct transfer *transfer, uint32_t phase) {
    return sum_own_slot(transfer, phase) && gather_slots(transfer, publish_phase(transfer));
}

static bool run_call(struct transfer *transfer, uint32_t phase) {
    switch (transfer->call->kind) {
    case COLLECTIVE_ALL_GATHER:
        return gather_slots(transfer, phase);
    case COLLECTIVE_REDUCE_SCATTER:
        return sum_own_slot(transfer, phase);
    case COLLECTIVE_ALL_REDUCE:
        return run_all_reduce(transfer, phase);
    case COLLECTIVE_ALL_TO_ALL:
        return run_all_to_all(transfer, phase);
    case COLLECTIVE_BROADCAST:
        return run_broadcast(transfer, phase);
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_KIND_COUNT:
        break;
    }
    return true;
}

void shm_run(void *self, const struct collective_call *call) {
    struct shm *shm = self;
    struct transfer transfer = {.shm = shm,
                                .call = call,
                                .group = &shm->communicator->groups[call->group],
                                .own = shm->own[call->space]};
    if (call->kind == COLLECTIVE_BARRIER) {
        (void)publish_and_await_all(&transfer);
    } else if (run_call(&transfer, publish_phase(&transfer))) {
        (void)publish_and_await_all(&transfer);
    }
}
