#include "runtime/swarm/member/peers.h"
#include "runtime/swarm/wire/wire_service.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

enum {
    /* timeout of a peer, in units of the tracker's timeout, so that the tracker detects losses
     * first */
    PEER_TIMEOUT_FACTOR = 2,
    /* number of pings in a timeout; with fewer, one lost packet would seem a dead connection */
    PINGS_PER_TIMEOUT = 4,
    /* age up to which received bytes count as recent; the messenger counts them every 100 ms */
    RECENT_ARRIVAL_MS = 200,
    /* time that a newly listed peer has to connect, before its timeout begins */
    FIRST_CONNECTION_MAX_MS = 10000,
    /* wait of the member that dials first, until the peer has received the address book too */
    FIRST_DIALLER_WAIT_MS = 50,
    SECOND_DIALLER_WAIT_MS = 3000, /* wait of the other member, for the peer to dial first */
};

void peers_init(struct peers *peers, const struct admission *admission, struct member *member,
                struct messenger *messenger, struct peers_callbacks callbacks) {
    *peers = (struct peers){
        .admission = admission, .member = member, .messenger = messenger, .callbacks = callbacks};
}

/* ---- lookup ---- */

static struct identity link_identity(const struct member_peer_link *link) {
    struct identity id;
    memcpy(id.bytes, link->entry.keys.sign, KEY_BYTES);
    return id;
}

uint32_t peers_find_by_curve_key(const struct peers *peers, const uint8_t *curve) {
    uint32_t peer = 0;
    while (peer < SWARM_MEMBERS_MAX &&
           (!peers->links[peer].is_known ||
            memcmp(peers_curve_key(peers, peer), curve, KEY_BYTES) != 0)) {
        peer++;
    }
    return peer;
}

uint32_t peers_find_by_id(const struct peers *peers, const struct identity *id) {
    uint32_t peer = 0;
    while (peer < SWARM_MEMBERS_MAX &&
           (!peers->links[peer].is_known ||
            memcmp(peers->links[peer].entry.keys.sign, id->bytes, KEY_BYTES) != 0)) {
        peer++;
    }
    return peer;
}

uint64_t peers_with_seats(const struct peers *peers, const struct entry *entry) {
    uint64_t found = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        uint32_t peer = peers_find_by_id(peers, &entry->seats[seat].id);
        found |= peer == PEER_NONE ? 0 : UINT64_C(1) << peer;
    }
    return found;
}

/* ---- connections ---- */

static void report_usable(struct peers *peers, uint32_t peer, bool is_usable) {
    peers->callbacks.on_usable(peers->callbacks.context, peer, is_usable);
}

void peers_on_connect(struct peers *peers, uint32_t peer) {
    struct member_peer_link *link = &peers->links[peer];
    ASSERT(link->is_known);
    link->is_open = true;
    link->is_unreachable = false;
    link->answered_ns = clock_monotonic_ns();
    report_usable(peers, peer, true);
}

void peers_on_disconnect(struct peers *peers, uint32_t peer) {
    struct member_peer_link *link = &peers->links[peer];
    ASSERT(link->is_known);
    if (!link->is_open) {
        return;
    }
    link->is_open = false;
    link->closed_ns = clock_monotonic_ns();
    report_usable(peers, peer, false);
    struct identity id = link_identity(link);
    peers->callbacks.on_disconnect(peers->callbacks.context, &id);
}

/* Whether to connect to this peer now. Of two reachable members, the one with the lower key
 * dials first. */
static bool is_due_to_dial(const struct peers *peers, const struct member_peer_link *link,
                           int64_t now_ns) {
    const uint8_t *own = peers->admission->options->keys->public_keys.curve;
    bool is_first =
        !peers->admission->is_reachable || memcmp(own, link->entry.keys.curve, KEY_BYTES) < 0;
    int64_t wait_ms = is_first ? FIRST_DIALLER_WAIT_MS : SECOND_DIALLER_WAIT_MS;
    return link->is_known && !link->is_open && !link->is_dialled &&
           link->entry.address[0] != '\0' && now_ns - link->closed_ns >= wait_ms * NS_PER_MS;
}

/* Registers the peer with the messenger. Without an address, the messenger only accepts the
 * peer's connections. */
static void permit_peer(struct peers *peers, const struct member_peer_link *link,
                        const char *address) {
    struct fault fault;
    if (messenger_register_peer(peers->messenger, link->entry.keys.curve, address, &fault) != OK) {
        log_line(LOG_WARNING, "swarm: ignoring a member in the address book: %s: %s", fault.subject,
                 fault.reason);
    }
}

void peers_dial(struct peers *peers, int64_t now_ns) {
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        struct member_peer_link *link = &peers->links[peer];
        if (is_due_to_dial(peers, link, now_ns)) {
            link->is_dialled = true;
            permit_peer(peers, link, link->entry.address);
        }
    }
}

/* ---- the address book ---- */

static bool are_same_keys(const struct public_keys *a, const struct public_keys *b) {
    return memcmp(a->curve, b->curve, KEY_BYTES) == 0 && memcmp(a->sign, b->sign, KEY_BYTES) == 0;
}

static void remove_peer(struct peers *peers, uint32_t peer) {
    peers_on_disconnect(peers, peer);
    messenger_ban_peer(peers->messenger, peers_curve_key(peers, peer));
    peers->links[peer] = (struct member_peer_link){.is_known = false};
}

static void remove_unlisted_peers(struct peers *peers, const struct wire_address_book *book) {
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        const struct member_peer_link *link = &peers->links[peer];
        bool is_listed = false;
        for (uint32_t i = 0; i < book->count; i++) {
            is_listed |= are_same_keys(&link->entry.keys, &book->members[i].keys);
        }
        if (link->is_known && !is_listed) {
            remove_peer(peers, peer);
        }
    }
}

