/* member_loop_turn: the loop of the network thread: sleep until there is work, then receive,
 * collect the compute thread's answer, request what is missing, tick and send. */
#include "runtime/swarm/member/member_loop_state.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <string.h>

enum {
    RECEIVE_MAX_MS = 5,       /* maximum time to receive in one iteration, which limits the delay
                                    of heartbeats and answers; hashing a received slice takes 1
                                    ms */
    PAUSE_EVENTS_MAX = 65536, /* maximum number of events received in one iteration after a pause */
    /* an iteration longer than this number of heartbeat intervals means that the process was
     * paused */
    PAUSE_HEARTBEATS = 3,
    FETCH_POLL_MS = 50,           /* time until a state fetch is checked for timeouts again */
    KIB = 1024,                   /* bytes in a KiB */
    DEFAULT_UPLINK_KIB_S = 12800, /* upload rate until it is measured: 100 Mbit/s */
};

/* Times that the network thread stores from one iteration to the next. */
struct loop_times {
    int64_t iteration_end_ns;  /* end of the last iteration */
    int64_t last_tick_ns;      /* time of the last heartbeat */
    int64_t next_iteration_ns; /* when to run again even without an event */
    uint32_t step_ms;          /* duration of an inner step, measured by the compute thread */
};

static int64_t heartbeat_ns(const struct member_loop *loop) {
    return loop->admission.timing.heartbeat_ms * NS_PER_MS;
}

/* Receives for a limited time, but after a pause of the process, receives all that has arrived,
 * because live peers would seem unreachable at the next tick. Returns whether more events may be
 * waiting. */
static bool receive_events(struct member_loop *loop, bool was_paused) {
    struct messenger_event event;
    int64_t until_ns = clock_monotonic_ns() + RECEIVE_MAX_MS * NS_PER_MS;
    for (int i = 0; i < PAUSE_EVENTS_MAX && (was_paused || clock_monotonic_ns() < until_ns); i++) {
        if (!messenger_next_event(loop->messenger, &event)) {
            return false;
        }
        member_loop_receive(loop, &event);
    }
    return true;
}

static void collect_answer(struct member_loop *loop, struct loop_times *loop_times) {
    struct mailbox_updates updates;
    mailbox_collect_updates(&loop->mailbox, &updates);
    loop_times->step_ms = updates.measured.step_ms;
    member_set_stored_states(loop->member, updates.stored);
    if (updates.wants_to_leave) {
        member_loop_step(loop, &(struct event){.kind = EVENT_LEAVE});
    }
    if (updates.has_event) {
        member_loop_on_answer(loop, &updates);
        mailbox_release_answer(&loop->mailbox);
    }
}

static void request_entries(struct member_loop *loop, int64_t now_ns) {
    struct frame frame;
    if (ledger_follower_fill_request(&loop->ledger, now_ns, &frame) &&
        admission_may_request(&loop->admission) &&
        messenger_send(loop->messenger, loop->tracker.keys.curve, CHANNEL_CONTROL, &frame, NULL) ==
            SEND_OK) {
        ledger_follower_record_request(&loop->ledger, now_ns);
    }
}

static bool step_state_fetch(struct member_loop *loop, int64_t now_ns) {
    const struct message *newer = catch_up_next_message(&loop->catch_up);
    if (newer != NULL) {
        member_loop_deliver(loop, newer);
    }
    return state_fetcher_step(&loop->fetcher, now_ns);
}

/* Returns the upload rate for the tracker. A member that is not reachable can own no slice, so it
 * reports no rate. */
static uint32_t reported_upload_kib_s(const struct member_loop *loop) {
    uint32_t best = uplink_measurements_best_kib_s(&loop->measures);
    uint64_t measured = best > 0 ? best : DEFAULT_UPLINK_KIB_S;
    uint64_t limit = (loop->options.limit_up + KIB - 1) / KIB;
    if (!loop->admission.is_reachable) {
        return 0;
    }
    return (uint32_t)(limit > 0 ? min_u64(limit, measured) : measured);
}

