/* greedy: place the items of a cluster one after another, each in a gap left by those before it. */
#ifndef SKEP_ARENA_GREEDY_H
#define SKEP_ARENA_GREEDY_H

#include "arena/cluster.h"

#include <stdbool.h>

/* The work limit of a search. Work is counted instead of timed, so that a plan does not depend on
 * the speed of the machine. Only a search that a person waits for has a deadline. */
struct effort {
    uint64_t work;       /* done so far: placed items inspected */
    uint64_t work_max;   /* stop at this */
    int64_t deadline_ns; /* stop at this clock_monotonic_ns; 0: no deadline */
};

bool effort_spent(const struct effort *effort);

/* Which gap an item goes into, of those that it fits into. */
enum fit { FIT_FIRST /* the lowest */, FIT_BEST /* the smallest */, FIT_COUNT };

/* The key by which items are sorted, largest or earliest first, and the second key for ties. */
enum sort_key {
    SORT_AREA,     /* bytes x steps alive */
    SORT_SIZE,     /* bytes, then steps alive */
    SORT_LIFETIME, /* steps alive, then bytes */
    SORT_BIRTH,    /* first step, then steps alive: a stack where lives are nested */
    SORT_SQUARE,   /* bytes x bytes x steps alive */
    SORT_LONG,     /* bytes x steps alive x steps alive */
    SORT_DEATH,    /* last step, latest first, then steps alive */
    SORT_CROWDING, /* most bytes alive at one step of the life, then area */
    SORT_COUNT
};

/* Offsets for every item of a cluster. */
struct layout {
    uint64_t *offset;      /* (cluster count) */
    uint64_t peak_bytes;   /* highest end */
    const char *heuristic; /* a static string */
};

/* A placed item. greedy_place keeps these in order of offset. */
struct placed {
    uint64_t offset, end;
    uint32_t first, last;
};

/* An item with its sort keys. Larger keys come first, then smaller item numbers. Doubles hold
 * products of any size, and round equally on every machine. */
struct ranked {
    double major, minor;
    int item;
};

void ranked_sort(struct ranked *ranked, int count);

/* greedy_rank: fill `ranked` (cluster count), sorted by `key`.
 *   crowding  of sections_crowding */
void greedy_rank(const struct cluster *cluster, enum sort_key key, const uint64_t *crowding,
                 struct ranked *ranked);

/* greedy_place: place all items in the order of `sequence`, each below layout->peak_bytes. Returns
 * false, and leaves that peak unchanged, when an item does not fit.
 *   shelf   (cluster count) scratch
 *   layout  offsets filled (undefined after false), peak lowered
 * memory  allocates nothing */
bool greedy_place(const struct cluster *cluster, const int *sequence, enum fit fit,
                  struct placed *shelf, struct effort *effort, struct layout *layout);

/* greedy_best: the lowest layout over all sort keys and fits. Stops at the first whose peak is
 * `target_bytes` or below, or at the work limit (the first layout is always finished).
 * memory  layout and scratch in `region` */
struct layout greedy_best(const struct cluster *cluster, uint64_t target_bytes,
                          struct effort *effort, struct region *region);

#endif
