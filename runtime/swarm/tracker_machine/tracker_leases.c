/* tracker_leases: the electors of the newest state entry, what an OPEN has about them, and whether
 * enough of them are connected to continue (docs/decisions/0023-leases-against-forks.md). */
#include "runtime/swarm/tracker_machine/tracker_state.h"

/* Time in ms after which missing electors may be connected to a copy of the tracker. */
enum { FORK_POSSIBLE_MS = 5000 };

void tracker_use_leases(struct tracker *tracker, uint64_t start, const struct ledger_chain *chain) {
    struct tracker_leases *leases = &tracker->leases;
    ASSERT(chain->needs_leases == 1 && start != 0 && start <= INT64_MAX);
    leases->start = start;
    leases->electors = chain->electors;
    leases->needed = chain->needed;
}

/* The electors of the newest state entry that have resigned, as a set of indices. */
static uint64_t find_resigned(const struct tracker *tracker) {
    const struct record_resignations *resignations = &tracker->record.resignations;
    return tracker->leases.start != 0 &&
                   hash_equal(&resignations->state, &tracker->leases.electors.state)
               ? resignations->electors
               : 0;
}

/* The index of an elector, or SWARM_MEMBERS_MAX. */
static uint32_t find_elector(const struct electors *electors, const struct identity *id) {
    uint32_t i = 0;
    while (i < electors->count && memcmp(&electors->ids[i], id, sizeof *id) != 0) {
        i++;
    }
    return i < electors->count ? i : SWARM_MEMBERS_MAX;
}

void leases_fill_entry(const struct tracker *tracker, struct entry *entry) {
    const struct tracker_leases *leases = &tracker->leases;
    memset(&entry->leases, 0, sizeof entry->leases);
    if (leases->start != 0 && (entry->kind == ENTRY_OPEN || entry->kind == ENTRY_ABORT)) {
        entry->leases.start = leases->start;
        entry->leases.state = leases->electors.state;
    }
    if (leases->start == 0 || entry->kind != ENTRY_OPEN) {
        return;
    }
    entry->leases.order = leases->order;
    if (leases->order.count == 0 && find_resigned(tracker) != 0) {
        entry->leases.resigned = find_resigned(tracker);
        memcpy(entry->leases.signatures, tracker->record.resignations.signatures,
               sizeof entry->leases.signatures);
    }
}

void leases_apply_entry(struct tracker_leases *leases, const struct entry *head) {
    if (leases->start == 0) {
        return;
    }
    if (head->kind == ENTRY_OPEN) {
        leases->needed = electors_needed_votes(&leases->electors, head);
    }
    if (entry_sets_electors(head)) {
        electors_of_entry(head, &leases->electors);
        leases->promised = 0;
        leases->mute = 0;
        memset(&leases->order, 0, sizeof leases->order);
    }
}

bool tracker_can_seats_commit(const struct tracker *tracker, uint64_t seats) {
    return tracker->leases.start == 0 || has_needed_votes(&tracker->leases.needed, seats);
}

struct elector_count tracker_count_electors(const struct tracker *tracker, uint64_t rows) {
    const struct electors *electors = &tracker->leases.electors;
    const uint64_t free = rows & ~tracker->leases.promised;
    const uint64_t resigned = find_resigned(tracker);
    struct elector_count count = {0};
    for (uint32_t i = 0; i < electors->count && tracker->leases.start != 0; i++) {
        if ((resigned >> i & 1) != 0) {
            continue;
        }
        const uint32_t row = tracker_find_row(tracker, &electors->ids[i]);
        const bool is_here =
            row != ROW_NONE && seats_contain(free, row) && !tracker_is_guest(tracker, row);
        count.has_first |= count.all == 0 && is_here;
        count.all += 1;
        count.here += is_here;
    }
    count.promised = seats_count(rows & tracker->leases.promised);
    return count;
}

uint32_t tracker_list_missing_electors(const struct tracker *tracker,
                                       struct identity ids[static SWARM_MEMBERS_MAX]) {
    const struct electors *electors = &tracker->leases.electors;
    const uint64_t resigned = find_resigned(tracker);
    uint32_t count = 0;
    for (uint32_t i = 0; i < electors->count && tracker->leases.start != 0; i++) {
        const uint32_t row = tracker_find_row(tracker, &electors->ids[i]);
        const bool is_absent =
            row == ROW_NONE || tracker->members[row].is_silent || tracker->members[row].is_leaving;
        if (is_absent && (resigned >> i & 1) == 0) {
            ids[count++] = electors->ids[i];
        }
    }
    return count;
}

