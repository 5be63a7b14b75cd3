#include "arena/greedy.h"

#include "arena/sections.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

bool effort_spent(const struct effort *effort) {
    return effort->work >= effort->work_max ||
           (effort->deadline_ns != 0 && clock_monotonic_ns() >= effort->deadline_ns);
}

static int compare_ranked(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    if (a->major != b->major) {
        return a->major > b->major ? -1 : 1;
    }
    if (a->minor != b->minor) {
        return a->minor > b->minor ? -1 : 1;
    }
    return a->item < b->item ? -1 : a->item > b->item;
}

static struct ranked ranked_of(const struct cluster *cluster, enum sort_key key, int item,
                               const uint64_t *crowding) {
    double bytes = (double)cluster->bytes[item];
    double steps = (double)(cluster->last[item] - cluster->first[item]);
    double area = bytes * steps;
    ASSERT(cluster->first[item] < cluster->last[item]);
    switch (key) {
    case SORT_AREA:
        return (struct ranked){area, bytes, item};
    case SORT_LIFETIME:
        return (struct ranked){steps, bytes, item};
    case SORT_SIZE:
        return (struct ranked){bytes, steps, item};
    case SORT_BIRTH:
        return (struct ranked){-(double)cluster->first[item], steps, item};
    case SORT_SQUARE:
        return (struct ranked){area * bytes, steps, item};
    case SORT_LONG:
        return (struct ranked){area * steps, bytes, item};
    case SORT_DEATH:
        return (struct ranked){(double)cluster->last[item], steps, item};
    case SORT_CROWDING:
        return (struct ranked){(double)crowding[item], area, item};
    case SORT_COUNT:
        break;
    }
    ASSERT(key < SORT_COUNT);
    return (struct ranked){0};
}

void ranked_sort(struct ranked *ranked, int count) {
    qsort(ranked, (size_t)count, sizeof *ranked, compare_ranked);
}

void greedy_rank(const struct cluster *cluster, enum sort_key key, const uint64_t *crowding,
                 struct ranked *ranked) {
    for (int i = 0; i < cluster->count; i++) {
        ranked[i] = ranked_of(cluster, key, i, crowding);
    }
    ranked_sort(ranked, cluster->count);
}

/* An item that is to be placed among those on the shelf. */
struct piece {
    uint64_t bytes, align;
    uint32_t first, last;
};

/* The lowest offset at which the piece overlaps no item that is alive with it. The shelf is sorted
 * by offset, so the search ends at the first gap that is large enough. */
static uint64_t first_fit(const struct placed *shelf, int count, const struct piece *piece,
                          uint64_t base_bytes, struct effort *effort) {
    uint64_t cursor = align_up(base_bytes, piece->align);
    int i = 0;
    for (; i < count; i++) {
        const struct placed *other = &shelf[i];
        if (other->first >= piece->last || piece->first >= other->last) {
            continue;
        }
        if (other->offset >= cursor + piece->bytes) {
            break;
        }
        if (other->end > cursor) {
            cursor = align_up(other->end, piece->align);
        }
    }
    ASSERT(cursor >= base_bytes && (cursor & (piece->align - 1)) == 0);
    effort->work += (uint64_t)i + 1;
    return cursor;
}

/* The smallest gap that the piece fits into, the lowest of equal ones; above all items if there is
 * none. */
static uint64_t best_fit(const struct placed *shelf, int count, const struct piece *piece,
                         uint64_t base_bytes, struct effort *effort) {
    uint64_t cursor = align_up(base_bytes, piece->align);
    uint64_t best_offset = 0, best_bytes = UINT64_MAX;
    for (int i = 0; i < count; i++) {
        const struct placed *other = &shelf[i];
        if (other->first >= piece->last || piece->first >= other->last) {
            continue;
        }
        if (other->offset >= cursor + piece->bytes && other->offset - cursor < best_bytes) {
            best_bytes = other->offset - cursor;
            best_offset = cursor;
        }
        if (other->end > cursor) {
            cursor = align_up(other->end, piece->align);
        }
    }
    ASSERT(cursor >= base_bytes && (cursor & (piece->align - 1)) == 0);
    ASSERT(best_bytes >= piece->bytes);
    effort->work += (uint64_t)count + 1;
    return best_bytes < UINT64_MAX ? best_offset : cursor;
}

static void shelve(struct placed *shelf, int count, struct placed item) {
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

bool greedy_place(const struct cluster *cluster, const int *sequence, enum fit fit,
                  struct placed *shelf, struct effort *effort, struct layout *layout) {
    uint64_t ceiling_bytes = layout->peak_bytes;
    uint64_t peak_bytes = cluster->base_bytes;
    for (int i = 0; i < cluster->count; i++) {
        int item = sequence[i];
        ASSERT(item >= 0 && item < cluster->count);
        struct piece piece = {cluster->bytes[item], cluster->align[item], cluster->first[item],
                              cluster->last[item]};
        uint64_t offset = fit == FIT_FIRST
                              ? first_fit(shelf, i, &piece, cluster->base_bytes, effort)
                              : best_fit(shelf, i, &piece, cluster->base_bytes, effort);
        uint64_t end = offset + piece.bytes;
        if (end >= ceiling_bytes) {
            return false;
        }
        layout->offset[item] = offset;
        peak_bytes = end > peak_bytes ? end : peak_bytes;
        shelve(shelf, i, (struct placed){offset, end, piece.first, piece.last});
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
    [SORT_CROWDING] = {"first fit by crowding", "best fit by crowding"},
};

struct layout greedy_best(const struct cluster *cluster, uint64_t target_bytes,
                          struct effort *effort, struct region *region) {
    size_t count = (size_t)cluster->count;
    struct sections sections = sections_of(cluster, region);
    const uint64_t *crowding = sections_crowding(&sections, cluster->count, region);
    struct ranked *ranked = region_alloc(region, count, sizeof *ranked);
    int *sequence = region_alloc(region, count, sizeof *sequence);
    struct placed *shelf = region_alloc(region, count, sizeof *shelf);
    struct layout best = {.offset = region_alloc(region, count, sizeof(uint64_t)),
                          .peak_bytes = UINT64_MAX};
    struct layout trial = {.offset = region_alloc(region, count, sizeof(uint64_t))};
    for (enum sort_key key = 0; key < SORT_COUNT; key++) {
        greedy_rank(cluster, key, crowding, ranked);
        for (int i = 0; i < cluster->count; i++) {
            sequence[i] = ranked[i].item;
        }
        for (enum fit fit = 0; fit < FIT_COUNT; fit++) {
            trial.peak_bytes = best.peak_bytes;
            trial.heuristic = HEURISTICS[key][fit];
            if (greedy_place(cluster, sequence, fit, shelf, effort, &trial)) {
                struct layout worse = best;
                best = trial;
                trial = worse;
            }
            ASSERT(best.peak_bytes != UINT64_MAX && best.peak_bytes >= cluster->bound_bytes);
            if (best.peak_bytes <= target_bytes || effort_spent(effort)) {
                return best;
            }
        }
    }
    return best;
}
