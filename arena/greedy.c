#include "arena/greedy.h"

#include "arena/sections.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

bool effort_is_exhausted(const struct effort *effort) {
    return effort->work >= effort->work_max ||
           (effort->deadline_ns != 0 && clock_monotonic_ns() >= effort->deadline_ns);
}

static int compare_ranked(const void *left, const void *right) {
    const struct ranked_item *a = left, *b = right;
    if (a->major_key != b->major_key) {
        return a->major_key > b->major_key ? -1 : 1;
    }
    if (a->minor_key != b->minor_key) {
        return a->minor_key > b->minor_key ? -1 : 1;
    }
    return a->item < b->item ? -1 : a->item > b->item;
}

static struct ranked_item make_ranked_item(const struct cluster *cluster, enum sort_key key,
                                           int item, const uint64_t *life_peak_bytes) {
    double bytes = (double)cluster->bytes[item];
    double steps = (double)(cluster->end[item] - cluster->first[item]);
    double area = bytes * steps;
    ASSERT(cluster->first[item] < cluster->end[item]);
    switch (key) {
    case SORT_AREA:
        return (struct ranked_item){area, bytes, item};
    case SORT_LIFETIME:
        return (struct ranked_item){steps, bytes, item};
    case SORT_SIZE:
        return (struct ranked_item){bytes, steps, item};
    case SORT_BIRTH:
        return (struct ranked_item){-(double)cluster->first[item], steps, item};
    case SORT_SQUARE:
        return (struct ranked_item){area * bytes, steps, item};
    case SORT_LONG:
        return (struct ranked_item){area * steps, bytes, item};
    case SORT_DEATH:
        return (struct ranked_item){(double)cluster->end[item], steps, item};
    case SORT_LIFE_PEAK:
        return (struct ranked_item){(double)life_peak_bytes[item], area, item};
    case SORT_COUNT:
        break;
    }
    ASSERT(key < SORT_COUNT);
    return (struct ranked_item){0};
}

void sort_ranked_items(struct ranked_item *ranked, int count) {
    qsort(ranked, (size_t)count, sizeof *ranked, compare_ranked);
}

void greedy_rank_items(const struct cluster *cluster, enum sort_key key,
                       const uint64_t *life_peak_bytes, struct ranked_item *ranked) {
    for (int i = 0; i < cluster->count; i++) {
        ranked[i] = make_ranked_item(cluster, key, i, life_peak_bytes);
    }
    sort_ranked_items(ranked, cluster->count);
}

/* An item to place among the items that are already on the shelf (the list of placed items). */
struct new_item {
    uint64_t bytes, align; /* size and alignment */
    uint32_t first, last;  /* life in program steps, half-open: [first, last) */
};

/* Return the lowest offset at which the new item overlaps no placed item in both time and bytes.
 * The shelf is sorted by offset, so the search ends at the first gap that is large enough. */
static uint64_t first_fit(const struct placed_item *shelf, int count,
                          const struct new_item *new_item, uint64_t base_bytes,
                          struct effort *effort) {
    uint64_t cursor = align_up(base_bytes, new_item->align);
    int i = 0;
    for (; i < count; i++) {
        const struct placed_item *other = &shelf[i];
        if (other->first >= new_item->last || new_item->first >= other->last) {
            continue;
        }
        if (other->offset >= cursor + new_item->bytes) {
            break;
        }
        if (other->end > cursor) {
            cursor = align_up(other->end, new_item->align);
        }
    }
    ASSERT(cursor >= base_bytes && (cursor & (new_item->align - 1)) == 0);
    effort->work += (uint64_t)i + 1;
    return cursor;
}

/* Return the offset of the smallest gap that fits the new item (on a tie, the lowest such gap). If
 * no gap fits, return the offset above all items alive at the same time. */
static uint64_t best_fit(const struct placed_item *shelf, int count,
                         const struct new_item *new_item, uint64_t base_bytes,
                         struct effort *effort) {
    uint64_t cursor = align_up(base_bytes, new_item->align);
    uint64_t best_offset = 0, best_bytes = UINT64_MAX;
    for (int i = 0; i < count; i++) {
        const struct placed_item *other = &shelf[i];
        if (other->first >= new_item->last || new_item->first >= other->last) {
            continue;
        }
        if (other->offset >= cursor + new_item->bytes && other->offset - cursor < best_bytes) {
            best_bytes = other->offset - cursor;
            best_offset = cursor;
        }
        if (other->end > cursor) {
            cursor = align_up(other->end, new_item->align);
        }
    }
    ASSERT(cursor >= base_bytes && (cursor & (new_item->align - 1)) == 0);
    ASSERT(best_bytes >= new_item->bytes);
    effort->work += (uint64_t)count + 1;
    return best_bytes < UINT64_MAX ? best_offset : cursor;
}

