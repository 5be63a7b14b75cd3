/* member_loop_roster: being let in by the tracker, and who the other members are. */
#include "runtime/swarm/member/member_loop_state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <string.h>

static const int64_t MS = 1000000;

enum {
    INTRODUCE_AGAIN_MS = 1000, /* while it is not let in */
    DIAL_FIRST_MS = 50,        /* after the roster: the other one has it too by then */
    DIAL_ANYWAY_MS = 3000,     /* when the one whose turn it is has not come by then */
};

uint32_t peers_find_curve(const struct member_loop *loop, const uint8_t *curve) {
    uint32_t peer = 0;
    while (peer < SWARM_MEMBERS_MAX &&
           (!loop->peers[peer].is_known ||
            memcmp(loop->peers[peer].as.keys.curve, curve, KEY_BYTES) != 0)) {
        peer++;
    }
    return peer;
}

uint32_t peers_find_id(const struct member_loop *loop, const struct identity *id) {
    uint32_t peer = 0;
    while (peer < SWARM_MEMBERS_MAX &&
           (!loop->peers[peer].is_known ||
            memcmp(loop->peers[peer].as.keys.sign, id->bytes, KEY_BYTES) != 0)) {
        peer++;
    }
    return peer;
}

/* Where others reach this process; the tracker puts in the IP that it sees where there is none. */
static void write_address(const struct member_loop *loop, char *address) {
    struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
    if (loop->options.public_address != NULL) {
        text_add(&text, "%s", loop->options.public_address);
    } else if (loop->options.listen != NULL) {
        text_add(&text, "tcp://:%u", messenger_port(loop->messenger));
    }
}

void peers_introduce(struct member_loop *loop, int64_t now_ns) {
    int64_t since_ns = now_ns - loop->introduced_ns;
    if (!loop->tracker_is_there || loop->is_admitted || loop->is_replaced ||
        (loop->introduced_ns > 0 && since_ns < INTRODUCE_AGAIN_MS * MS)) {
        return;
    }
    struct wire_introduction introduction = {.keys = loop->options.keys->public_keys,
                                             .version = SWARM_PROTOCOL,
                                             .start = loop->start,
                                             .manifest = loop->options.manifest};
    struct text name = text_over(introduction.name, sizeof(introduction.name));
    text_add(&name, "%s", loop->options.name != NULL ? loop->options.name : "");
    write_address(loop, introduction.address);
    wire_sign_introduction(loop->options.keys, &introduction);
    struct frame frame = {.kind = WIRE_INTRODUCE};
    frame.length = (uint32_t)wire_write_introduction(&introduction, loop->payload);
    (void)uplink_send(loop, loop->options.tracker.curve, CHANNEL_CONTROL, &frame, loop->payload);
    loop->introduced_ns = now_ns;
}

/* Text of the tracker's: only what can be printed of it. */
void peers_on_rejected(struct member_loop *loop, const uint8_t *text, size_t count) {
    char reason[WIRE_REASON_BYTES] = "";
    size_t length = 0;
    for (size_t i = 0; i < count && length + 1 < sizeof(reason); i++) {
        reason[length++] = text[i] >= ' ' && text[i] <= '~' ? (char)text[i] : ' ';
    }
    loop->is_admitted = false;
    if (strcmp(reason, loop->reason) != 0) {
        memcpy(loop->reason, reason, sizeof(reason));
        log_line(LOG_WARNING, "swarm: the tracker does not let this member in yet: %s", reason);
    }
}

/* What is under way is for nobody; connecting again would cut off the one that is the member. */
void peers_on_replaced(struct member_loop *loop) {
    loop->is_replaced = true;
    loop->is_admitted = false;
    mailbox_cancel_job(&loop->post);
    messenger_ban(loop->messenger, loop->options.tracker.curve);
}

void peers_on_open(struct member_loop *loop, uint32_t peer) {
    struct member_peer_link *row = &loop->peers[peer];
    row->is_open = true;
    row->is_cut = false;
    row->answered_ns = clock_monotonic_ns();
    leaf_fetch_set_source(&loop->adoption.fetch, peer, true);
}

void peers_on_close(struct member_loop *loop, uint32_t peer) {
    struct member_peer_link *row = &loop->peers[peer];
    if (!row->is_open) {
        return;
    }
    row->is_open = false;
    row->closed_ns = clock_monotonic_ns();
    peers_drop_link(loop, peer);
    struct event closed = {.kind = EVENT_CLOSED};
    memcpy(closed.peer.bytes, row->as.keys.sign, KEY_BYTES);
    member_loop_step(loop, &closed);
}

