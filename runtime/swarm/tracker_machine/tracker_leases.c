/* tracker_leases: the electors of the newest state entry, what an OPEN says about them, and whether
 * enough of them are here to continue (docs/decisions/0023-leases-against-forks.md). */
#include "runtime/swarm/tracker_machine/tracker_state.h"

/* Electors that are missing for so long may be with a copy of the tracker. */
enum { FORK_POSSIBLE_MS = 5000 };

void tracker_use_leases(struct tracker *tracker, uint64_t start, const struct ledger_chain *chain) {
    struct tracker_leases *leases = &tracker->leases;
    ASSERT(chain->needs_leases == 1 && start != 0 && start <= INT64_MAX);
    leases->start = start;
    leases->electors = chain->electors;
    leases->needed = chain->needed;
    leases->roster = chain->roster_epoch;
}

void leases_draft(const struct tracker *tracker, struct entry *entry) {
    const struct tracker_leases *leases = &tracker->leases;
    memset(&entry->leases, 0, sizeof entry->leases);
    if (leases->start != 0 && (entry->kind == ENTRY_OPEN || entry->kind == ENTRY_ABORT)) {
        entry->leases.start = leases->start;
        entry->leases.state = leases->electors.state;
    }
    if (leases->start != 0 && entry->kind == ENTRY_OPEN) {
        entry->leases.order = leases->order;
    }
}

void leases_advance(struct tracker_leases *leases, const struct entry *head) {
    if (leases->start == 0) {
        return;
    }
    if (head->documents.roster.serial != 0) {
        leases->roster = head->documents.roster;
    }
    if (head->kind == ENTRY_OPEN) {
        leases->needed = electors_needed_votes(&leases->electors, &leases->roster, head);
    }
    if (entry_sets_electors(head)) {
        electors_of_entry(head, &leases->electors);
        memset(&leases->order, 0, sizeof leases->order);
    }
}

bool tracker_has_needed_seats(const struct tracker *tracker, uint64_t seats) {
    return tracker->leases.start == 0 || has_needed_votes(&tracker->leases.needed, seats);
}

/* The roster epoch that is valid with the next OPEN. */
static const struct roster_epoch *next_roster(const struct tracker *tracker) {
    const struct roster_epoch *waiting = &tracker->writer.documents.roster;
    return waiting->serial != 0 ? waiting : &tracker->leases.roster;
}

struct elector_count tracker_count_electors(const struct tracker *tracker, uint64_t rows) {
    const struct electors *electors = &tracker->leases.electors;
    const struct roster_epoch *roster = next_roster(tracker);
    struct elector_count count = {0};
    for (uint32_t i = 0; i < electors->count && tracker->leases.start != 0; i++) {
        if (roster->serial != 0 && !roster_epoch_has(roster, electors->ids[i].bytes)) {
            continue;
        }
        const uint32_t row = tracker_find_row(tracker, &electors->ids[i]);
        count.all += 1;
        count.here += row != ROW_NONE && (rows >> row & 1) != 0;
    }
    return count;
}

uint64_t tracker_ordered_rows(const struct tracker *tracker) {
    const struct tracker_record *record = &tracker->record;
    const struct continue_order *order = &tracker->leases.order;
    uint64_t rows = 0;
    for (uint32_t row = 0; row < record->member_count; row++) {
        const bool is_named =
            order->count == 0 || continue_order_has(order, record->members[row].id.bytes);
        rows |= (uint64_t)is_named << row;
    }
    return rows;
}

bool tracker_electors_allow(const struct tracker *tracker, uint64_t rows) {
    if (tracker->leases.order.count > 0) {
        const uint64_t ordered = rows & tracker_ordered_rows(tracker);
        return 2 * seats_count(ordered) > tracker->leases.order.count;
    }
    const struct elector_count count = tracker_count_electors(tracker, rows);
    return tracker->leases.start == 0 || tracker->leases.electors.count == 0 ||
           2 * count.here > count.all;
}

static uint64_t find_connected_rows(const struct tracker *tracker) {
    uint64_t rows = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        rows |= (uint64_t)!tracker->members[row].is_silent << row;
    }
    return rows;
}

/* While no member is connected, the tracker itself may be disconnected. */
void tracker_watch_electors(struct tracker *tracker, int64_t now_ms) {
    struct tracker_leases *leases = &tracker->leases;
    const uint64_t connected = find_connected_rows(tracker);
    if (connected == 0 || tracker_electors_allow(tracker, connected)) {
        leases->missing_ms = 0;
    } else if (leases->missing_ms == 0) {
        leases->missing_ms = now_ms;
    }
    leases->is_fork_possible =
        leases->missing_ms != 0 && now_ms - leases->missing_ms >= FORK_POSSIBLE_MS;
}

bool tracker_is_fork_possible(const struct tracker *tracker, uint32_t *all, uint32_t *here) {
    if (tracker->leases.is_fork_possible) {
        const struct elector_count count =
            tracker_count_electors(tracker, find_connected_rows(tracker));
        *all = count.all;
        *here = count.here;
    }
    return tracker->leases.is_fork_possible;
}

static void insert_member(struct continue_order *order, const struct identity *id) {
    uint32_t at = order->count++;
    for (; at > 0 && memcmp(order->members[at - 1], id->bytes, KEY_BYTES) > 0; at--) {
        memcpy(order->members[at], order->members[at - 1], KEY_BYTES);
    }
    memcpy(order->members[at], id->bytes, KEY_BYTES);
}

void tracker_describe_wait(const struct tracker *tracker, struct hash *state,
                           struct tracker_start *start, struct continue_order *order) {
    const struct tracker_record *record = &tracker->record;
    memset(order, 0, sizeof *order);
    *state = tracker->leases.electors.state;
    *start = (struct tracker_start){record->incarnation, tracker->leases.start};
    for (uint32_t row = 0; row < record->member_count && tracker->leases.start != 0; row++) {
        if (tracker_is_ready(tracker, row) && !tracker_is_guest(tracker, row)) {
            insert_member(order, &record->members[row].id);
        }
    }
}

void tracker_order_continue(struct tracker *tracker, const struct continue_order *order) {
    ASSERT(tracker->leases.start != 0 && continue_order_error(order) == NULL);
    tracker->leases.order = *order;
}

bool tracker_is_round_overruled(const struct tracker *tracker) {
    const struct entry *head = &tracker->record.head;
    return head->kind == ENTRY_OPEN && tracker->leases.order.count > 0 &&
           head->leases.order.count == 0;
}
