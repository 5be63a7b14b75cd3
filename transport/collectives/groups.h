/* groups: copies the groups of a new communicator, and checks that all ranks passed the same
 * groups. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_GROUPS_H
#define SKEP_TRANSPORT_COLLECTIVES_GROUPS_H

#include "base/hash.h"
#include "base/region.h"
#include "transport/collectives/collectives.h"

#include <stddef.h>

struct site;

/* A function that sends `bytes` bytes to all ranks and receives theirs, in rank order, as
 * site_exchange does. */
typedef enum status groups_exchange(void *context, const void *mine, size_t bytes, void *all,
                                    struct fault *fault);

/* groups_exchange_on_site: site_exchange in the form of a groups_exchange; `site` is a struct
 * site. */
MUST_CHECK enum status groups_exchange_on_site(void *site, const void *mine, size_t bytes,
                                               void *all, struct fault *fault);

/* How the ranks communicate while they open a communicator. */
struct group_setup {
    groups_exchange *exchange; /* sends data of each rank to all ranks */
    void *context;             /* context of `exchange` */
    int world;                 /* number of ranks */
    struct region *region;     /* memory for the exchanged data */
    const char *subject;       /* subject of faults, such as "shared memory" */
};

/* groups_agree_on_outcome: exchange the outcomes of all ranks, and fail if any rank failed. Makes
 * one exchange.
 * mine    this rank's outcome; if it is not OK, *fault is its fault on entry
 * errors  this rank's own fault, else a fault of the exchange, else groups_set_join_fault for the
 *         lowest rank that failed */
MUST_CHECK enum status groups_agree_on_outcome(const struct group_setup *setup, enum status mine,
                                               struct fault *fault);

/* groups_set_join_fault: set the fault that `rank` could not join. Returns STATUS_FAILED. */
enum status groups_set_join_fault(const struct group_setup *setup, int rank, struct fault *fault);

/* The hash of each group, which the ranks compare. */
struct group_hashes {
    struct hash hashes[COLLECTIVE_GROUPS_MAX];
};

/* groups_copy: copy `count` groups with their ranks to *communicator, whose rank and world are set.
 * limits  each group has this rank exactly at its index (asserted)
 * memory  in `region` */
void groups_copy(const struct collective_group *groups, int count, struct region *region,
                 struct communicator *communicator);

void groups_hash(const struct communicator *communicator, struct group_hashes *hashes);

/* groups_compare: check that all ranks in this rank's groups passed the same groups.
 * hashes   [world], at intervals of `stride_bytes`
 * subject  subject of the fault
 * errors   STATUS_INPUT; the fault names both ranks */
MUST_CHECK enum status groups_compare(const struct communicator *communicator,
                                      const struct group_hashes *hashes, size_t stride_bytes,
                                      const char *subject, struct fault *fault);

#endif
