/* entry_results: what a commit says of its rows. */
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/merkle.h"

#include <string.h>

static uint8_t *append_number(uint8_t *at, uint64_t number, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(number >> (8 * i));
    }
    return at + bytes;
}

static struct hash row_leaf(const struct entry_slice *row) {
    uint8_t bytes[1 + ENTRY_SLICE_BYTES];
    uint8_t *at = bytes;
    *at++ = MERKLE_RESULT;
    at = append_number(at, row->begin, 8);
    at = append_number(at, row->end, 8);
    at = append_number(at, row->owner, 1);
    at = append_number(at, row->epoch, 2);
    at = append_number(at, row->contributors, 8);
    at = append_number(at, row->weight, 8);
    memcpy(at, row->hash.bytes, HASH_BYTES);
    ASSERT(at + HASH_BYTES == bytes + sizeof bytes);
    return hash_of(bytes, sizeof bytes);
}

struct hash entry_results_root(const struct entry *entry) {
    struct merkle_stack stack = {.leaf_count = 0};
    ASSERT(entry->slice_count > 0 && entry->slice_count <= SWARM_SLICES_MAX);
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        const struct hash leaf = row_leaf(&entry->slices[s]);
        merkle_push_leaf(&stack, &leaf);
    }
    const struct hash top = merkle_top(&stack);
    return merkle_list_root_from_top(entry->slice_count, &top);
}

void entry_count_results(const struct entry *entry, uint32_t *contributed, uint32_t *owned) {
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        const struct entry_slice *row = &entry->slices[s];
        ASSERT(row->owner < entry->seat_count);
        owned[row->owner]++;
        for (uint64_t seats = row->contributors; seats != 0; seats &= seats - 1) {
            const uint32_t seat = (uint32_t)__builtin_ctzll(seats);
            ASSERT(seat < entry->seat_count);
            contributed[seat]++;
        }
    }
}

void entry_complete_results(struct entry *entry) {
    uint32_t contributed[SWARM_MEMBERS_MAX] = {0}, owned[SWARM_MEMBERS_MAX] = {0};
    entry_count_results(entry, contributed, owned);
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        entry->members[seat].contributed = contributed[seat];
        entry->members[seat].owned = owned[seat];
    }
    entry->result_count = entry->slice_count;
    entry->results = entry_results_root(entry);
}
