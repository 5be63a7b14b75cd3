/* tracker_members: the registered members: their sessions, seats, reports and declarations. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

/* Number of missed rounds after which a joiner cannot catch up while rounds continue. */
enum { ROUNDS_MISSED_MAX = 2 };

uint32_t tracker_find_row(const struct tracker *tracker, const struct identity *id) {
    ASSERT(tracker->record.member_count <= SWARM_MEMBERS_MAX);
    uint32_t row = 0;
    while (row < tracker->record.member_count &&
           memcmp(&tracker->record.members[row].id, id, sizeof *id) != 0) {
        row++;
    }
    return row < tracker->record.member_count ? row : ROW_NONE;
}

struct tracker_member *tracker_member_in_seat(struct tracker *tracker, uint32_t seat) {
    int row = tracker->seats.row_of_seat[seat];
    ASSERT(seat < tracker->record.head.seat_count && row != NO_SEAT);
    ASSERT(tracker->seats.seat_of_row[row] == (int)seat);
    return &tracker->members[row];
}

void tracker_map_seats(struct tracker *tracker) {
    const struct tracker_record *record = &tracker->record;
    struct tracker_seats *seats = &tracker->seats;
    ASSERT(record->head.seat_count <= SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < SWARM_MEMBERS_MAX; i++) {
        seats->row_of_seat[i] = NO_SEAT;
        seats->seat_of_row[i] = NO_SEAT;
    }
    for (uint32_t seat = 0; seat < record->head.seat_count; seat++) {
        const struct entry_seat *at = &record->head.seats[seat];
        uint32_t row = tracker_find_row(tracker, &at->id);
        if (row != ROW_NONE && record->members[row].session == at->session) {
            ASSERT(seats->seat_of_row[row] == NO_SEAT);
            seats->row_of_seat[seat] = (int)row;
            seats->seat_of_row[row] = (int)seat;
        }
    }
}

uint64_t tracker_live_seats(const struct tracker *tracker) {
    ASSERT(tracker->record.head.seat_count <= SWARM_MEMBERS_MAX);
    uint64_t live = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int row = tracker->seats.row_of_seat[seat];
        live |= row != NO_SEAT && !tracker->members[row].is_silent ? seat_bit(seat) : 0;
    }
    return live;
}

void tracker_init_members(struct tracker *tracker, char **memory, int64_t now_ms) {
    size_t bytes = tracker->settings.slice_count * sizeof(struct slice_report);
    ASSERT(tracker->writer.parts == 0 && tracker->writer.pending_row == 0);
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].report.slices = carve(memory, bytes);
        tracker->members[row].last_message_ms = now_ms;
    }
    tracker_map_seats(tracker);
}

void tracker_restore_round_trip(struct tracker_member *member, uint32_t round_trip_ms) {
    member->report.measured.round_trip_ms = round_trip_ms;
}

/* Returns an unused row, or else the row of a silent member without a seat. */
uint32_t tracker_find_free_row(const struct tracker *tracker) {
    if (tracker->record.member_count < SWARM_MEMBERS_MAX) {
        return tracker->record.member_count;
    }
    uint32_t row = 0;
    while (row < SWARM_MEMBERS_MAX &&
           (!tracker->members[row].is_silent || tracker->seats.seat_of_row[row] != NO_SEAT)) {
        row++;
    }
    return row;
}

