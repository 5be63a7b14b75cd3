/* member_report: reports to the tracker. A report has only the parts that the tracker lacks: those
 * that have changed since the newest report that the tracker confirmed. */
#include "runtime/swarm/member_machine/member_state.h"

void report_confirm(struct member_report *report, uint64_t number) {
    if (number <= report->last.number) {
        report->confirmed = number;
    }
}

static bool is_same_state(const struct message *a, const struct message *b) {
    return hash_equal(&a->root, &b->root) && hash_equal(&a->hash, &b->hash) &&
           memcmp(&a->measured, &b->measured, sizeof a->measured) == 0 &&
           memcmp(a->stored, b->stored, sizeof a->stored) == 0;
}

/* Whether the position part is unchanged and need not be repeated. Returns false also if the member
 * cannot connect to another member, because the tracker may forget that. */
static bool is_same_position(const struct message *a, const struct message *b) {
    return a->version == b->version && a->poll.number == b->poll.number &&
           a->links.unreachable == 0 && b->links.unreachable == 0;
}

/* Returns the number of own slices that have no result yet. */
static uint32_t count_sums_left(const struct member *member) {
    uint32_t count = 0;
    for (uint32_t s = 0; member->table.version > 0 && s < member->slice_count; s++) {
        count += (int)member->table.slices[s].owner == member->round.seat &&
                 member->results.reports[s].has_result == 0;
    }
    return count;
}

/* Whether to report the times waited for contributions. The times grow with every event, so they
 * are reported only when a sum has ended, when no contribution is awaited any more, or when the
 * table or the poll has changed. */
static bool must_report_awaited_times(const struct member *member, const struct message *message,
                                      uint32_t sums_left) {
    const struct member_report *report = &member->report;
    const struct member_requests *requests = &member->requests;
    bool is_changed =
        memcmp(report->awaited_ms, requests->awaited_ms, sizeof report->awaited_ms) != 0;
    bool is_asked = report->position_changed == message->number;
    bool is_summed = sums_left != report->sums_left;
    return message->round != report->last.round ||
           (is_changed && (is_summed || is_asked || requests->awaited_seats == 0));
}

/* Compares the report with the last one, and records which parts have changed. */
static void record_changed_parts(struct member *member, const struct message *message) {
    struct member_report *report = &member->report;
    ASSERT(message->number == report->last.number + 1);
    if (!is_same_position(message, &report->last)) {
        report->position_changed = message->number;
    }
    if (!is_same_state(message, &report->last)) {
        report->state_changed = message->number;
    }
    const uint32_t sums_left = count_sums_left(member);
    if (must_report_awaited_times(member, message, sums_left)) {
        memcpy(report->awaited_ms, member->requests.awaited_ms, sizeof report->awaited_ms);
        report->awaited_changed = message->number;
    }
    report->sums_left = sums_left;
}

static struct message_links read_links(const struct member *member) {
    const struct member_round *round = &member->round;
    return (struct message_links){
        .unreachable =
            round->is_open ? member_unreachable_seats(&member->session, &round->open) : 0,
        .awaited_ms = member->report.awaited_ms};
}

static bool has_repetitions(const struct member *member) {
    uint64_t seats = 0;
    for (uint32_t s = 0; s < member->slice_count; s++) {
        seats |= member->results.reports[s].repeated_seats;
    }
    return seats != 0;
}

/* Returns the parts of report `number` that the tracker lacks. */
static struct message_report find_due_parts(struct member *member, uint64_t number) {
    const struct member_report *report = &member->report;
    const uint64_t base = report->confirmed;
    struct message_report due = {.base = base, .rows = member->results.reports};
    due.parts |= report->position_changed > base ? REPORT_POSITION : 0;
    due.parts |= report->state_changed > base ? REPORT_STATE : 0;
    due.parts |= report->awaited_changed > base ? REPORT_AWAITED : 0;
    if (results_begin_report(&member->results, member->slice_count, number, base)) {
        due.parts |= REPORT_ROWS;
        due.parts |= has_repetitions(member) ? REPORT_REPEATED : 0;
    }
    return due;
}

void member_send_report(struct member *member, struct actions *actions) {
    struct member_report *report = &member->report;
    ASSERT(report->confirmed <= report->last.number && report->last.number < UINT64_MAX);
    ASSERT(member->table.version == 0 || member->round.is_open);
    struct message message = {.kind = MESSAGE_REPORT,
                              .number = report->last.number + 1,
                              .round = round_number(&member->round),
                              .root = member->outer.root,
                              .hash = member->outer.durable_root,
                              .version = member->table.version,
                              .poll.number = member->session.poll,
                              .links = read_links(member),
                              .measured = member->session.measured};
    memcpy(message.stored, member->session.stored, sizeof message.stored);
    record_changed_parts(member, &message);
    message.report = find_due_parts(member, message.number);
    report->last = message;
    member_send(member, NULL, message, actions);
}
