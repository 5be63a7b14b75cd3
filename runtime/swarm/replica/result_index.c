#include "runtime/swarm/replica/result_index.h"

#include "base/check.h"

#include <string.h>

size_t result_index_bytes(uint32_t slice_count) {
    return (size_t)RESULT_ROUNDS * slice_count * sizeof(struct stored_result);
}

void result_index_bind(struct result_index *index, void *memory, uint32_t slice_count) {
    memset(memory, 0, result_index_bytes(slice_count));
    *index = (struct result_index){.slice_count = slice_count, .results = memory};
}

struct stored_result *result_index_slot(struct result_index *index, uint32_t round,
                                        uint32_t slice) {
    ASSERT(slice < index->slice_count);
    uint32_t row = round % RESULT_ROUNDS;
    struct stored_result *results = &index->results[(size_t)row * index->slice_count];
    if (index->rounds[row] != round) {
        index->rounds[row] = round;
        memset(results, 0, index->slice_count * sizeof(*results));
    }
    results[slice].is_stored = false;
    return &results[slice];
}

const struct stored_result *result_index_find(const struct result_index *index, uint32_t round,
                                              uint32_t slice, const struct hash *hash) {
    ASSERT(slice < index->slice_count);
    uint32_t row = round % RESULT_ROUNDS;
    const struct stored_result *stored = &index->results[(size_t)row * index->slice_count + slice];
    bool matches =
        index->rounds[row] == round && stored->is_stored && hash_equal(&stored->hash, hash);
    return matches ? stored : NULL;
}