void tracker_register_start(struct tracker *tracker, uint32_t row, const struct message *hello,
                            int64_t now_ms) {
    struct tracker_member *member = &tracker->members[row];
    bool is_known = tracker_find_row(tracker, &hello->from) == row;
    ASSERT(hello->kind == MESSAGE_HELLO && writer_can_write(&tracker->writer));
    ASSERT(row < SWARM_MEMBERS_MAX && row <= tracker->record.member_count);
    *member = (struct tracker_member){
        .start_id = hello->number,
        .last_message_ms = now_ms,
        .is_silent = true, /* The member counts as silent until its session is durable. */
        .report = {.durable_root = hello->root, .slices = member->report.slices}};
    leases_clear_row(&tracker->leases, row);
    if (!is_known) {
        tracker_clear_speed(tracker, row);
        tracker_clear_strikes(tracker, row);
        tracker_clear_recheck_credit(tracker, row);
        tracker_clear_pairs(tracker, row);
    }
    if (tracker->seats.seat_of_row[row] != NO_SEAT) {
        tracker_clear_holder(tracker, (uint32_t)tracker->seats.seat_of_row[row]);
    }
}

/* Admits a member, whose session is durable now. A restarted member counts as reachable until
 * another member reports that it is not. */
void tracker_admit_member(struct tracker *tracker, uint32_t row) {
    ASSERT(row < tracker->record.member_count);
    ASSERT(tracker->record.members[row].session < tracker->record.next_session);
    tracker->members[row].is_silent = false;
    for (uint32_t other = 0; other < SWARM_MEMBERS_MAX; other++) {
        tracker->members[other].report.unreachable &= ~seat_bit(row);
    }
}

void tracker_reject_start(struct tracker *tracker, uint32_t row) {
    ASSERT(row < SWARM_MEMBERS_MAX);
    tracker->members[row].start_id = 0;
}

/* Marks the members as silent whose last message is older than silence_ms. */
void tracker_mark_timed_out_members(struct tracker *tracker, int64_t now_ms) {
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        struct tracker_member *member = &tracker->members[row];
        member->is_silent |=
            now_ms - member->last_message_ms > tracker->deadlines.timing.silence_ms;
    }
}

void tracker_shift_member_times(struct tracker *tracker, int64_t gap_ms) {
    ASSERT(gap_ms >= 0 && tracker->record.member_count <= SWARM_MEMBERS_MAX);
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].last_message_ms += gap_ms;
    }
}

/* Marks a member as silent immediately, until its next message. */
void tracker_mark_silent(struct tracker_member *member) {
    member->is_silent = true;
    tracker_clear_last_sent(&member->last_sent);
}

void tracker_mark_message_received(struct tracker_member *member, int64_t now_ms) {
    member->last_message_ms = now_ms;
    member->is_silent = false;
}

void tracker_mark_leaving(struct tracker_member *member) {
    ASSERT(!member->is_silent);
    member->is_leaving = true;
}

void tracker_store_declaration(struct tracker_member *member, const struct message *message) {
    ASSERT(!member->has_declared && message->kind == MESSAGE_DECLARE);
    member->has_declared = true;
    member->trained = message->trained;
    member->root = message->root;
    member->declaration = message->signature;
}

void tracker_clear_declarations(struct tracker *tracker) {
    ASSERT(tracker->record.head.kind == ENTRY_OPEN);
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].has_declared = false;
        memset(tracker->members[row].report.awaited_ms, 0,
               sizeof tracker->members[row].report.awaited_ms);
    }
}

/* Returns the rows of the seats that a member cannot connect to. Unlike seats, rows stay valid
 * in the next round. */
static uint64_t unreachable_rows(const struct tracker *tracker, uint64_t unreachable) {
    uint64_t rows = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int row = tracker->seats.row_of_seat[seat];
        rows |= seats_contain(unreachable, seat) && row != NO_SEAT ? seat_bit((uint32_t)row) : 0;
    }
    ASSERT((rows & ~(UINT64_MAX >> (SWARM_MEMBERS_MAX - tracker->record.member_count))) == 0);
    return rows;
}

/* Clears the slice reports of another round. If the member has restarted, clears all parts of the
 * report, because the member sends all parts again. */
