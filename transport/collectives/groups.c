#include "transport/collectives/groups.h"

#include "transport/site/site.h"

void groups_copy(const struct collective_group *groups, int count, struct region *region,
                 struct communicator *communicator) {
    ASSERT(count >= 0 && count <= COLLECTIVE_GROUPS_MAX);
    for (int g = 0; g < count; g++) {
        const struct collective_group *group = &groups[g];
        ASSERT(group->size >= 0 && group->size <= communicator->world);
        ASSERT(group->index < group->size);
        int *ranks = region_alloc(region, (size_t)group->size + 1, sizeof *ranks);
        for (int i = 0; i < group->size; i++) {
            ranks[i] = group->ranks[i];
            ASSERT(ranks[i] >= 0 && ranks[i] < communicator->world);
            ASSERT((ranks[i] == communicator->rank) == (i == group->index));
        }
        communicator->groups[g] = *group;
        communicator->groups[g].ranks = ranks;
    }
    communicator->group_count = count;
}

void groups_hash(const struct communicator *communicator, struct group_hashes *hashes) {
    for (int g = 0; g < communicator->group_count; g++) {
        const struct collective_group *group = &communicator->groups[g];
        hashes->of[g] = hash_of(group->ranks, (size_t)group->size * sizeof *group->ranks);
    }
}

enum status groups_compare(const struct communicator *communicator,
                           const struct group_hashes *hashes, size_t apart, const char *place,
                           struct fault *fault) {
    int rank = communicator->rank;
    for (int g = 0; g < communicator->group_count; g++) {
        const struct collective_group *group = &communicator->groups[g];
        for (int i = 0; group->index >= 0 && i < group->size; i++) {
            int peer = group->ranks[i];
            const struct group_hashes *own =
                (const void *)((const char *)hashes + (size_t)rank * apart);
            const struct group_hashes *other =
                (const void *)((const char *)hashes + (size_t)peer * apart);
            if (!hash_equal(&own->of[g], &other->of[g])) {
                return fault_set(fault, STATUS_INPUT, place, "give all ranks the same strategy",
                                 "rank %d and rank %d disagree on who is in group %d", rank, peer,
                                 g);
            }
        }
    }
    return OK;
}

enum status groups_by_site(void *site, const void *mine, size_t bytes, void *all,
                           struct fault *fault) {
    return site_exchange(site, mine, bytes, all, fault);
}

enum status groups_fault_for(const struct group_setup *meeting, int rank, struct fault *fault) {
    return fault_set(fault, STATUS_FAILED, meeting->place, NULL,
                     "rank %d could not join; its own message says why", rank);
}

enum status groups_agree(const struct group_setup *meeting, enum status mine, struct fault *fault) {
    int32_t outcome = mine;
    int32_t *outcomes = region_alloc(meeting->region, (size_t)meeting->world, sizeof *outcomes);
    struct fault broken;
    enum status status =
        meeting->exchange(meeting->context, &outcome, sizeof outcome, outcomes, &broken);
    if (mine != OK) {
        return mine;
    }
    if (status != OK) {
        *fault = broken;
        return status;
    }
    for (int rank = 0; rank < meeting->world; rank++) {
        if (outcomes[rank] != OK) {
            return groups_fault_for(meeting, rank, fault);
        }
    }
    return OK;
}