/* Does the work of a heartbeat if one is due. */
static void tick_if_due(struct member_loop *loop, struct loop_times *loop_times, int64_t now_ns) {
    if (now_ns - loop_times->last_tick_ns < heartbeat_ns(loop)) {
        return;
    }
    loop_times->last_tick_ns = now_ns;
    peers_tick(&loop->peers, now_ns);
    if (loop->admission.is_admitted && ledger_follower_is_synced(&loop->ledger)) {
        struct timing_measured measured = {
            .step_ms = loop_times->step_ms,
            .transfer_ms = uplink_measurements_transfer_ms(&loop->measures),
            .round_trip_ms = uplink_measurements_round_trip_ms(&loop->measures),
            .upload_kib_s = reported_upload_kib_s(loop)};
        member_set_measured_medians(loop->member, &measured);
        member_loop_step(loop, &(struct event){.kind = EVENT_TICK});
    }
    if (loop->admission.is_connected) {
        uplink_measurements_send_ping(&loop->measures, loop->messenger, loop->tracker.keys.curve,
                                      now_ns);
    }
    peers_dial(&loop->peers, now_ns);
}

static void publish_view(struct member_loop *loop) {
    const struct admission *admission = &loop->admission;
    struct messenger_counts counts = messenger_counts(loop->messenger);
    struct member_loop_view view = {
        .is_admitted = admission->is_admitted,
        .is_tracker_connected = admission->is_connected,
        .is_replaced = admission->is_replaced,
        .round = loop->open.round,
        .members = admission->member_count,
        .attendance = admission->attendance,
        .attendance_ns = admission->attendance_ns,
        .is_fetching_state = state_fetcher_is_active(&loop->fetcher),
        .outdated_leaves = (uint32_t)leaf_fetch_outdated_count(&loop->fetcher.fetch),
        .fetched_bytes = loop->fetcher.fetch.received_bytes,
        .contributors = loop->contributors,
        .sent_bytes = counts.sent_bytes,
        .received_bytes = counts.received_bytes,
        .exchange_ms = loop->measures.exchange_ms,
        .timing = admission->timing,
        .counts = counts,
    };
    memcpy(view.reason, loop->reason.text, sizeof view.reason);
    admission_write_unreachable_address(admission, clock_monotonic_ns(), view.unreachable);
    mailbox_publish_view(&loop->mailbox, &view);
}

static int wait_timeout_ms(const struct member_loop *loop, const struct loop_times *loop_times,
                           int64_t now_ns) {
    int64_t until_ns =
        min_i64(loop_times->last_tick_ns + heartbeat_ns(loop), loop_times->next_iteration_ns);
    if (state_fetcher_is_waiting(&loop->fetcher)) {
        until_ns = min_i64(until_ns, now_ns + FETCH_POLL_MS * NS_PER_MS);
    }
    return until_ns > now_ns ? (int)div_ceil(until_ns - now_ns, NS_PER_MS) : 0;
}

static void run_iteration(struct member_loop *loop, struct loop_times *loop_times) {
    int wait_ms = wait_timeout_ms(loop, loop_times, clock_monotonic_ns());
    (void)messenger_wait(loop->messenger, loop->mailbox.wake_fd, wait_ms);
    int64_t pause_ns = clock_monotonic_ns() - loop_times->iteration_end_ns;
    bool was_paused = pause_ns > PAUSE_HEARTBEATS * heartbeat_ns(loop);
    if (was_paused) {
        peers_on_pause(&loop->peers, pause_ns);
    }
    bool has_more = receive_events(loop, was_paused);
    collect_answer(loop, loop_times);

    int64_t now_ns = clock_monotonic_ns();
    tracker_link_step(&loop->tracker, now_ns / NS_PER_MS);
    admission_introduce(&loop->admission, now_ns);
    request_entries(loop, now_ns);
    has_more |= step_state_fetch(loop, now_ns);
    tick_if_due(loop, loop_times, now_ns);
    int64_t flush_ns = uplink_flush(&loop->uplink, heartbeat_ns(loop), now_ns);
    loop_times->next_iteration_ns = has_more ? now_ns : flush_ns;
    publish_view(loop);
    loop_times->iteration_end_ns = clock_monotonic_ns();
}

void *member_loop_run(void *argument) {
    struct member_loop *loop = argument;
    struct loop_times loop_times = {.iteration_end_ns = clock_monotonic_ns(),
                                    .next_iteration_ns = INT64_MAX};
    while (!mailbox_is_shut_down(&loop->mailbox)) {
        run_iteration(loop, &loop_times);
    }
    return NULL;
}
