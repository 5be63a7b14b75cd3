/* serving: decides which queries the tracker answers now, within serving_limits.h. A query that is
 * not answered is dropped, because its sender repeats it. */
#ifndef SKEP_SWARM_TRACKER_SERVING_H
#define SKEP_SWARM_TRACKER_SERVING_H

#include "base/token_bucket.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of a query's sender, by the key or identity that it has proven. */
enum requester {
    REQUESTER_UNPROVEN, /* a process with an invalid proof */
    REQUESTER_STRANGER, /* a process that has proven no listed key and is no member */
    REQUESTER_LISTED,   /* an identity on the allow-list, of a member, or of the tracker itself */
    REQUESTER_MEMBER,   /* a query on the connection of a member */
};

/* The limits that all requesters of a kind share. */
struct serving_buckets {
    /* limits on the bytes sent to all strangers, and to all listed processes */
    struct token_bucket strangers, listed;
    struct token_bucket new_guests; /* limit on the guests that are added to the member table */
};

/* The limits of one connection. */
struct guest_usage {
    struct token_bucket queries, pings; /* limits on queries and pings: one token each */
};

/* The limits of one member, whatever its connection. */
struct member_usage {
    /* limits on the member's starts, and on ledger entries sent to the member */
    struct token_bucket starts, ledger_entries;
    uint64_t start_number; /* number of the last HELLO that was admitted */
};

/* serving_permit_query, serving_permit_ping: count one query, or one ping, of a connection.
 * Return false if the query or ping must be dropped. */
MUST_CHECK bool serving_permit_query(struct guest_usage *usage, int64_t now_ms);
MUST_CHECK bool serving_permit_ping(struct guest_usage *usage, int64_t now_ms);

/* serving_permit_start: count a HELLO of a member. A repeated HELLO of the same start costs
 * nothing. Returns false if the HELLO must be dropped. */
MUST_CHECK bool serving_permit_start(struct member_usage *usage, uint64_t start_number,
                                     int64_t now_ms);

/* serving_permit_guest: count a guest that has no row in the member table. Returns false if the
 * guest has to wait. */
MUST_CHECK bool serving_permit_guest(struct serving_buckets *buckets, int64_t now_ms);

/* serving_may_send_bytes: whether the limit of this kind of requesters allows another answer.
 * serving_charge_bytes: charge an answer of this length to that limit.
 * limits  not REQUESTER_UNPROVEN */
bool serving_may_send_bytes(struct serving_buckets *buckets, enum requester requester,
                            int64_t now_ms);
void serving_charge_bytes(struct serving_buckets *buckets, enum requester requester, size_t bytes,
                          int64_t now_ms);

/* serving_may_send_entries: whether the member's limit allows more entries of a ledger with
 * entry_count entries.
 * serving_charge_entries: charge `sent` entries to that limit. */
bool serving_may_send_entries(struct member_usage *usage, uint64_t entry_count, int64_t now_ms);
void serving_charge_entries(struct member_usage *usage, uint64_t entry_count, uint64_t sent,
                            int64_t now_ms);

#endif
