#include "transport/messages/accept_policy.h"

#include <stddef.h>

/* ---- hosts ---- */

static bool is_expected_host(const struct accept_policy *policy, const struct source *host) {
    const uint64_t count =
        policy->expected_count < ACCEPT_HOSTS_MAX ? policy->expected_count : ACCEPT_HOSTS_MAX;
    for (uint64_t i = 0; i < count; i++) {
        if (source_is_same_host(&policy->expected_hosts[i], host)) {
            return true;
        }
    }
    return false;
}

void accept_policy_add_expected_host(struct accept_policy *policy, const struct source *host) {
    if (!is_expected_host(policy, host)) {
        policy->expected_hosts[policy->expected_count++ % ACCEPT_HOSTS_MAX] = *host;
    }
}

/* Finds the row of a host. A host without a row replaces the one that was counted least
 * recently, except blocked ones. */
static struct counted_host *find_counted_host(struct accept_policy *policy,
                                              const struct source *host) {
    struct counted_host *oldest = NULL;
    for (uint32_t i = 0; i < policy->counted_count; i++) {
        struct counted_host *counted = &policy->counted[i];
        if (source_is_same_host(&counted->host, host)) {
            return counted;
        }
        if (counted->blocked_until_ms == 0 &&
            (oldest == NULL || counted->bucket.filled_ms < oldest->bucket.filled_ms)) {
            oldest = counted;
        }
    }
    if (policy->counted_count < ACCEPT_COUNTED_MAX) {
        oldest = &policy->counted[policy->counted_count++];
    }
    /* not all rows are blocked, because there are more rows than hosts that can be blocked */
    ASSERT(oldest != NULL);
    *oldest = (struct counted_host){.host = *host};
    return oldest;
}
_Static_assert(ACCEPT_BLOCKED_MAX < ACCEPT_COUNTED_MAX,
               "a blocked host is never evicted from the table of counted hosts");

bool accept_policy_count_connection(struct accept_policy *policy, const struct source *host,
                                    int64_t now_ms) {
    accept_policy_unblock_hosts(policy, now_ms);
    struct counted_host *counted = find_counted_host(policy, host);
    if (counted->blocked_until_ms > 0) {
        return false;
    }
    if (token_bucket_take(&counted->bucket, ACCEPT_HOST_LIMIT, 1, now_ms)) {
        return true;
    }
    if (policy->blocked_count < ACCEPT_BLOCKED_MAX) {
        counted->blocked_until_ms = now_ms + ACCEPT_BLOCK_MS;
        policy->blocked_count++;
        policy->blocked_version++;
    }
    return false;
}

void accept_policy_unblock_hosts(struct accept_policy *policy, int64_t now_ms) {
    for (uint32_t i = 0; policy->blocked_count > 0 && i < policy->counted_count; i++) {
        struct counted_host *counted = &policy->counted[i];
        if (counted->blocked_until_ms > 0 && counted->blocked_until_ms <= now_ms) {
            counted->blocked_until_ms = 0;
            policy->blocked_count--;
            policy->blocked_version++;
        }
    }
}

uint32_t accept_policy_list_blocked(const struct accept_policy *policy,
                                    struct source hosts[static ACCEPT_BLOCKED_MAX]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < policy->counted_count; i++) {
        if (policy->counted[i].blocked_until_ms > 0) {
            ASSERT(count < ACCEPT_BLOCKED_MAX);
            hosts[count++] = policy->counted[i].host;
        }
    }
    return count;
}

/* ---- pending connections ---- */

static bool is_in_group(const struct pending_entry *pending, bool is_expected) {
    return pending->is_used && pending->is_expected == is_expected;
}

static uint32_t count_group(const struct accept_policy *policy, bool is_expected) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < ACCEPT_ENTRIES; i++) {
        count += is_in_group(&policy->pending[i], is_expected);
    }
    return count;
}

