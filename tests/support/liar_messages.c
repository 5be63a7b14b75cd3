/* liar_messages: lies in the messages of the member's state machine, which this member then signs
 * and sends; and slices that it sends slowly. Network thread. */
#include "base/check.h"
#include "base/clock.h"
#include "runtime/swarm/member_machine/member_machine.h"
#include "tests/support/liar.h"
#include "transport/messages/messages.h"

WRAPPED(member_init);
WRAPPED(member_step);
WRAPPED(messenger_send);
WRAPPED(messenger_set_rate_limit);

enum {
    DELAY_MS = 600,          /* six tenths of the shortest exchange deadline */
    DELAYED_MAX = 1024,      /* actions that wait; more are dropped */
    SLOW_BYTES_PER_S = 8192, /* to each member; two seconds for the smallest slice */
    PRESENT_REPORTS = 20,    /* reports between changes of presence */
};

static uint32_t slice_count;
static uint32_t seat_count; /* of the newest OPEN */
static struct identity own_id;
static uint64_t summed_alone;                    /* the bit of its seat */
static uint32_t summed_rounds[SWARM_SLICES_MAX]; /* the newest round in which it summed a slice */

/* ---- what it knows of a proposal ---- */

/* A result of the newest proposal that another member owns. */
static struct {
    uint64_t number; /* of the proposal; 0: none */
    uint32_t slice, suspect;
    struct entry_slice line;
    struct identity owner;
} accused;

static bool owned[SWARM_SLICES_MAX]; /* slices of the newest proposal that it owns */

bool liar_owns(uint32_t slice) {
    return owned[slice];
}

static void remember_proposal(const struct message *proposal) {
    const struct entry *entry = proposal->entry;
    for (uint32_t slice = 0; slice < slice_count; slice++) {
        const struct identity *owner = &entry->seats[entry->slices[slice].owner].id;
        owned[slice] = memcmp(owner, &own_id, sizeof own_id) == 0;
    }
    for (uint32_t slice = 0; slice < slice_count; slice++) {
        const struct entry_slice *line = &entry->slices[slice];
        if (memcmp(&entry->seats[line->owner].id, &own_id, sizeof own_id) != 0) {
            accused.number = proposal->number;
            accused.slice = slice;
            accused.suspect = line->owner;
            accused.line = *line;
            accused.owner = entry->seats[line->owner].id;
            return;
        }
    }
}

/* ---- which message is sent, and when ---- */

static struct {
    struct action actions[DELAYED_MAX]; /* a ring */
    int64_t due_ms[DELAYED_MAX];
    uint32_t first, count;
} delayed;

static void delay(const struct action *action) {
    if (delayed.count < DELAYED_MAX) {
        uint32_t last = (delayed.first + delayed.count++) % DELAYED_MAX;
        delayed.actions[last] = *action;
        delayed.due_ms[last] = clock_monotonic_ms() + DELAY_MS;
    }
}

static void append_due(struct actions *actions) {
    while (delayed.count > 0 && actions->count < actions->capacity &&
           delayed.due_ms[delayed.first] <= clock_monotonic_ms()) {
        actions->rows[actions->count++] = delayed.actions[delayed.first];
        delayed.first = (delayed.first + 1) % DELAYED_MAX;
        delayed.count--;
    }
}

static bool leaves_out(void) {
    return lie_chosen()->change_message == lie_leave_out;
}

static bool is_sent_now(struct action *action) {
    const struct lie *lie = lie_chosen();
    if (action->kind != ACTION_SEND || lie->change_message == NULL) {
        return true;
    }
    enum fate fate = lie->change_message(&action->message);
    if (fate == FATE_DELAY) {
        delay(action);
    }
    if (fate != FATE_SEND) {
        lie_log_use();
    }
    return fate == FATE_SEND;
}

struct member *__wrap_member_init(void *memory, const struct member_initial_state *start) {
    slice_count = start->slice_count;
    own_id = start->id;
    return __real_member_init(memory, start);
}

