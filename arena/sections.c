#include "arena/sections.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS_MAX = 32 };

static int compare_steps(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static int index_of(const uint32_t *steps, int count, uint32_t step) {
    const uint32_t *found = bsearch(&step, steps, (size_t)count, sizeof step, compare_steps);
    ASSERT(found != NULL);
    return (int)(found - steps);
}

struct sections sections_of(const struct cluster *cluster, struct region *region) {
    int count = cluster->count;
    uint32_t *steps = region_alloc(region, 2 * (size_t)count + 1, sizeof *steps);
    memcpy(steps, cluster->first, (size_t)count * sizeof *steps);
    memcpy(steps + count, cluster->last, (size_t)count * sizeof *steps);
    qsort(steps, 2 * (size_t)count, sizeof *steps, compare_steps);
    int distinct = 0;
    for (int i = 0; i < 2 * count; i++) {
        if (distinct == 0 || steps[i] != steps[distinct - 1]) {
            steps[distinct++] = steps[i];
        }
    }
    struct sections sections = {
        .count = distinct > 0 ? distinct - 1 : 0,
        .first = region_alloc(region, (size_t)count, sizeof(int)),
        .last = region_alloc(region, (size_t)count, sizeof(int)),
        .live_bytes = region_alloc(region, (size_t)distinct + 1, sizeof(uint64_t)),
    };
    /* Births add, deaths subtract; unsigned wrap-around cancels in the running sum. */
    for (int i = 0; i < count; i++) {
        sections.first[i] = index_of(steps, distinct, cluster->first[i]);
        sections.last[i] = index_of(steps, distinct, cluster->last[i]);
        sections.live_bytes[sections.first[i]] += cluster->bytes[i];
        sections.live_bytes[sections.last[i]] -= cluster->bytes[i];
    }
    for (int s = 1; s < sections.count; s++) {
        sections.live_bytes[s] += sections.live_bytes[s - 1];
    }
    return sections;
}

static int level_of(int length) {
    return 31 - __builtin_clz((unsigned)length);
}

/* maxima[k][s] is the most bytes alive in sections s .. s + 2^k - 1, so that two look-ups answer
 * any life. */
uint64_t *sections_crowding(const struct sections *sections, int item_count,
                            struct region *region) {
    uint64_t *maxima[LEVELS_MAX] = {sections->live_bytes};
    for (int k = 1; (1 << k) <= sections->count; k++) {
        int half = 1 << (k - 1);
        maxima[k] = region_alloc(region, (size_t)sections->count, sizeof(uint64_t));
        for (int s = 0; s + 2 * half <= sections->count; s++) {
            uint64_t left = maxima[k - 1][s], right = maxima[k - 1][s + half];
            maxima[k][s] = left > right ? left : right;
        }
    }
    uint64_t *crowding = region_alloc(region, (size_t)item_count, sizeof *crowding);
    for (int i = 0; i < item_count; i++) {
        int k = level_of(sections->last[i] - sections->first[i]);
        uint64_t left = maxima[k][sections->first[i]];
        uint64_t right = maxima[k][sections->last[i] - (1 << k)];
        crowding[i] = left > right ? left : right;
    }
    return crowding;
}