void leases_mark_vote(struct tracker_leases *leases, uint32_t row, bool is_promised) {
    leases->mute &= ~seat_bit(row);
    leases->promised |= is_promised && leases->start != 0 ? seat_bit(row) : 0;
}

void leases_clear_row(struct tracker_leases *leases, uint32_t row) {
    leases->promised &= ~seat_bit(row);
    leases->mute &= ~seat_bit(row);
}

/* Marks the live voters that have not voted as mute, so that they do not count as electors that can
 * vote. The elector that is missing may be a liar that never votes. */
void leases_mark_mute_rows(struct tracker *tracker) {
    ASSERT(tracker->stage.kind == STAGE_VOTE);
    SEATS_EACH(seat, tracker_live_voters(tracker)) {
        const int row = tracker->seats.row_of_seat[seat];
        tracker->leases.mute |= tracker->members[row].vote.has_arrived ? 0 : seat_bit(row);
    }
}

/* The rows that may have a seat: those that the operator's order to continue names; without an
 * order, all that have given no lease to another start. */
uint64_t tracker_rows_allowed_by_leases(const struct tracker *tracker) {
    const struct tracker_record *record = &tracker->record;
    const struct continue_order *order = &tracker->leases.order;
    uint64_t rows = 0;
    for (uint32_t row = 0; row < record->member_count; row++) {
        const bool is_promised = seats_contain(tracker->leases.promised, row);
        const bool is_allowed =
            order->count == 0 ? !is_promised
                              : continue_order_has_member(order, record->members[row].id.bytes);
        rows |= (uint64_t)is_allowed << row;
    }
    return rows;
}

/* Whether the member in a row may vote in the next round: it is neither a guest nor an elector that
 * has resigned. */
bool tracker_may_vote(const struct tracker *tracker, uint32_t row) {
    return !tracker_is_guest(tracker, row) &&
           (tracker->leases.order.count != 0 || !tracker_has_resigned(tracker, row));
}

bool tracker_has_resigned(const struct tracker *tracker, uint32_t row) {
    const struct identity *id = &tracker->record.members[row].id;
    const uint32_t elector = find_elector(&tracker->leases.electors, id);
    return elector < SWARM_MEMBERS_MAX && (find_resigned(tracker) >> elector & 1) != 0;
}

/* Whether the member must resign before it leaves: it is an elector that has not resigned, and
 * another one stays. If none stays, the resignation would only keep the member from continuing the
 * swarm when it returns. */
bool tracker_must_resign(const struct tracker *tracker, uint32_t row, uint64_t stayers) {
    const struct electors *electors = &tracker->leases.electors;
    const bool is_elector =
        find_elector(electors, &tracker->record.members[row].id) < SWARM_MEMBERS_MAX;
    return tracker->leases.start != 0 && is_elector && !tracker_has_resigned(tracker, row) &&
           tracker_count_electors(tracker, stayers).here > 0;
}

void tracker_handle_resignation(struct tracker *tracker, uint32_t row,
                                const struct message *message, struct actions *actions) {
    const struct electors *electors = &tracker->leases.electors;
    const uint32_t elector = find_elector(electors, &tracker->record.members[row].id);
    if (tracker->leases.start == 0 || !writer_can_write(&tracker->writer) ||
        !hash_equal(&message->hash, &electors->state) || elector == SWARM_MEMBERS_MAX ||
        tracker_has_resigned(tracker, row)) {
        return; /* ignored: the member repeats its RESIGN until it is recorded */
    }
    tracker_begin_draft(tracker);
    struct record_resignations *next = &tracker->writer.next.resignations;
    if (!hash_equal(&next->state, &electors->state)) {
        next->state = electors->state;
        next->electors = 0;
        memset(next->signatures, 0, sizeof next->signatures);
    }
    next->electors |= UINT64_C(1) << elector;
    next->signatures[elector] = message->signature;
    tracker_write_draft(tracker, RECORD_RESIGNATIONS, actions);
}

static bool has_enough_electors(const struct elector_count *count) {
    return 2 * count->here > count->all || (2 * count->here == count->all && count->has_first);
}

/* Whether a round of the members in `rows` may follow GENESIS, which has no electors. If another
 * start of the tracker has leases, it may commit a round without this start. Then at least
 * members_min voters in `rows` must have given no lease to another start. */