static uint32_t find_free_row(const struct peers *peers) {
    uint32_t peer = 0;
    while (peer < SWARM_MEMBERS_MAX && peers->links[peer].is_known) {
        peer++;
    }
    return peer;
}

static void add_peer(struct peers *peers, const struct wire_member *entry) {
    uint32_t peer = find_free_row(peers);
    if (peer == PEER_NONE) {
        return;
    }
    struct member_peer_link *link = &peers->links[peer];
    ASSERT(!link->is_open && !link->is_unreachable);
    int64_t now_ns = clock_monotonic_ns();
    *link = (struct member_peer_link){.is_known = true,
                                      .closed_ns = now_ns,
                                      .answered_ns = now_ns + FIRST_CONNECTION_MAX_MS * NS_PER_MS,
                                      .entry = *entry};
    permit_peer(peers, link, NULL);
}

/* Updates the row of a listed member. A new channel key makes it a new peer; a new address is
 * dialled. */
static void update_peer(struct peers *peers, const struct wire_member *entry) {
    struct identity id;
    memcpy(id.bytes, entry->keys.sign, KEY_BYTES);
    uint32_t peer = peers_find_by_id(peers, &id);
    if (peer != PEER_NONE && !are_same_keys(&peers->links[peer].entry.keys, &entry->keys)) {
        remove_peer(peers, peer);
        peer = PEER_NONE;
    }
    if (peer == PEER_NONE) {
        add_peer(peers, entry);
        return;
    }
    struct member_peer_link *link = &peers->links[peer];
    bool has_moved = strcmp(link->entry.address, entry->address) != 0;
    link->is_dialled = link->is_dialled && !has_moved;
    link->entry = *entry;
}

void peers_update(struct peers *peers, const struct wire_address_book *book) {
    ASSERT(book->count <= SWARM_MEMBERS_MAX && peers->admission->member_count == book->count);
    remove_unlisted_peers(peers, book);
    for (uint32_t i = 0; i < book->count; i++) {
        if (!admission_is_self(peers->admission, &book->members[i].keys)) {
            update_peer(peers, &book->members[i]);
        }
    }
    peers_dial(peers, clock_monotonic_ns());
}

/* ---- answers ---- */

int64_t peers_timeout_ns(const struct peers *peers) {
    return PEER_TIMEOUT_FACTOR * peers->admission->timing.silence_ms * NS_PER_MS;
}

static bool is_answer_kind(uint8_t kind) {
    return kind == WIRE_PONG || kind == MESSAGE_CONTRIBUTION || kind == MESSAGE_RESULT ||
           kind == WIRE_LEAF_HASHES || kind == WIRE_LEAF;
}

static void record_answer(struct peers *peers, uint32_t peer, int64_t answered_ns) {
    struct member_peer_link *link = &peers->links[peer];
    link->answered_ns = answered_ns;
    if (link->is_unreachable) {
        link->is_unreachable = false;
        if (link->is_open) {
            report_usable(peers, peer, true);
        }
    }
}

void peers_on_frame(struct peers *peers, uint32_t peer, uint8_t kind, int64_t now_ns) {
    if (is_answer_kind(kind)) {
        record_answer(peers, peer, now_ns);
    }
}

void peers_on_pause(struct peers *peers, int64_t pause_ns) {
    ASSERT(pause_ns > 0);
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        peers->links[peer].answered_ns += pause_ns;
    }
}

/* Counts recently received bytes as an answer. On a slow uplink, a pong may wait for seconds
 * after a slice or a lost packet. The operating system acknowledges received bytes, so their
 * arrival proves that both directions work. */
static void record_arriving_bytes(struct peers *peers, uint32_t peer, int64_t now_ns) {
    int64_t arrived_ns = messenger_last_received_ns(peers->messenger, peers_curve_key(peers, peer));
    if (arrived_ns > peers->links[peer].answered_ns) {
        record_answer(peers, peer, arrived_ns);
    }
    if (arrived_ns > 0 && now_ns - arrived_ns <= RECENT_ARRIVAL_MS * NS_PER_MS) {
        struct identity id = link_identity(&peers->links[peer]);
        member_mark_partial_arrival(peers->member, &id);
    }
}

static void ping_peer(struct peers *peers, struct member_peer_link *link, int64_t now_ns) {
    int64_t interval_ns = peers_timeout_ns(peers) / PINGS_PER_TIMEOUT;
    if (!link->is_open || now_ns - link->answered_ns < interval_ns ||
        now_ns - link->pinged_ns < interval_ns) {
        return;
    }
    uint8_t payload[WIRE_SMALL_BYTES_MAX];
    struct frame frame = {.kind = WIRE_PING};
    frame.length = (uint32_t)wire_write_ping((uint64_t)now_ns, payload);
    (void)messenger_send(peers->messenger, link->entry.keys.curve, CHANNEL_CONTROL, &frame,
                         payload);
    link->pinged_ns = now_ns;
}

void peers_tick(struct peers *peers, int64_t now_ns) {
    struct identity unreachable[SWARM_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        struct member_peer_link *link = &peers->links[peer];
        if (!link->is_known) {
            continue;
        }
        record_arriving_bytes(peers, peer, now_ns);
        ping_peer(peers, link, now_ns);
        if (!link->is_unreachable && now_ns - link->answered_ns > peers_timeout_ns(peers)) {
            link->is_unreachable = true;
            report_usable(peers, peer, false);
        }
        if (link->is_unreachable) {
            unreachable[count++] = link_identity(link);
        }
    }
    member_set_unreachable_members(peers->member, unreachable, count);
}
