/* The calls of the shm communicator. Each step gives false when the calls were ended meanwhile.
 *
 * Peers are visited from the next one in the group onwards, so that no two ranks read the same
 * peer's memory at the same time as long as they keep pace. */
#include "transport/collectives/shm_state.h"

#include <string.h>

/* One call under way. */
struct passage {
    struct shm *shm;
    const struct collective_call *call;
    const struct collective_group *group;
    unsigned char *own; /* the space's memory */
};

static unsigned char *memory_of(const struct passage *passage, int member) {
    return passage->shm->arenas[passage->call->space][passage->group->ranks[member]];
}

static uint32_t post(struct passage *passage) {
    return shm_board_publish(&passage->shm->board, passage->call->group);
}

static bool await(struct passage *passage, int member, uint32_t phase) {
    return shm_board_await(&passage->shm->board, passage->call->group,
                           passage->group->ranks[member], phase);
}

static int peer_after(const struct passage *passage, int step) {
    return (passage->group->index + step) % passage->group->size;
}

static bool await_all(struct passage *passage, uint32_t phase) {
    for (int step = 1; step < passage->group->size; step++) {
        if (!await(passage, peer_after(passage, step), phase)) {
            return false;
        }
    }
    return true;
}

static bool meet(struct passage *passage) {
    return await_all(passage, post(passage));
}

/* Bytes of a peer's memory at `from` to the own memory at `to`. */
static void receive(struct passage *passage, int member, uint64_t from, uint64_t to) {
    const struct collective_call *call = passage->call;
    memcpy(passage->own + to, memory_of(passage, member) + from, call->slot_bytes);
    passage->shm->communicator->received_bytes[call->kind] += call->slot_bytes;
}

/* Every slot from its owner, each as soon as the owner is at `phase`. */
static bool gather(struct passage *passage, uint32_t phase) {
    for (int step = 1; step < passage->group->size; step++) {
        int peer = peer_after(passage, step);
        uint64_t slot = passage->call->to + (uint64_t)peer * passage->call->slot_bytes;
        if (!await(passage, peer, phase)) {
            return false;
        }
        receive(passage, peer, slot, slot);
    }
    return true;
}

static bool all_to_all(struct passage *passage, uint32_t phase) {
    const struct collective_call *call = passage->call;
    uint64_t index = (uint64_t)passage->group->index;
    uint64_t from = call->from + index * call->slot_bytes;
    memcpy(passage->own + call->to + index * call->slot_bytes, passage->own + from,
           call->slot_bytes);
    for (int step = 1; step < passage->group->size; step++) {
        int peer = peer_after(passage, step);
        if (!await(passage, peer, phase)) {
            return false;
        }
        receive(passage, peer, from, call->to + (uint64_t)peer * call->slot_bytes);
    }
    return true;
}

static bool broadcast(struct passage *passage, uint32_t phase) {
    const struct collective_call *call = passage->call;
    if (call->root == passage->group->index) {
        return true;
    }
    if (!await(passage, call->root, phase)) {
        return false;
    }
    receive(passage, call->root, call->to, call->to);
    return true;
}

/* The own slot of all members, in group order. In place it is written where only we read. */
static bool sum_own_slot(struct passage *passage, uint32_t phase) {
    const struct collective_call *call = passage->call;
    const struct collective_group *group = passage->group;
    struct shm *shm = passage->shm;
    if (!await_all(passage, phase)) {
        return false;
    }
    uint64_t elements = call->slot_bytes / (uint64_t)dtype_bytes(call->wire);
    for (int member = 0; member < group->size; member++) {
        shm->sources[member] =
            memory_of(passage, member) + call->from + (uint64_t)group->index * call->slot_bytes;
        if (member != group->index) {
            shm->communicator->received_bytes[call->kind] += call->slot_bytes;
        }
    }
    uint64_t to = call->to + (uint64_t)group->index * elements * sizeof(float);
    shm_sum(call->wire, shm->sources, group->size, shm->scratch, (float *)(passage->own + to),
            elements);
    return true;
}

static bool all_reduce(struct passage *passage, uint32_t phase) {
    return sum_own_slot(passage, phase) && gather(passage, post(passage));
}

static bool move(struct passage *passage, uint32_t phase) {
    switch (passage->call->kind) {
    case COLLECTIVE_ALL_GATHER:
        return gather(passage, phase);
    case COLLECTIVE_REDUCE_SCATTER:
        return sum_own_slot(passage, phase);
    case COLLECTIVE_ALL_REDUCE:
        return all_reduce(passage, phase);
    case COLLECTIVE_ALL_TO_ALL:
        return all_to_all(passage, phase);
    case COLLECTIVE_BROADCAST:
        return broadcast(passage, phase);
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_KIND_COUNT:
        break;
    }
    return true;
}

void shm_run(void *self, const struct collective_call *call) {
    struct shm *shm = self;
    struct passage passage = {.shm = shm,
                              .call = call,
                              .group = &shm->communicator->groups[call->group],
                              .own = shm->own[call->space]};
    if (call->kind == COLLECTIVE_BARRIER) {
        (void)meet(&passage);
    } else if (move(&passage, post(&passage))) {
        (void)meet(&passage);
    }
}