static bool may_start_after_genesis(const struct tracker *tracker, uint64_t rows) {
    uint32_t free = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const bool is_free = seats_contain(rows & ~tracker->leases.promised, row);
        free += is_free && !tracker_is_guest(tracker, row);
    }
    return tracker->leases.promised == 0 || (free > 0 && free >= tracker->settings.members_min);
}

/* Whether the leases allow that the members in `rows` commit a round. */
bool tracker_may_continue_with(const struct tracker *tracker, uint64_t rows) {
    if (tracker->leases.start == 0) {
        return true;
    }
    if (tracker->leases.order.count > 0) {
        const uint64_t ordered = rows & tracker_rows_allowed_by_leases(tracker);
        return 2 * seats_count(ordered) > tracker->leases.order.count;
    }
    const struct elector_count count = tracker_count_electors(tracker, rows);
    return tracker->leases.electors.count == 0 ? may_start_after_genesis(tracker, rows)
                                               : has_enough_electors(&count);
}

static uint64_t find_staying_rows(const struct tracker *tracker) {
    uint64_t rows = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        rows |= (uint64_t)(!member->is_silent && !member->is_leaving) << row;
    }
    return rows;
}

/* Records since when the electors have been too few. Time in which no member is connected does not
 * count, because the tracker itself may be disconnected. */
void tracker_watch_electors(struct tracker *tracker, int64_t now_ms) {
    struct tracker_leases *leases = &tracker->leases;
    const uint64_t staying = find_staying_rows(tracker);
    const uint64_t voting = staying & ~leases->mute;
    const struct elector_count count = tracker_count_electors(tracker, voting);
    const bool is_half = leases->order.count == 0 && count.all > 0 && 2 * count.here == count.all;
    if (staying == 0 || (tracker_may_continue_with(tracker, voting) && !is_half)) {
        leases->no_majority_since_ms = 0;
    } else if (leases->no_majority_since_ms == 0) {
        leases->no_majority_since_ms = now_ms;
    }
    leases->is_fork_possible = leases->no_majority_since_ms != 0 &&
                               now_ms - leases->no_majority_since_ms >= FORK_POSSIBLE_MS;
}

bool tracker_is_fork_possible(const struct tracker *tracker, struct elector_count *count) {
    if (tracker->leases.is_fork_possible) {
        const uint64_t voting = find_staying_rows(tracker) & ~tracker->leases.mute;
        *count = tracker_count_electors(tracker, voting);
        count->is_enough = tracker_may_continue_with(tracker, voting);
    }
    return tracker->leases.is_fork_possible;
}

/* Adds a member to the order, which lists its members by ascending key. */
static void insert_member_sorted(struct continue_order *order, const struct identity *id) {
    uint32_t at = order->count++;
    for (; at > 0 && memcmp(order->members[at - 1], id->bytes, KEY_BYTES) > 0; at--) {
        memcpy(order->members[at], order->members[at - 1], KEY_BYTES);
    }
    memcpy(order->members[at], id->bytes, KEY_BYTES);
}

void tracker_fill_continue_order(const struct tracker *tracker, struct hash *state,
                                 struct tracker_start *start, struct continue_order *order) {
    const struct tracker_record *record = &tracker->record;
    memset(order, 0, sizeof *order);
    *state = tracker->leases.electors.state;
    *start = (struct tracker_start){record->incarnation, tracker->leases.start};
    for (uint32_t row = 0; row < record->member_count && tracker->leases.start != 0; row++) {
        if (tracker_is_ready_for_round(tracker, row) && !tracker_is_guest(tracker, row)) {
            insert_member_sorted(order, &record->members[row].id);
        }
    }
}

void tracker_set_continue_order(struct tracker *tracker, const struct continue_order *order) {
    ASSERT(tracker->leases.start != 0 && continue_order_error(order) == NULL);
    tracker->leases.order = *order;
}

/* Whether the operator ordered the open round for another start of the tracker, so that only that
 * start may commit it. */
static bool is_order_of_other_start(const struct tracker *tracker) {
    const struct entry *head = &tracker->record.head;
    return head->leases.order.count > 0 && (head->incarnation != tracker->record.incarnation ||
                                            head->leases.start != tracker->leases.start);
}

/* Whether an order excludes the open round, which must then be aborted. */
bool tracker_is_round_overruled(const struct tracker *tracker) {
    const struct entry *head = &tracker->record.head;
    return head->kind == ENTRY_OPEN &&
           ((tracker->leases.order.count > 0 && head->leases.order.count == 0) ||
            is_order_of_other_start(tracker));
}
