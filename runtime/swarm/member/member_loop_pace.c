/* uplink_set_rates: every peer's share of the own line, looked at again as long as an exchange goes
 * on. */
#include "runtime/swarm/member/member_loop_state.h"

static const int64_t MS = 1000000;

enum {
    LOOK_MS = 20,
    BUSY_MS = 300, /* of the line's rate: with less to send it need not be used */
    FREE_EACH = 8, /* rounds, of which one is not paced: the line may have become faster */
};

/* Bytes that go to a peer as soon as it takes them: what it asked for, so that who is behind with
 * taking has more. */
static uint64_t rest_of(struct member_loop *loop, uint32_t peer) {
    const struct member_peer_link *row = &loop->peers[peer];
    if (!row->is_open || row->is_cut) {
        return 0;
    }
    uint64_t waiting = outbox_waiting(&loop->contributions, peer);
    waiting += loop->are_results_held ? 0 : outbox_waiting(&loop->results, peer);
    return waiting * loop->options.replica->shape.slices.bytes_max +
           messenger_backlog_bytes(loop->messenger, row->as.keys.curve);
}

/* How much of the line was used, each time that it was measured anew. */
static void look(struct member_loop *loop, const struct uplink_rate *line, uint64_t rest) {
    const struct uplink_measures *measures = &loop->measures;
    struct uplink_pacing *pace = &loop->pace;
    if (pace->round != measures->round) {
        uplink_share_begin(&pace->share);
        pace->round = measures->round;
        pace->recent_ns = measures->recent_ns;
    }
    if (pace->recent_ns != measures->recent_ns && line->recent < INT64_MAX) {
        pace->recent_ns = measures->recent_ns;
        if (rest > line->rate * BUSY_MS / 1000) {
            uplink_share_update(&pace->share, line->rate, line->recent);
        }
    }
}

static void share_out(struct member_loop *loop, const struct uplink_rate *line) {
    uint64_t rests[SWARM_MEMBERS_MAX];
    struct uplink_backlog rest = {.all = 0};
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        rests[peer] = rest_of(loop, peer);
        rest.all += rests[peer];
        rest.peers += rests[peer] > 0;
    }
    look(loop, line, rest.all);
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        rest.own = rests[peer];
        if (rest.own > 0) {
            messenger_set_rate(loop->messenger, loop->peers[peer].as.keys.curve,
                               uplink_share_of(&loop->pace.share, line->rate, rest));
        }
    }
}

/* Leaves go as fast as they can. */
static void let_go(struct member_loop *loop) {
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        if (loop->peers[peer].is_open) {
            messenger_set_rate(loop->messenger, loop->peers[peer].as.keys.curve, MESSENGER_UNPACED);
        }
    }
}

/* In a first exchange it is not known what the line carries. All members leave the same rounds
 * unpaced. */
void uplink_set_rates(struct member_loop *loop, int64_t now_ns) {
    struct uplink_pacing *pace = &loop->pace;
    struct uplink_rate line = uplink_measured_rate(loop);
    bool is_shared =
        loop->measures.round % FREE_EACH != 0 && line.is_known; /* round 0: no exchange */
    if (is_shared && now_ns - pace->looked_ns >= LOOK_MS * MS) {
        pace->looked_ns = now_ns;
        share_out(loop, &line);
    } else if (!is_shared && pace->is_shared) {
        let_go(loop);
    }
    pace->is_shared = is_shared;
}
