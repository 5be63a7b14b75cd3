/* search: the best layout of one cluster that an effort buys: greedy orders first, then exact
 * search from many orders, or a walk of orders where there are too many items for that. */
#ifndef SKEP_ARENA_SEARCH_H
#define SKEP_ARENA_SEARCH_H

#include "arena/branch.h"
#include "arena/walk.h"

struct search {
    const struct cluster *cluster;
    struct layout layout;  /* the best so far */
    uint64_t lowest_bytes; /* proved: no layout's peak is lower */
    double aim;            /* of the next attempt: 0 lowest useful peak, 1 the present one */
    int attempt_count;
    struct branch *branch; /* NULL where there are too many items, or none was needed yet */
    struct walk *walk;     /* NULL likewise */
    uint64_t *crowding;    /* of the items, for ordering them */
    int *sequence;         /* scratch of the attempts */
    struct ranked *ranked; /* scratch of the attempts */
};

/* search_init: the best greedy layout, for at most half of the effort.
 * memory  in `region`, which must outlive the search */
void search_init(const struct cluster *cluster, uint64_t target_bytes, struct effort *effort,
                 struct region *region, struct search *search);

/* search_is_done: the peak is `target_bytes` or lower, or as low as can be. */
bool search_is_done(const struct search *search, uint64_t target_bytes);

/* search_attempt: one more try to lower the peak; the layout only ever gets better.
 * Deterministic as long as `effort` has no deadline. */
void search_attempt(struct search *search, uint64_t target_bytes, struct effort *effort,
                    struct region *region);

#endif