static void fill_pending_entry(struct accept_policy *policy, struct pending_entry *place,
                               struct pending_entry newcomer) {
    for (uint32_t i = 0; i < ACCEPT_ENTRIES; i++) {
        struct pending_entry *other = &policy->pending[i];
        const bool is_near = is_in_group(other, newcomer.is_expected) &&
                             source_is_same_network(&other->host, &newcomer.host);
        const bool is_same = is_near && source_is_same_host(&other->host, &newcomer.host);
        newcomer.network_count += is_near;
        newcomer.host_count += is_same;
        other->network_count += is_near;
        other->host_count += is_same;
    }
    newcomer.network_count++;
    newcomer.host_count++;
    *place = newcomer;
}

static void free_pending_entry(struct accept_policy *policy, struct pending_entry *place) {
    place->is_used = false;
    for (uint32_t i = 0; i < ACCEPT_ENTRIES; i++) {
        struct pending_entry *other = &policy->pending[i];
        if (is_in_group(other, place->is_expected) &&
            source_is_same_network(&other->host, &place->host)) {
            other->network_count--;
            other->host_count -= source_is_same_host(&other->host, &place->host);
        }
    }
}

static bool is_evicted_before(const struct pending_entry *a, const struct pending_entry *b) {
    if (a->network_count != b->network_count) {
        return a->network_count > b->network_count;
    }
    return a->host_count != b->host_count ? a->host_count > b->host_count
                                          : a->sequence < b->sequence;
}

/* Chooses which connection of the new connection's group to evict, from its network only or from
 * all networks. */
static struct pending_entry *choose_evicted(struct accept_policy *policy,
                                            const struct pending_entry *newcomer, bool in_network) {
    struct pending_entry *chosen = NULL;
    for (uint32_t i = 0; i < ACCEPT_ENTRIES; i++) {
        struct pending_entry *pending = &policy->pending[i];
        if (is_in_group(pending, newcomer->is_expected) &&
            (!in_network || source_is_same_network(&pending->host, &newcomer->host)) &&
            (chosen == NULL || is_evicted_before(pending, chosen))) {
            chosen = pending;
        }
    }
    ASSERT(chosen != NULL); /* not NULL, because the new connection itself may be chosen */
    return chosen;
}

static struct pending_entry *find_free_pending_entry(struct accept_policy *policy) {
    uint32_t i = 0;
    while (i < ACCEPT_ENTRIES && policy->pending[i].is_used) {
        i++;
    }
    /* an entry is free, because a connection was evicted when the last one was filled */
    ASSERT(i < ACCEPT_ENTRIES);
    return &policy->pending[i];
}

uint32_t accept_policy_add_pending(struct accept_policy *policy, const struct source *host,
                                   uint32_t connection) {
    const bool is_expected = is_expected_host(policy, host);
    struct pending_entry *newcomer = find_free_pending_entry(policy);
    fill_pending_entry(policy, newcomer,
                       (struct pending_entry){.is_used = true,
                                              .is_expected = is_expected,
                                              .host = *host,
                                              .connection = connection,
                                              .sequence = policy->next_sequence++});
    /* Members that share one address are limited only by the limit of their group. */
    const bool is_network_full = !is_expected && newcomer->network_count > ACCEPT_NETWORK_MAX;
    const uint32_t group_max = is_expected ? ACCEPT_EXPECTED_MAX : ACCEPT_OUTSIDERS_MAX;
    if (!is_network_full && count_group(policy, is_expected) <= group_max) {
        return ACCEPT_NONE;
    }
    struct pending_entry *evicted = choose_evicted(policy, newcomer, is_network_full);
    free_pending_entry(policy, evicted);
    return evicted->connection;
}

void accept_policy_remove_pending(struct accept_policy *policy, uint32_t connection) {
    for (uint32_t i = 0; i < ACCEPT_ENTRIES; i++) {
        struct pending_entry *pending = &policy->pending[i];
        if (pending->is_used && pending->connection == connection) {
            free_pending_entry(policy, pending);
        }
    }
}