void __wrap_member_step(struct member *member, const struct event *event, int64_t now_ms,
                        struct actions *actions) {
    if (event->kind == EVENT_MESSAGE && event->message->kind == MESSAGE_PROPOSE) {
        remember_proposal(event->message);
    }
    __real_member_step(member, event, now_ms, actions);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < actions->count; i++) {
        struct action *action = &actions->rows[i];
        if (action->kind == ACTION_SUM) {
            summed_rounds[action->slice] = action->round;
            summed_alone = UINT64_C(1) << action->seat;
            action->contributors &= leaves_out() ? summed_alone : UINT64_MAX;
        }
        if (is_sent_now(action)) {
            actions->rows[kept++] = *action;
        }
    }
    actions->count = kept;
    append_due(actions);
    liar_theft_on_event(event, slice_count, &own_id, actions);
}

/* ---- contributions, results and declarations ---- */

enum fate lie_withhold(struct message *message) {
    return message->kind == MESSAGE_CONTRIBUTION ? FATE_DROP : FATE_SEND;
}

enum fate lie_drip(struct message *message) {
    return message->kind == MESSAGE_CONTRIBUTION ? FATE_DELAY : FATE_SEND;
}

enum fate lie_hold(struct message *message) {
    return message->kind == MESSAGE_RESULT ? FATE_DROP : FATE_SEND;
}

enum fate lie_mute(struct message *message) {
    return message->kind == MESSAGE_DECLARE ? FATE_DROP : FATE_SEND;
}

enum fate lie_tokens_max(struct message *message) {
    if (message->kind == MESSAGE_DECLARE) {
        message->trained.tokens = INT64_MAX; /* the wire's limit */
        lie_log_use();
    }
    return FATE_SEND;
}

enum fate lie_samples_max(struct message *message) {
    if (message->kind == MESSAGE_DECLARE) {
        message->trained.samples = INT64_MAX; /* the wire's limit */
        lie_log_use();
    }
    return FATE_SEND;
}

/* ---- reports ---- */

/* A report that lies is whole. */
static bool begin_report(struct message *message) {
    if (message->kind == MESSAGE_REPORT) {
        message->report.parts = REPORT_ALL;
        lie_log_use();
    }
    return message->kind == MESSAGE_REPORT;
}

static bool has_summed(const struct message *message, uint32_t slice) {
    ASSERT(slice < slice_count);
    return message->round != 0 && summed_rounds[slice] == message->round;
}

/* Returns the rows of a report as a copy that may be changed. */
static struct slice_report *own_rows(struct message *message) {
    static struct slice_report rows[SWARM_SLICES_MAX];
    if (message->report.rows != rows) {
        memcpy(rows, message->report.rows, slice_count * sizeof *rows);
        message->report.rows = rows;
        for (uint32_t slice = 0; slice < slice_count; slice++) {
            rows[slice].changed = message->number;
        }
    }
    return rows;
}

/* It hides all of its sums. */
enum fate lie_idle_owner(struct message *message) {
    if (message->kind == MESSAGE_RESULT && has_summed(message, message->slice)) {
        return FATE_DROP;
    }
    if (begin_report(message)) {
        struct slice_report *rows = own_rows(message);
        for (uint32_t slice = 0; slice < slice_count; slice++) {
            if (has_summed(message, slice)) {
                rows[slice].has_result = 0;
                rows[slice].contributors = 0;
                rows[slice].hash = (struct hash){0};
            }
        }
    }
    return FATE_SEND;
}

/* Its sums contain its own contribution alone, and it says so. */
enum fate lie_leave_out(struct message *message) {
    if (begin_report(message)) {
        struct slice_report *rows = own_rows(message);
        for (uint32_t slice = 0; slice < slice_count; slice++) {
            rows[slice].contributors &= has_summed(message, slice) ? summed_alone : UINT64_MAX;
        }
    }
    return FATE_SEND;
}

