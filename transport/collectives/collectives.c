/* collectives: checks and counts calls for all implementations. */
#include "transport/collectives/collectives.h"

/* Whether `count` slots of `slot` bytes at `offset` are inside a space of `bytes`. */
static bool are_slots_within(uint64_t bytes, uint64_t offset, uint64_t slot, uint64_t count) {
    return offset <= bytes && slot <= (bytes - offset) / count;
}

static bool are_disjoint(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a + a_bytes <= b || b + b_bytes <= a;
}

static void check_reduce_scatter(uint64_t space_bytes, const struct collective_group *group,
                                 const struct collective_call *call) {
    uint64_t size = (uint64_t)group->size;
    uint64_t element = (uint64_t)dtype_bytes(call->wire);
    uint64_t sum_bytes = call->slot_bytes / element * sizeof(float);
    ASSERT(call->wire == DTYPE_F32 || call->wire == DTYPE_BF16);
    ASSERT(call->slot_bytes % element == 0 && call->from % element == 0);
    ASSERT(call->to % sizeof(float) == 0);
    ASSERT(are_slots_within(space_bytes, call->from, call->slot_bytes, size));
    ASSERT(are_slots_within(space_bytes, call->to, sum_bytes, size));
    bool in_place = call->to == call->from && call->wire == DTYPE_F32;
    ASSERT(in_place || are_disjoint(call->to + (uint64_t)group->index * sum_bytes, sum_bytes,
                                    call->from, size * call->slot_bytes));
}

static void check_buffers(uint64_t space_bytes, const struct collective_group *group,
                          const struct collective_call *call) {
    uint64_t size = (uint64_t)group->size;
    switch (call->kind) {
    case COLLECTIVE_REDUCE_SCATTER:
        check_reduce_scatter(space_bytes, group, call);
        break;
    case COLLECTIVE_ALL_REDUCE:
        ASSERT(call->wire == DTYPE_F32 && call->to == call->from);
        check_reduce_scatter(space_bytes, group, call);
        break;
    case COLLECTIVE_ALL_GATHER:
        ASSERT(are_slots_within(space_bytes, call->to, call->slot_bytes, size));
        break;
    case COLLECTIVE_ALL_TO_ALL:
        ASSERT(are_slots_within(space_bytes, call->from, call->slot_bytes, size));
        ASSERT(are_slots_within(space_bytes, call->to, call->slot_bytes, size));
        ASSERT(
            are_disjoint(call->from, size * call->slot_bytes, call->to, size * call->slot_bytes));
        break;
    case COLLECTIVE_BROADCAST:
        ASSERT(call->root >= 0 && call->root < group->size);
        ASSERT(are_slots_within(space_bytes, call->to, call->slot_bytes, 1));
        break;
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_KIND_COUNT:
        break;
    }
}

void collective_run(struct communicator *communicator, const struct collective_call *call) {
    ASSERT(call->kind < COLLECTIVE_KIND_COUNT && call->space < SPACE_COUNT);
    ASSERT(call->group >= 0 && call->group < communicator->group_count);
    const struct collective_group *group = &communicator->groups[call->group];
    ASSERT(group->index >= 0 && group->index < group->size);
    check_buffers(communicator->space_bytes[call->space], group, call);
    communicator->call_counts[call->kind]++;
    communicator->methods->run(communicator->self, call);
}

uint64_t collective_received_bytes(const struct collective_group *group,
                                   const struct collective_call *call) {
    uint64_t others = (uint64_t)(group->size - 1) * call->slot_bytes;
    switch (call->kind) {
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALL_TO_ALL:
        return others;
    case COLLECTIVE_ALL_REDUCE:
        return 2 * others;
    case COLLECTIVE_BROADCAST:
        return group->index == call->root ? 0 : call->slot_bytes;
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_KIND_COUNT:
        break;
    }
    return 0;
}

void collective_count_call(struct communicator *communicator, const struct collective_call *call) {
    const struct collective_group *group = &communicator->groups[call->group];
    communicator->call_counts[call->kind]++;
    communicator->received_bytes[call->kind] += collective_received_bytes(group, call);
}

void communicator_abort(struct communicator *communicator) {
    communicator->methods->abort(communicator->self);
}

void communicator_close(struct communicator *communicator) {
    communicator->methods->close(communicator->self);
}