static void clear_outdated_parts(struct tracker_report *report, const struct message *message,
                                 uint32_t slice_count) {
    if (message->report.base == 0) {
        *report =
            (struct tracker_report){.unreachable = report->unreachable, .slices = report->slices};
    }
    if (message->report.base == 0 || message->round != report->round) {
        memset(report->slices, 0, slice_count * sizeof *report->slices);
    }
}

static void store_slice_reports(struct tracker_report *report, const struct message *message,
                                uint32_t slice_count) {
    ASSERT(report->slices != message->report.rows);
    for (uint32_t s = 0; s < slice_count; s++) {
        const struct slice_report *reported = &message->report.rows[s];
        bool is_due = message->report.base == 0 || reported->changed > message->report.base;
        if (is_due && reported->changed <= message->number) {
            report->slices[s] = *reported;
        }
    }
}

/* Stores which seats the member cannot connect to, and how long it waited for each seat. A report
 * about another round than the open one is ignored. */
static void store_seat_observations(struct tracker *tracker, struct tracker_report *report,
                                    const struct message *message) {
    const struct entry *head = &tracker->record.head;
    bool is_of_open_round = head->kind == ENTRY_OPEN && message->round == head->round;
    if (is_of_open_round && (message->report.parts & REPORT_POSITION) != 0) {
        report->unreachable = unreachable_rows(tracker, message->links.unreachable);
    }
    if (is_of_open_round && (message->report.parts & REPORT_AWAITED) != 0) {
        memcpy(report->awaited_ms, message->links.awaited_ms, sizeof report->awaited_ms);
    }
}

/* Stores the parts that a report has. Returns false for a report that arrives after a newer one, or
 * whose base this tracker does not have. */
bool tracker_store_report(struct tracker *tracker, uint32_t row, const struct message *message) {
    struct tracker_report *report = &tracker->members[row].report;
    ASSERT(message->kind == MESSAGE_REPORT && row < tracker->record.member_count);
    if (message->number <= report->number || message->report.base > report->number) {
        return false;
    }
    clear_outdated_parts(report, message, tracker->settings.slice_count);
    report->number = message->number;
    report->round = message->round;
    store_seat_observations(tracker, report, message);
    if ((message->report.parts & REPORT_POSITION) != 0) {
        report->poll = message->poll.number;
        report->version = message->version;
    }
    if ((message->report.parts & REPORT_STATE) != 0) {
        report->root = message->root;
        report->durable_root = message->hash;
        report->measured = message->measured;
        memcpy(report->stored, message->stored, sizeof report->stored);
    }
    if ((message->report.parts & REPORT_ROWS) != 0) {
        store_slice_reports(report, message, tracker->settings.slice_count);
    }
    return true;
}

bool tracker_member_has_state(const struct tracker_member *member) {
    return !hash_is_zero(&member->report.root);
}

bool tracker_is_ready_for_round(const struct tracker *tracker, uint32_t row) {
    const struct tracker_member *member = &tracker->members[row];
    ASSERT(row < tracker->record.member_count);
    return !member->is_silent && !member->is_leaving &&
           hash_equal(&member->report.root, &tracker->record.commit.root);
}

/* Whether a live member missed rounds because they are committed faster than it can fetch the
 * state. The next round waits for such a member, within the budget for late members, so that no
 * exchange slows the fetch. */
bool tracker_is_slow_joiner(const struct tracker *tracker, uint32_t row) {
    const struct tracker_member *member = &tracker->members[row];
    return !tracker_is_ready_for_round(tracker, row) && !member->is_silent && !member->is_leaving &&
           member->rounds_missed >= ROUNDS_MISSED_MAX;
}

void tracker_count_missed_rounds(struct tracker *tracker) {
    ASSERT(tracker->record.head.kind != ENTRY_OPEN && tracker->stage.kind == STAGE_READY);
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        struct tracker_member *member = &tracker->members[row];
        member->rounds_missed += 1;
        if (tracker_is_ready_for_round(tracker, row)) {
            member->rounds_missed = 0;
        }
    }
}
