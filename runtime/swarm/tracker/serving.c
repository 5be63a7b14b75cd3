#include "runtime/swarm/tracker/serving.h"

#include "runtime/swarm/wire/serving_limits.h"

bool serving_permit_query(struct guest_usage *usage, int64_t now_ms) {
    return token_bucket_take(&usage->queries, SERVE_QUERIES, 1, now_ms);
}

bool serving_permit_ping(struct guest_usage *usage, int64_t now_ms) {
    return token_bucket_take(&usage->pings, SERVE_PINGS, 1, now_ms);
}

bool serving_permit_start(struct member_usage *usage, uint64_t start_number, int64_t now_ms) {
    if (start_number == usage->start_number) {
        return true;
    }
    const bool may_start = token_bucket_take(&usage->starts, SERVE_STARTS, 1, now_ms);
    usage->start_number = may_start ? start_number : usage->start_number;
    return may_start;
}

bool serving_permit_guest(struct serving_buckets *buckets, int64_t now_ms) {
    return token_bucket_take(&buckets->new_guests, SERVE_NEW_GUESTS, 1, now_ms);
}

bool serving_may_send_bytes(struct serving_buckets *buckets, enum requester requester,
                            int64_t now_ms) {
    ASSERT(requester != REQUESTER_UNPROVEN);
    return requester == REQUESTER_STRANGER
               ? token_bucket_has(&buckets->strangers, SERVE_STRANGERS_BYTES, now_ms)
               : token_bucket_has(&buckets->listed, SERVE_LISTED_BYTES, now_ms);
}

void serving_charge_bytes(struct serving_buckets *buckets, enum requester requester, size_t bytes,
                          int64_t now_ms) {
    ASSERT(requester != REQUESTER_UNPROVEN);
    if (requester == REQUESTER_STRANGER) {
        token_bucket_spend(&buckets->strangers, SERVE_STRANGERS_BYTES, (double)bytes, now_ms);
    } else {
        token_bucket_spend(&buckets->listed, SERVE_LISTED_BYTES, (double)bytes, now_ms);
    }
}

static struct token_limit ledger_limit(uint64_t entry_count) {
    const double a_day = SERVE_LEDGER_TIMES_A_DAY * (double)entry_count;
    return (struct token_limit){.rate = a_day / SERVE_DAY_S,
                                .burst = a_day + SERVE_LEDGER_ENTRIES_EXTRA};
}

bool serving_may_send_entries(struct member_usage *usage, uint64_t entry_count, int64_t now_ms) {
    return token_bucket_has(&usage->ledger_entries, ledger_limit(entry_count), now_ms);
}

void serving_charge_entries(struct member_usage *usage, uint64_t entry_count, uint64_t sent,
                            int64_t now_ms) {
    token_bucket_spend(&usage->ledger_entries, ledger_limit(entry_count), (double)sent, now_ms);
}
