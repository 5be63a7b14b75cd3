/* greedy: place the items of a cluster one after another, each in a gap left by those before it. */
#ifndef SKEP_ARENA_GREEDY_H
#define SKEP_ARENA_GREEDY_H

#include "arena/cluster.h"

#include <stdbool.h>

/* What a search may still spend. Work is counted, so that a plan does not depend on the machine's
 * speed; a deadline is for searches that a person waits for. */
struct effort {
    uint64_t work;       /* spent: placed items looked at */
    uint64_t work_max;   /* stop at this */
    int64_t deadline_ns; /* stop at this clock_monotonic_ns; 0: no deadline */
};

bool effort_spent(const struct effort *effort);

/* Which of the gaps that an item fits into it gets. */
enum fit { FIT_FIRST /* the lowest */, FIT_BEST /* the smallest */, FIT_COUNT };

/* What the items are sorted by, largest or earliest first; ties by the next thing that tells. */
enum sort_key {
    ORDER_AREA,     /* bytes x steps alive */
    ORDER_SIZE,     /* bytes, then steps alive */
    ORDER_LIFETIME, /* steps alive, then bytes */
    ORDER_BIRTH,    /* first step, then steps alive: a stack where lives are nested */
    ORDER_SQUARE,   /* bytes x bytes x steps alive */
    ORDER_LONG,     /* bytes x steps alive x steps alive */
    ORDER_DEATH,    /* last step, latest first, then steps alive */
    ORDER_CROWDING, /* most bytes alive at one step of the life, then area */
    ORDER_COUNT
};

/* Offsets for every item of a cluster. */
struct layout {
    uint64_t *offset;      /* (cluster count) */
    uint64_t peak_bytes;   /* highest end */
    const char *heuristic; /* a static string */
};

/* Placed items in order of offset: scratch of greedy_place. */
struct placed {
    uint64_t offset, end;
    uint32_t first, last;
};

/* An item with what it is sorted by, largest first; equals by their number. Doubles hold products
 * of any size, and round alike on every machine. */
struct ranked {
    double major, minor;
    int item;
};

void ranked_sort(struct ranked *ranked, int count);

/* greedy_rank: fill `ranked` (cluster count), sorted by `order`.
 *   crowding  of sections_crowding */
void greedy_rank(const struct cluster *cluster, enum sort_key order, const uint64_t *crowding,
                 struct ranked *ranked);

/* greedy_place: place the items in `sequence`, all of them below layout->peak_bytes; false, with
 * that peak kept, when one does not go there.
 *   shelf   (cluster count) scratch
 *   layout  offsets filled (undefined after false), peak lowered
 * memory  allocates nothing */
bool greedy_place(const struct cluster *cluster, const int *sequence, enum fit fit,
                  struct placed *shelf, struct effort *effort, struct layout *layout);

/* greedy_best: the lowest layout of every order with every fit; ends at the first whose peak is
 * `target_bytes` or below, or when the effort is spent (the first layout is always finished).
 * memory  layout and scratch in `region` */
struct layout greedy_best(const struct cluster *cluster, uint64_t target_bytes,
                          struct effort *effort, struct region *region);

#endif
