/* groups: what every implementation of contract A does with the groups that it is opened with. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_GROUPS_H
#define SKEP_TRANSPORT_COLLECTIVES_GROUPS_H

#include "base/hash.h"
#include "base/region.h"
#include "transport/collectives/collective.h"

#include <stddef.h>

struct site;

/* Every rank gives `bytes` bytes and receives all ranks', in rank order (site_exchange). */
typedef enum status groups_exchange(void *context, const void *mine, size_t bytes, void *all,
                                    struct fault *fault);

/* groups_by_site: site_exchange; the context is its struct site. */
MUST_CHECK enum status groups_by_site(void *site, const void *mine, size_t bytes, void *all,
                                      struct fault *fault);

/* How the ranks that open a communicator together speak until it is there. */
struct group_setup {
    groups_exchange *exchange;
    void *context;
    int world;
    struct region *region; /* of what is exchanged */
    const char *place;     /* of faults: "shared memory" */
};

/* groups_agree: the same outcome on every rank. One exchange.
 * mine    this rank's own outcome; *fault is its fault on entry when it is not OK
 * errors  the own fault where there is one; what the exchange reports; else that of
 *         groups_fault_for for the lowest rank that failed */
MUST_CHECK enum status groups_agree(const struct group_setup *meeting, enum status mine,
                                    struct fault *fault);

/* groups_fault_for: STATUS_FAILED, because that rank could not join. */
enum status groups_fault_for(const struct group_setup *meeting, int rank, struct fault *fault);

/* What a rank says of its groups when it joins. */
struct group_hashes {
    struct hash of[COLLECTIVE_GROUPS_MAX];
};

/* groups_copy: `count` groups with their ranks become those of *communicator, whose rank and world
 * are set. That a group has each rank once, and the own one at its index, is checked.
 * memory  in `region` */
void groups_copy(const struct collective_group *groups, int count, struct region *region,
                 struct communicator *communicator);

void groups_hash(const struct communicator *communicator, struct group_hashes *hashes);

/* groups_compare: do all members of the own groups name the same ones?
 * hashes  [world], `apart` bytes from each other
 * place   of the fault
 * errors  STATUS_INPUT naming both ranks */
MUST_CHECK enum status groups_compare(const struct communicator *communicator,
                                      const struct group_hashes *hashes, size_t apart,
                                      const char *place, struct fault *fault);

#endif
