/* member_loop_links: which members answer. A line that died says nothing: each member is pinged
 * while it is quiet, and who does not answer for long is told to the machine, whose tracker may
 * hear both ends. A ping that comes is no answer: it shows one direction only. */
#include "runtime/swarm/member/member_loop_state.h"

#include <string.h>

static const int64_t MS = 1000000;

enum {
    SILENCES = 2,      /* of the tracker's deadline, who is to find out first that a member died */
    PINGS = 4,         /* in that time, at least; fewer would tell a lost packet from a dead line */
    ARRIVING_MS = 200, /* since bytes came: the messenger looks at them ten times a second */
    FIRST_MS = 10000,  /* from the roster's naming it to the first connection, at most */
};

int64_t peers_answer_timeout_ns(const struct member_loop *loop) {
    return SILENCES * loop->timing.silence_ms * MS;
}

static bool is_answer(uint8_t kind) {
    return kind == WIRE_PONG || kind == MESSAGE_CONTRIBUTION || kind == MESSAGE_RESULT ||
           kind == WIRE_LEAF_HASHES || kind == WIRE_LEAF;
}

void peers_add_link(struct member_loop *loop, uint32_t peer, int64_t now_ns) {
    loop->peers[peer].answered_ns = now_ns + FIRST_MS * MS;
}

static void answered(struct member_loop *loop, uint32_t peer, int64_t now_ns) {
    struct member_peer_link *row = &loop->peers[peer];
    row->answered_ns = now_ns;
    if (row->is_cut) {
        row->is_cut = false;
        leaf_fetch_set_source(&loop->adoption.fetch, peer, row->is_open);
    }
}

void peers_note_frame(struct member_loop *loop, uint32_t peer, uint8_t kind, int64_t now_ns) {
    if (is_answer(kind)) {
        answered(loop, peer, now_ns);
    }
}

/* A slice takes seconds on a slow line, and a pong behind a lost packet as long: bytes that go on
 * coming are confirmed by us, so that the line carries both ways. */
static void hear_bytes(struct member_loop *loop, uint32_t peer, int64_t now_ns) {
    struct member_peer_link *row = &loop->peers[peer];
    int64_t arrived_ns = messenger_arrived_ns(loop->messenger, row->as.keys.curve);
    if (arrived_ns > row->answered_ns) {
        answered(loop, peer, arrived_ns);
    }
    if (arrived_ns > 0 && now_ns - arrived_ns <= ARRIVING_MS * MS) {
        struct identity id;
        memcpy(id.bytes, row->as.keys.sign, KEY_BYTES);
        member_note_arriving(loop->machine, &id);
    }
}

void peers_drop_link(struct member_loop *loop, uint32_t peer) {
    outbox_clear(&loop->contributions, peer);
    outbox_clear(&loop->results, peer);
    outbox_clear(&loop->asks, peer);
    outbox_clear(&loop->leaves, peer);
    leaf_fetch_set_source(&loop->adoption.fetch, peer, false);
}

static void ping(struct member_loop *loop, struct member_peer_link *row, int64_t now_ns) {
    int64_t every_ns = peers_answer_timeout_ns(loop) / PINGS;
    if (!row->is_open || now_ns - row->answered_ns < every_ns ||
        now_ns - row->pinged_ns < every_ns) {
        return;
    }
    struct frame frame = {.kind = WIRE_PING, .length = sizeof now_ns};
    (void)uplink_send(loop, row->as.keys.curve, CHANNEL_CONTROL, &frame, &now_ns);
    row->pinged_ns = now_ns;
}

void peers_tick(struct member_loop *loop, int64_t now_ns) {
    struct identity cut[SWARM_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        struct member_peer_link *row = &loop->peers[peer];
        if (!row->is_known) {
            continue;
        }
        hear_bytes(loop, peer, now_ns);
        ping(loop, row, now_ns);
        if (!row->is_cut && now_ns - row->answered_ns > peers_answer_timeout_ns(loop)) {
            row->is_cut = true;
            peers_drop_link(loop, peer);
        }
        if (row->is_cut) {
            memcpy(cut[count++].bytes, row->as.keys.sign, KEY_BYTES);
        }
    }
    member_set_unreachable(loop->machine, cut, count);
}

void peers_note_pause(struct member_loop *loop, int64_t slept_ns) {
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        loop->peers[peer].answered_ns += slept_ns;
    }
}
