/* search: the best layout of one cluster within a work limit. Greedy placement by several sort keys
 * comes first, then exact search from many sequences, or a random walk over sequences where there
 * are too many items for exact search. */
#ifndef SKEP_ARENA_SEARCH_H
#define SKEP_ARENA_SEARCH_H

#include "arena/branch.h"
#include "arena/walk.h"

struct search {
    const struct cluster *cluster;
    struct layout layout;  /* the best so far */
    uint64_t lowest_bytes; /* a proved lower limit of the peak */
    double aim; /* of the next attempt, from 0, the lowest useful peak, to 1, the current peak */
    int attempt_count;
    struct branch *branch; /* NULL until it is needed, and with too many items */
    struct walk *walk;     /* NULL until it is needed, and where `branch` is used */
    uint64_t *crowding;    /* of the items, for ordering them */
    int *sequence;         /* scratch of the attempts */
    struct ranked *ranked; /* scratch of the attempts */
};

/* search_init: find the best greedy layout with at most half of the work limit.
 * memory  in `region`, which must outlive the search */
void search_init(const struct cluster *cluster, uint64_t target_bytes, struct effort *effort,
                 struct region *region, struct search *search);

/* search_is_done: the peak is at most `target_bytes`, or equal to the proved lower limit. */
bool search_is_done(const struct search *search, uint64_t target_bytes);

/* search_attempt: try once more to lower the peak. The layout never gets worse.
 * Deterministic as long as `effort` has no deadline. */
void search_attempt(struct search *search, uint64_t target_bytes, struct effort *effort,
                    struct region *region);

/* search_store_offsets: write the offset of each item to offsets[], by extent. */
void search_store_offsets(const struct search *search, uint64_t *offsets);

#endif
