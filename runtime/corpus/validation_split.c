#include "runtime/corpus/validation_split.h"

#include "base/random.h"

/* Returns the index of the first document of a group. Of each group, one document is kept for
 * validation. */
static uint64_t group_begin(uint64_t group, uint64_t share_ppm) {
    return (group * VALIDATION_MILLION + share_ppm - 1) / share_ppm;
}

/* Returns the index of the document of a group that is kept for validation. */
static uint64_t kept_index(uint64_t group, uint64_t share_ppm) {
    const uint64_t begin = group_begin(group, share_ppm);
    const uint64_t size = group_begin(group + 1, share_ppm) - begin;
    uint32_t words[4];
    random_block(random_key(0, "validation"), group, words);
    return begin + ((uint64_t)words[0] << 32 | words[1]) % size;
}

bool validation_split_has(uint64_t index, uint64_t share_ppm) {
    return share_ppm > 0 && kept_index(index * share_ppm / VALIDATION_MILLION, share_ppm) == index;
}

uint64_t validation_split_documents_min(uint64_t share_ppm) {
    return kept_index(0, share_ppm) + 1;
}
