#include "runtime/swarm/replica/result_index.h"

#include "base/check.h"

#include <string.h>

size_t result_index_bytes(uint32_t slice_count) {
    return (size_t)RESULT_ROUNDS * slice_count * sizeof(struct stored_result);
}

void result_index_bind(struct result_index *rows, void *memory, uint32_t slice_count) {
    memset(memory, 0, result_index_bytes(slice_count));
    *rows = (struct result_index){.slice_count = slice_count, .results = memory};
}

struct stored_result *result_index_slot(struct result_index *rows, uint32_t round, uint32_t slice) {
    ASSERT(slice < rows->slice_count);
    uint32_t row = round % RESULT_ROUNDS;
    struct stored_result *results = &rows->results[(size_t)row * rows->slice_count];
    if (rows->rounds[row] != round) {
        rows->rounds[row] = round;
        memset(results, 0, rows->slice_count * sizeof(*results));
    }
    results[slice].is_held = false;
    return &results[slice];
}

const struct stored_result *result_index_find(const struct result_index *rows, uint32_t round,
                                              uint32_t slice, const struct hash *hash) {
    ASSERT(slice < rows->slice_count);
    uint32_t row = round % RESULT_ROUNDS;
    const struct stored_result *held = &rows->results[(size_t)row * rows->slice_count + slice];
    bool is_it = rows->rounds[row] == round && held->is_held && hash_equal(&held->hash, hash);
    return is_it ? held : NULL;
}
