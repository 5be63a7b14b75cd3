/* member_loop_turn: one turn of the talking thread: sleep, hear, tick, send. */
#include "runtime/swarm/member/member_loop_state.h"

#include "base/clock.h"

#include <string.h>

static const int64_t MS = 1000000;

enum {
    HEAR_MS = 5,            /* of one turn, so that neither a heartbeat nor who waits is late by
                               more: bytes that came are hashed here, 1 ms a slice */
    HEAR_GAP_BATCH = 65536, /* after a gap: everything that had come, but not without an end */
    GAP_HEARTBEATS = 3,     /* longer than this between two turns: it was stopped or suspended */
    ADOPT_LOOK_MS = 50,     /* between two looks at sources that are late */
};

static int64_t heartbeat_ns(const struct member_loop *loop) {
    return loop->timing.heartbeat_ms * MS;
}

/* Whether there may be more. */
static bool hear_some(struct member_loop *loop, bool was_away) {
    struct messenger_event event;
    int64_t until_ns = clock_monotonic_ns() + HEAR_MS * MS;
    for (int i = 0; i < HEAR_GAP_BATCH && (was_away || clock_monotonic_ns() < until_ns); i++) {
        if (!messenger_next(loop->messenger, &event)) {
            return false;
        }
        member_loop_receive(loop, &event);
    }
    return true;
}

static void hear_computing(struct member_loop *loop) {
    struct mailbox_updates news;
    mailbox_collect(&loop->post, &news);
    loop->measured = news.measured;
    if (news.wants_to_leave) {
        member_loop_step(loop, &(struct event){.kind = EVENT_LEAVE});
    }
    if (news.has_event) {
        member_loop_job_done(loop, &news.event);
        mailbox_release(&loop->post);
    }
}

/* Everything that is said again at every heartbeat. */
static void tick(struct member_loop *loop, int64_t now_ns) {
    if (now_ns - loop->ticked_ns < heartbeat_ns(loop)) {
        return;
    }
    loop->ticked_ns = now_ns;
    peers_tick(loop, now_ns);
    if (loop->is_admitted && ledger_follower_is_synced(loop)) {
        struct timing_measured measured = uplink_measured(loop);
        member_set_measured(loop->machine, &measured);
        member_loop_step(loop, &(struct event){.kind = EVENT_TICK});
    }
    if (loop->tracker_is_there) {
        uplink_ping(loop, now_ns);
    }
    peers_dial(loop, now_ns);
}

static void show(struct member_loop *loop) {
    struct member_loop_view *view = &loop->view;
    struct messenger_counts counts = messenger_counts(loop->messenger);
    view->is_admitted = loop->is_admitted;
    view->tracker_is_there = loop->tracker_is_there;
    view->is_replaced = loop->is_replaced;
    memcpy(view->reason, loop->reason, sizeof(view->reason));
    view->members = loop->roster_count;
    view->is_adopting = loop->adoption.goes_on;
    view->behind = (uint32_t)leaf_fetch_outdated(&loop->adoption.fetch);
    view->adopted_bytes = loop->adoption.fetch.received;
    view->sent_bytes = counts.sent_bytes;
    view->received_bytes = counts.received_bytes;
    view->exchange_ms = loop->measures.exchange_ms;
    view->timing = loop->timing;
    view->counts = counts;
    mailbox_publish_view(&loop->post, view);
}

static int wait_ms(const struct member_loop *loop, int64_t now_ns) {
    int64_t until_ns = loop->ticked_ns + heartbeat_ns(loop);
    until_ns = loop->back_ns < until_ns ? loop->back_ns : until_ns;
    if (loop->adoption.is_wanted || loop->adoption.is_begun) {
        int64_t look_ns = now_ns + ADOPT_LOOK_MS * MS;
        until_ns = look_ns < until_ns ? look_ns : until_ns;
    }
    int64_t left_ns = until_ns - now_ns;
    return left_ns > 0 ? (int)((left_ns + MS - 1) / MS) : 0;
}

void member_loop_turn(struct member_loop *loop) {
    int timeout_ms = wait_ms(loop, clock_monotonic_ns());
    (void)messenger_wait(loop->messenger, loop->post.wake_fd, timeout_ms);
    int64_t woken_ns = clock_monotonic_ns();
    bool was_away = woken_ns - loop->turned_ns > GAP_HEARTBEATS * heartbeat_ns(loop);
    if (was_away) {
        peers_note_pause(loop, woken_ns - loop->turned_ns);
    }
    bool has_more = hear_some(loop, was_away);
    hear_computing(loop);

    int64_t now_ns = clock_monotonic_ns();
    peers_introduce(loop, now_ns);
    ledger_follower_request(loop, now_ns);
    has_more |= state_fetcher_step(loop, now_ns);
    tick(loop, now_ns);
    loop->back_ns = uplink_flush(loop, now_ns);
    loop->back_ns = has_more ? now_ns : loop->back_ns;
    show(loop);
    loop->turned_ns = clock_monotonic_ns();
}