static void insert_by_offset(struct placed_item *shelf, int count, struct placed_item item) {
    ASSERT(item.offset < item.end && item.first < item.last);
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (shelf[middle].offset <= item.offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    ASSERT(low == 0 || shelf[low - 1].offset <= item.offset);
    ASSERT(low == count || shelf[low].offset > item.offset);
    memmove(&shelf[low + 1], &shelf[low], (size_t)(count - low) * sizeof *shelf);
    shelf[low] = item;
}

bool greedy_place_items(const struct cluster *cluster, const int *sequence, enum fit fit,
                        struct placed_item *shelf, struct effort *effort, struct layout *layout) {
    uint64_t ceiling_bytes = layout->peak_bytes;
    uint64_t peak_bytes = cluster->base_bytes;
    for (int i = 0; i < cluster->count; i++) {
        int item = sequence[i];
        ASSERT(item >= 0 && item < cluster->count);
        struct new_item new_item = {cluster->bytes[item], cluster->align[item],
                                    cluster->first[item], cluster->end[item]};
        uint64_t offset = fit == FIT_FIRST
                              ? first_fit(shelf, i, &new_item, cluster->base_bytes, effort)
                              : best_fit(shelf, i, &new_item, cluster->base_bytes, effort);
        uint64_t end = offset + new_item.bytes;
        if (end >= ceiling_bytes) {
            return false;
        }
        layout->offset[item] = offset;
        peak_bytes = end > peak_bytes ? end : peak_bytes;
        insert_by_offset(shelf, i,
                         (struct placed_item){offset, end, new_item.first, new_item.last});
    }
    ASSERT(cluster->count == 0 || peak_bytes < ceiling_bytes);
    layout->peak_bytes = peak_bytes;
    return true;
}

static const char *const HEURISTICS[SORT_COUNT][FIT_COUNT] = {
    [SORT_AREA] = {"first fit by area", "best fit by area"},
    [SORT_LIFETIME] = {"first fit by lifetime", "best fit by lifetime"},
    [SORT_SIZE] = {"first fit by size", "best fit by size"},
    [SORT_BIRTH] = {"first fit by birth", "best fit by birth"},
    [SORT_SQUARE] = {"first fit by size x area", "best fit by size x area"},
    [SORT_LONG] = {"first fit by lifetime x area", "best fit by lifetime x area"},
    [SORT_DEATH] = {"first fit by death", "best fit by death"},
    [SORT_LIFE_PEAK] = {"first fit by peak live bytes", "best fit by peak live bytes"},
};

struct layout greedy_best_layout(const struct cluster *cluster, uint64_t target_bytes,
                                 struct effort *effort, struct region *region) {
    size_t count = (size_t)cluster->count;
    struct sections sections = sections_of_cluster(cluster, region);
    const uint64_t *life_peak_bytes = sections_life_peaks(&sections, cluster->count, region);
    struct ranked_item *ranked = region_alloc(region, count, sizeof *ranked);
    int *sequence = region_alloc(region, count, sizeof *sequence);
    struct placed_item *shelf = region_alloc(region, count, sizeof *shelf);
    struct layout best = {.offset = region_alloc(region, count, sizeof(uint64_t)),
                          .peak_bytes = UINT64_MAX};
    struct layout trial = {.offset = region_alloc(region, count, sizeof(uint64_t))};
    for (enum sort_key key = 0; key < SORT_COUNT; key++) {
        greedy_rank_items(cluster, key, life_peak_bytes, ranked);
        for (int i = 0; i < cluster->count; i++) {
            sequence[i] = ranked[i].item;
        }
        for (enum fit fit = 0; fit < FIT_COUNT; fit++) {
            trial.peak_bytes = best.peak_bytes;
            trial.heuristic = HEURISTICS[key][fit];
            if (greedy_place_items(cluster, sequence, fit, shelf, effort, &trial)) {
                struct layout worse = best;
                best = trial;
                trial = worse;
            }
            ASSERT(best.peak_bytes != UINT64_MAX && best.peak_bytes >= cluster->bound_bytes);
            if (best.peak_bytes <= target_bytes || effort_is_exhausted(effort)) {
                return best;
            }
        }
    }
    return best;
}
