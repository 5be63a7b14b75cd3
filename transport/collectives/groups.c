/* groups: see groups.h. */
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
        hashes->hashes[g] = hash_of(group->ranks, (size_t)group->size * sizeof *group->ranks);
    }
}

enum status groups_compare(const struct communicator *communicator,
                           const struct group_hashes *hashes, size_t stride_bytes,
                           const char *subject, struct fault *fault) {
    int rank = communicator->rank;
    for (int g = 0; g < communicator->group_count; g++) {
        const struct collective_group *group = &communicator->groups[g];
        for (int i = 0; group->index >= 0 && i < group->size; i++) {
            int peer = group->ranks[i];
            const struct group_hashes *own =
                (const void *)((const char *)hashes + (size_t)rank * stride_bytes);
            const struct group_hashes *other =
                (const void *)((const char *)hashes + (size_t)peer * stride_bytes);
            if (!hash_equal(&own->hashes[g], &other->hashes[g])) {
                return fault_set(
                    fault, STATUS_INPUT, subject, "start all ranks with the same strategy",
                    "rank %d and rank %d disagree about the ranks that group %d contains", rank,
                    peer, g);
            }
        }
    }
    return OK;
}

enum status groups_exchange_on_site(void *site, const void *mine, size_t bytes, void *all,
                                    struct fault *fault) {
    return site_exchange(site, mine, bytes, all, fault);
}

enum status groups_set_join_fault(const struct group_setup *setup, int rank, struct fault *fault) {
    return fault_set(fault, STATUS_FAILED, setup->subject, NULL,
                     "rank %d could not join the group; its own message gives the reason", rank);
}

enum status groups_agree_on_outcome(const struct group_setup *setup, enum status mine,
                                    struct fault *fault) {
    int32_t outcome = mine;
    int32_t *outcomes = region_alloc(setup->region, (size_t)setup->world, sizeof *outcomes);
    struct fault broken;
    enum status status =
        setup->exchange(setup->context, &outcome, sizeof outcome, outcomes, &broken);
    if (mine != OK) {
        return mine;
    }
    if (status != OK) {
        *fault = broken;
        return status;
    }
    for (int rank = 0; rank < setup->world; rank++) {
        if (outcomes[rank] != OK) {
            return groups_set_join_fault(setup, rank, fault);
        }
    }
    return OK;
}