static bool is_same(const struct public_keys *a, const struct public_keys *b) {
    return memcmp(a->curve, b->curve, KEY_BYTES) == 0 && memcmp(a->sign, b->sign, KEY_BYTES) == 0;
}

/* One of two that can reach each other makes the connections: the one with the lower key. The other
 * one does too when they do not come. */
static bool is_to_dial(const struct member_loop *loop, const struct member_peer_link *row,
                       int64_t now_ns) {
    const uint8_t *own = loop->options.keys->public_keys.curve;
    bool is_first = !loop->is_reachable || memcmp(own, row->as.keys.curve, KEY_BYTES) < 0;
    int64_t wait_ms = is_first ? DIAL_FIRST_MS : DIAL_ANYWAY_MS;
    return row->as.address[0] != '\0' && now_ns - row->closed_ns >= wait_ms * MS;
}

static void let_in(struct member_loop *loop, struct member_peer_link *row, const char *address) {
    struct fault fault;
    if (messenger_peer(loop->messenger, row->as.keys.curve, address, &fault) != OK) {
        log_line(LOG_WARNING, "swarm: a member of the roster is left out: %s: %s", fault.place,
                 fault.reason);
    }
}

void peers_dial(struct member_loop *loop, int64_t now_ns) {
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        struct member_peer_link *row = &loop->peers[peer];
        if (row->is_known && !row->is_open && !row->is_dialled && is_to_dial(loop, row, now_ns)) {
            row->is_dialled = true;
            let_in(loop, row, row->as.address);
        }
    }
}

static void forget_peer(struct member_loop *loop, uint32_t peer) {
    struct member_peer_link *row = &loop->peers[peer];
    peers_on_close(loop, peer);
    messenger_ban(loop->messenger, row->as.keys.curve);
    *row = (struct member_peer_link){.is_known = false};
}

static void list_peer(struct member_loop *loop, const struct wire_member *as) {
    struct identity id;
    memcpy(id.bytes, as->keys.sign, KEY_BYTES);
    uint32_t peer = peers_find_id(loop, &id);
    if (peer != PEER_NONE && !is_same(&loop->peers[peer].as.keys, &as->keys)) {
        forget_peer(loop, peer); /* the same identity with another channel key */
        peer = PEER_NONE;
    }
    bool is_new = peer == PEER_NONE;
    for (uint32_t i = 0; peer == PEER_NONE && i < SWARM_MEMBERS_MAX; i++) {
        peer = loop->peers[i].is_known ? peer : i;
    }
    if (peer == PEER_NONE) {
        return;
    }
    struct member_peer_link *row = &loop->peers[peer];
    bool has_moved = strcmp(row->as.address, as->address) != 0;
    row->is_dialled = row->is_dialled && !has_moved;
    row->is_known = true;
    row->is_listed = true;
    row->as = *as;
    if (is_new) {
        row->closed_ns = clock_monotonic_ns();
        peers_add_link(loop, peer, row->closed_ns);
        let_in(loop, row, NULL);
    }
}

/* Who is not on it any more is cut off first, so that there is room for who is new. */
static void drop_unlisted(struct member_loop *loop, const struct wire_address_book *roster) {
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        struct member_peer_link *row = &loop->peers[peer];
        row->is_listed = false;
        for (uint32_t i = 0; i < roster->count; i++) {
            row->is_listed |= is_same(&row->as.keys, &roster->members[i].keys);
        }
        if (row->is_known && !row->is_listed) {
            forget_peer(loop, peer);
        }
    }
}

void peers_on_address_book(struct member_loop *loop, const uint8_t *payload, size_t count) {
    struct wire_address_book roster;
    const char *wrong = wire_read_address_book(payload, count, &roster);
    if (wrong != NULL) {
        log_line(LOG_WARNING, "swarm: the tracker's roster %s", wrong);
        return;
    }
    drop_unlisted(loop, &roster);
    bool is_on_it = false;
    for (uint32_t i = 0; i < roster.count; i++) {
        if (is_same(&roster.members[i].keys, &loop->options.keys->public_keys)) {
            is_on_it = true;
            loop->is_reachable = roster.members[i].address[0] != '\0';
        }
    }
    for (uint32_t i = 0; i < roster.count; i++) {
        if (!is_same(&roster.members[i].keys, &loop->options.keys->public_keys)) {
            list_peer(loop, &roster.members[i]);
        }
    }
    if (is_on_it && !loop->is_admitted) {
        loop->is_admitted = true;
        loop->reason[0] = '\0';
        log_line(LOG_INFO, "swarm: let in by the tracker, %u members known", roster.count);
    }
    loop->timing = roster.timing;
    loop->roster_count = roster.count;
    peers_dial(loop, clock_monotonic_ns());
}
