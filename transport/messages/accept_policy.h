/* accept_policy: decides which connections without a finished handshake stay open. It uses no
 * socket and no clock of its own.
 *
 * A connection is pending from the time when it is accepted until its hello has arrived, which
 * proves a key. A pending connection costs an outsider nothing, so the number of them is limited.
 * When a limit is reached, a new connection evicts a pending one:
 *
 *     hosts that have proven an expected key   ACCEPT_EXPECTED_MAX
 *     all other hosts                          ACCEPT_OUTSIDERS_MAX, ACCEPT_NETWORK_MAX per network
 *
 * An expected key is a key that the caller has registered, or the key of a guest above class 0. The
 * two groups never evict each other's connections. In the group of the others, the evicted
 * connection belongs to the host with the most of them, in the network that has reached its limit,
 * or else in the network with the most of them; of that host's connections, it is the oldest. A
 * host that floods a listener therefore evicts its own connections only, even if others share its
 * network.
 *
 * A host that connects much more often than a swarm behind one address does is blocked for a
 * time. */
#ifndef SKEP_TRANSPORT_MESSAGES_ACCEPT_POLICY_H
#define SKEP_TRANSPORT_MESSAGES_ACCEPT_POLICY_H

#include "base/token_bucket.h"
#include "transport/messages/source.h"

enum {
    ACCEPT_OUTSIDERS_MAX = 128, /* pending connections of all hosts that are not expected */
    ACCEPT_EXPECTED_MAX = 128,  /* pending connections of all expected hosts */
    /* pending connections of all hosts */
    ACCEPT_PENDING_MAX = ACCEPT_OUTSIDERS_MAX + ACCEPT_EXPECTED_MAX,
    ACCEPT_ENTRIES = ACCEPT_PENDING_MAX + 1, /* all pending connections, and a new one */
    ACCEPT_NETWORK_MAX = 8, /* pending connections of one network's hosts that are not expected */
    /* Hosts that have proven an expected key: twice the largest swarm. The oldest is replaced. */
    ACCEPT_HOSTS_MAX = 128,
    ACCEPT_COUNTED_MAX = 256, /* hosts whose connections are counted; the oldest is replaced */
    ACCEPT_BLOCKED_MAX = 32,  /* hosts that can be blocked at the same time */
    ACCEPT_BLOCK_MS = 10000,  /* how long a host is blocked */
};

/* 64 members that share one address may open three connections each at the same time, and reopen
 * them after disconnections. */
static const struct token_limit ACCEPT_HOST_LIMIT = {.rate = 32, .burst = 256};

static const uint32_t ACCEPT_NONE = UINT32_MAX;

struct pending_entry {
    bool is_used;           /* false: the entry is free */
    bool is_expected;       /* a process on the host has proven an expected key */
    struct source host;     /* where the connection comes from */
    uint32_t connection;    /* the caller's number of the connection */
    uint64_t sequence;      /* number that increases with each connection, to find the oldest */
    uint32_t network_count; /* pending connections of this network in the same group */
    uint32_t host_count;    /* pending connections of this host */
};

struct counted_host {
    struct source host;
    struct token_bucket bucket; /* limits the connections that the host may open per second */
    int64_t blocked_until_ms;   /* when the host may connect again; 0: not blocked */
};

/* The state of the policy. Zero-initialise it before the first call. */
struct accept_policy {
    struct pending_entry pending[ACCEPT_ENTRIES];
    uint64_t next_sequence;                         /* `sequence` of the next pending connection */
    struct source expected_hosts[ACCEPT_HOSTS_MAX]; /* ring buffer */
    uint64_t expected_count; /* number of hosts added so far to expected_hosts */
    struct counted_host counted[ACCEPT_COUNTED_MAX]; /* hosts whose connections are counted */
    uint32_t counted_count;                          /* number of entries in `counted` */
    uint32_t blocked_count;                          /* number of hosts with blocked_until_ms > 0 */
    uint32_t blocked_version; /* increases whenever a host is blocked or unblocked */
};

/* accept_policy_count_connection: count a connection of a host. Returns false if the host is
 * blocked, or is now blocked for ACCEPT_BLOCK_MS because it has opened too many connections; the
 * caller then closes the connection.
 * limits  now_ms never decreases */
MUST_CHECK bool accept_policy_count_connection(struct accept_policy *policy,
                                               const struct source *host, int64_t now_ms);

/* accept_policy_unblock_hosts: unblock the hosts whose blocking time has ended.
 * accept_policy_list_blocked: write the hosts that are blocked, and return their number. */
void accept_policy_unblock_hosts(struct accept_policy *policy, int64_t now_ms);
uint32_t accept_policy_list_blocked(const struct accept_policy *policy,
                                    struct source hosts[static ACCEPT_BLOCKED_MAX]);

/* accept_policy_add_pending: add a pending connection. Returns the connection that the caller must
 * close to stay within the limits, which is no longer pending; ACCEPT_NONE: none.
 * limits  `connection` is not pending */
MUST_CHECK uint32_t accept_policy_add_pending(struct accept_policy *policy,
                                              const struct source *host, uint32_t connection);

/* accept_policy_remove_pending: remove a connection that is no longer pending. Does nothing if the
 * policy has no such connection. */
void accept_policy_remove_pending(struct accept_policy *policy, uint32_t connection);

/* accept_policy_add_expected_host: add a host on which a process has proven an expected key. Later
 * connections of the host count in the group of expected hosts. */
void accept_policy_add_expected_host(struct accept_policy *policy, const struct source *host);

#endif
