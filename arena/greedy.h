/* greedy: places the items of a cluster one after another, each in a gap between the items
 * placed earlier. */
#ifndef SKEP_ARENA_GREEDY_H
#define SKEP_ARENA_GREEDY_H

#include "arena/cluster.h"

#include <stdbool.h>

/* The work of a search and its limit. Work is counted instead of timed, so that a plan does not
 * depend on the speed of the machine. Only `skep pack` sets a deadline. */
struct effort {
    uint64_t work;       /* work done so far: number of placed items inspected */
    uint64_t work_max;   /* work limit: the search stops when `work` reaches this number */
    int64_t deadline_ns; /* the search stops at this time of clock_monotonic_ns; 0: no deadline */
};

bool effort_is_exhausted(const struct effort *effort);

/* The choice among the gaps that are large enough for an item. */
enum fit { FIT_FIRST /* lowest gap */, FIT_BEST /* smallest gap */, FIT_COUNT };

/* The order in which items are placed: by a first key, and by a second key if the first keys are
 * equal. Sizes and lifetimes sort descending, births ascending. */
enum sort_key {
    SORT_AREA,     /* sorts by bytes x steps alive */
    SORT_SIZE,     /* sorts by bytes, then steps alive */
    SORT_LIFETIME, /* sorts by steps alive, then bytes */
    /* sorts by first program step, then by steps alive: nested lives form a stack */
    SORT_BIRTH,
    SORT_SQUARE, /* sorts by bytes x bytes x steps alive */
    SORT_LONG,   /* sorts by bytes x (steps alive)^2 */
    SORT_DEATH,  /* sorts by last program step, latest first, then by steps alive */
    /* sorts by the most bytes alive at a step of the item's life, then by bytes x steps alive */
    SORT_LIFE_PEAK,
    SORT_COUNT /* number of sort keys */
};

/* The offsets of all items of a cluster. */
struct layout {
    uint64_t *offset;      /* [cluster->count] offset of each item */
    uint64_t peak_bytes;   /* highest end offset of any item */
    const char *heuristic; /* name of the heuristic, a static string */
};

/* A placed item. greedy_place_items keeps its placed items sorted by offset. */
struct placed_item {
    uint64_t offset, end; /* bytes [offset, end) */
    uint32_t first, last; /* life in program steps, half-open: [first, last) */
};

/* An item with its sort keys: larger keys sort first; with equal keys, smaller item numbers do. The
 * keys are doubles because a product may exceed 64 bits. */
struct ranked_item {
    double major_key, minor_key; /* the minor key decides if the major keys are equal */
    int item;                    /* index of the item in the cluster */
};

void sort_ranked_items(struct ranked_item *ranked, int count);

/* greedy_rank_items: fill ranked[cluster->count] with the items sorted by `key`.
 *   life_peak_bytes  the result of sections_life_peaks */
void greedy_rank_items(const struct cluster *cluster, enum sort_key key,
                       const uint64_t *life_peak_bytes, struct ranked_item *ranked);

/* greedy_place_items: place all items in the order of `sequence`, so that each ends below
 * layout->peak_bytes, and return true. If an item does not fit, return false and leave the peak
 * unchanged.
 *   shelf   [cluster->count] scratch
 *   layout  its offsets are set (undefined after false) and its peak is lowered
 * memory  allocates nothing */
bool greedy_place_items(const struct cluster *cluster, const int *sequence, enum fit fit,
                        struct placed_item *shelf, struct effort *effort, struct layout *layout);

/* greedy_best_layout: return the layout with the lowest peak over all sort keys and fits. Stops at
 * a peak of at most `target_bytes`, or at the work limit (the first layout is always completed).
 * memory  layout and scratch in `region` */
struct layout greedy_best_layout(const struct cluster *cluster, uint64_t target_bytes,
                                 struct effort *effort, struct region *region);

#endif
