/* groups: what every implementation of contract A does with the groups that it is opened with. */
#ifndef SKEP_TRANSPORT_GROUPS_H
#define SKEP_TRANSPORT_GROUPS_H

#include "base/hash.h"
#include "base/region.h"
#include "transport/collective.h"

#include <stddef.h>

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
