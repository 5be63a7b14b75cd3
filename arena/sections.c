#include "arena/sections.h"

#include <stdlib.h>
#include <string.h>

/* maximum number of levels of the table of range maxima: enough for 2^31 sections */
enum { LEVELS_MAX = 32 };

static int compare_steps(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* Write the steps at which the sections begin to *starts in ascending order, and return their
 * number. A section begins at each birth after which the next event is a death. `births` and
 * `deaths` are sorted. */
static int find_starts(const uint32_t *births, const uint32_t *deaths, int count,
                       uint32_t *starts) {
    int start_count = 0;
    for (int birth = 0, death = 0; birth < count; birth++) {
        bool is_last = birth + 1 == count;
        while (deaths[death] <= births[birth]) {
            death++;
        }
        ASSERT(death < count); /* no item dies before it is born */
        if (is_last || births[birth + 1] >= deaths[death]) {
            starts[start_count++] = births[birth];
        }
    }
    ASSERT((start_count == 0) == (count == 0));
    return start_count;
}

/* Return the number of section starts before `step`. */
static int count_starts_before(const uint32_t *starts, int start_count, uint32_t step) {
    int low = 0, high = start_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (starts[middle] < step) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    ASSERT(low == start_count || starts[low] >= step);
    return low;
}

struct sections sections_of_cluster(const struct cluster *cluster, struct region *region) {
    size_t count = (size_t)cluster->count;
    uint32_t *births = region_alloc(region, count, sizeof *births);
    uint32_t *deaths = region_alloc(region, count, sizeof *deaths);
    uint32_t *starts = region_alloc(region, count, sizeof *starts);
    memcpy(births, cluster->first, count * sizeof *births);
    memcpy(deaths, cluster->end, count * sizeof *deaths);
    qsort(births, count, sizeof *births, compare_steps);
    qsort(deaths, count, sizeof *deaths, compare_steps);
    struct sections sections = {
        .count = find_starts(births, deaths, cluster->count, starts),
        .first = region_alloc(region, count, sizeof(int)),
        .end = region_alloc(region, count, sizeof(int)),
    };
    sections.live_bytes = region_alloc(region, (size_t)sections.count + 1, sizeof(uint64_t));
    /* Each birth adds the item's bytes and each death subtracts them. The running sum over sections
     * is then the live bytes; unsigned wrap-around cancels out in it. */
    for (int i = 0; i < cluster->count; i++) {
        sections.first[i] = count_starts_before(starts, sections.count, cluster->first[i]);
        sections.end[i] = count_starts_before(starts, sections.count, cluster->end[i]);
        ASSERT(sections.first[i] < sections.end[i] && sections.end[i] <= sections.count);
        sections.live_bytes[sections.first[i]] += cluster->bytes[i];
        sections.live_bytes[sections.end[i]] -= cluster->bytes[i];
    }
    for (int s = 1; s < sections.count; s++) {
        sections.live_bytes[s] += sections.live_bytes[s - 1];
    }
    int end = sections.count;
    ASSERT(end == 0 || sections.live_bytes[end - 1] + sections.live_bytes[end] == 0);
    return sections;
}

static int log2_floor(int length) {
    ASSERT(length > 0);
    return 31 - __builtin_clz((unsigned)length);
}

/* maxima[k][s] is the most bytes alive in sections s .. s + 2^k - 1, so two look-ups give the
 * maximum over any life. */
uint64_t *sections_life_peaks(const struct sections *sections, int item_count,
                              struct region *region) {
    uint64_t *maxima[LEVELS_MAX] = {sections->live_bytes};
    for (int k = 1; (1 << k) <= sections->count; k++) {
        ASSERT(k < LEVELS_MAX);
        int half = 1 << (k - 1);
        maxima[k] = region_alloc(region, (size_t)sections->count, sizeof(uint64_t));
        for (int s = 0; s + 2 * half <= sections->count; s++) {
            uint64_t left = maxima[k - 1][s], right = maxima[k - 1][s + half];
            maxima[k][s] = left > right ? left : right;
        }
    }
    uint64_t *life_peak_bytes = region_alloc(region, (size_t)item_count, sizeof *life_peak_bytes);
    for (int i = 0; i < item_count; i++) {
        int k = log2_floor(sections->end[i] - sections->first[i]);
        uint64_t left = maxima[k][sections->first[i]];
        uint64_t right = maxima[k][sections->end[i] - (1 << k)];
        life_peak_bytes[i] = left > right ? left : right;
    }
    return life_peak_bytes;
}
