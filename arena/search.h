/* search: finds the best layout of one cluster within a work limit. Greedy placement with
 * several sort keys comes first, then exact search from many sequences; a cluster with too many
 * items for exact search gets a random walk over sequences instead. */
#ifndef SKEP_ARENA_SEARCH_H
#define SKEP_ARENA_SEARCH_H

#include "arena/branch.h"
#include "arena/walk.h"

struct search {
    const struct cluster *cluster; /* the packing problem */
    struct layout layout;          /* the best layout found so far */
    uint64_t lowest_bytes;         /* a proved lower bound on the peak of any layout */
    /* target of the next attempt, from 0 (lowest useful peak) to 1 (current peak) */
    double target_fraction;
    int attempt_count; /* number of attempts made so far */
    /* the exact search; NULL until first use, and if there are too many items for one */
    struct branch *branch;
    struct walk *walk;         /* the random walk; NULL until first use, and if `branch` is used */
    uint64_t *life_peak_bytes; /* [cluster->count] most bytes alive at a step of each item's life */
    int *sequence; /* [cluster->count] scratch: order in which an attempt places the items */
    struct ranked_item *ranked; /* [cluster->count] scratch: items with sort keys */
};

/* search_init: initialise a search with the best greedy layout that takes at most half of the
 * remaining work.
 * memory  in `region`, which must outlive the search */
void search_init(const struct cluster *cluster, uint64_t target_bytes, struct effort *effort,
                 struct region *region, struct search *search);

/* search_is_done: return true if the peak is at most `target_bytes` or equals the proved lower
 * bound. */
bool search_is_done(const struct search *search, uint64_t target_bytes);

/* search_make_attempt: make one more attempt to lower the peak. The peak never rises.
 * Deterministic as long as `effort` has no deadline. */
void search_make_attempt(struct search *search, uint64_t target_bytes, struct effort *effort,
                         struct region *region);

/* search_store_offsets: write the offset of each item to offsets[], indexed by extent. */
void search_store_offsets(const struct search *search, uint64_t *offsets);

#endif