/* It hides its sums; and every other report lacks one contribution to each of its slices. */
enum fate lie_toggle(struct message *message) {
    enum fate fate = lie_idle_owner(message);
    if (message->kind == MESSAGE_REPORT && message->number % 2 == 0) {
        struct slice_report *rows = own_rows(message);
        for (uint32_t slice = 0; slice < slice_count; slice++) {
            if (has_summed(message, slice)) {
                rows[slice].received_seats &= rows[slice].received_seats - 1;
            }
        }
    }
    return fate;
}

/* It rejects every contribution to its slices. */
enum fate lie_reject(struct message *message) {
    if (begin_report(message)) {
        struct slice_report *rows = own_rows(message);
        for (uint32_t slice = 0; slice < slice_count; slice++) {
            rows[slice].rejected_seats = rows[slice].received_seats;
        }
    }
    return FATE_SEND;
}

/* It has waited for all others for the longest possible time. */
enum fate lie_awaited_max(struct message *message) {
    static uint32_t awaited_ms[SWARM_MEMBERS_MAX];
    if (begin_report(message)) {
        memset(awaited_ms, 0xff, seat_count * sizeof *awaited_ms);
        message->links.awaited_ms = awaited_ms;
    }
    return FATE_SEND;
}

enum fate lie_unreachable(struct message *message) {
    if (begin_report(message)) {
        message->links.unreachable = UINT64_MAX;
    }
    return FATE_SEND;
}

/* The member is without a state for a while, then has the newest one, again and again. */
enum fate lie_come_and_go(struct message *message) {
    if (begin_report(message) && message->number / PRESENT_REPORTS % 2 == 1) {
        message->root = (struct hash){0};
    }
    return FATE_SEND;
}

enum fate lie_up_max(struct message *message) {
    if (begin_report(message)) {
        message->measured.upload_kib_s = TIMING_UNKNOWN - 1;
    }
    return FATE_SEND;
}

enum fate lie_up_zero(struct message *message) {
    if (begin_report(message)) {
        message->measured.upload_kib_s = 0;
    }
    return FATE_SEND;
}

enum fate lie_step_day(struct message *message) {
    if (begin_report(message)) {
        message->measured.step_ms = 24 * 60 * 60 * 1000;
    }
    return FATE_SEND;
}

enum fate lie_stale_table(struct message *message) {
    if (begin_report(message) && message->version > 0) {
        message->version--;
    }
    return FATE_SEND;
}

enum fate lie_stale_round(struct message *message) {
    if (begin_report(message) && message->round > 0) {
        message->round--;
    }
    return FATE_SEND;
}

/* ---- votes ---- */

/* It says that a right sum is wrong, as an auditor would that has computed it again. */
enum fate lie_false_refusal(struct message *message) {
    if (message->kind == MESSAGE_VOTE && message->number == accused.number) {
        message->root = (struct hash){0};
        message->ballot.refusal =
            (struct message_refusal){.reason = REFUSAL_SUM, .suspect = accused.suspect};
        message->slice = accused.slice;
        message->epoch = accused.line.epoch;
        message->contributors = accused.line.contributors;
        message->hash = accused.line.hash;
        message->owner = accused.owner;
        lie_log_use();
    }
    return FATE_SEND;
}

/* ---- slow sending ---- */

void __wrap_messenger_set_rate_limit(struct messenger *messenger,
                                     const uint8_t curve[static KEY_BYTES], uint64_t rate) {
    __real_messenger_set_rate_limit(messenger, curve,
                                    lie_chosen()->sends_slowly ? SLOW_BYTES_PER_S : rate);
}

enum send_result __wrap_messenger_send(struct messenger *messenger,
                                       const uint8_t curve[static KEY_BYTES], enum channel channel,
                                       const struct frame *frame, const void *payload) {
    if (lie_chosen()->sends_slowly && channel == CHANNEL_BULK) {
        __real_messenger_set_rate_limit(messenger, curve, SLOW_BYTES_PER_S);
        lie_log_use();
    }
    return __real_messenger_send(messenger, curve, channel, frame, payload);
}
