/* messages_peer: who may talk to us, who is open, and what the caller is to be told about it. */
#include "transport/messages/messages_state.h"

#include "base/clock.h"

#include <string.h>

/* A place without a peer is one that nobody named, nobody talks on, and nobody waits to hear of;
 * the key that still stands in it does no harm. */
static bool is_free(const struct messenger *messenger, const struct peer *peer) {
    for (uint32_t i = 0; i <= messenger->options.bulk_connections; i++) {
        if (peer->links[i].state != LINK_NONE) {
            return false;
        }
    }
    return !peer->named && !peer->open && !peer->told_open && !peer->refused && !peer->full;
}

const uint8_t *peer_curve(const struct messenger *messenger, const struct peer *peer) {
    return messenger->curves[peer - messenger->peers];
}

struct peer *peer_find(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        if (memcmp(messenger->curves[i], curve, KEY_BYTES) == 0) {
            return &messenger->peers[i];
        }
    }
    return NULL;
}

static struct peer *place_for(const struct messenger *messenger,
                              const uint8_t curve[static KEY_BYTES]) {
    struct peer *peer = peer_find(messenger, curve);
    for (uint32_t i = 0; i < messenger->options.peers_max && peer == NULL; i++) {
        if (is_free(messenger, &messenger->peers[i])) {
            peer = &messenger->peers[i];
        }
    }
    return peer;
}

static uint32_t class_of(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    const struct messenger_guests *guests = &messenger->options.guests;
    const uint32_t class = guests->class_of == NULL ? 0 : guests->class_of(guests->context, curve);
    ASSERT(class < MESSAGE_CLASSES);
    return class;
}

bool peer_is_wanted(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    return messenger->options.guests.places[class_of(messenger, curve)] > 0;
}

bool peer_has_slot(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    const struct peer *place = place_for(messenger, curve);
    if (place == NULL || !is_free(messenger, place)) {
        return place != NULL;
    }
    const uint32_t class = class_of(messenger, curve);
    uint32_t guests = 0;
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        const struct peer *peer = &messenger->peers[i];
        guests += !peer->named && peer->guest_class <= class && !is_free(messenger, peer);
    }
    return guests < messenger->options.guests.places[class];
}

struct peer *peer_add_guest(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    const bool may = peer_is_wanted(messenger, curve) && peer_has_slot(messenger, curve);
    struct peer *peer = may ? peer_add(messenger, curve) : NULL;
    if (peer != NULL) {
        peer->guest_class = class_of(messenger, curve);
    }
    return peer;
}

void messenger_reclassify(struct messenger *messenger) {
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        struct peer *peer = &messenger->peers[i];
        if (!peer->named && !is_free(messenger, peer)) {
            peer->guest_class = class_of(messenger, messenger->curves[i]);
        }
    }
}

struct peer *peer_add(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    struct peer *peer = place_for(messenger, curve);
    if (peer == NULL || !is_free(messenger, peer)) {
        return peer;
    }
    memcpy(messenger->curves[peer - messenger->peers], curve, KEY_BYTES);
    const uint32_t epoch = peer->epoch;
    struct link *links = peer->links;
    *peer = (struct peer){.links = links, .epoch = epoch};
    for (uint32_t i = 0; i <= messenger->options.bulk_connections; i++) {
        links[i] = (struct link){.fd = -1, .accepted = -1, .again_ms = MESSENGER_AGAIN_LEAST};
    }
    return peer;
}

bool peer_is_banned(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    const int64_t now_ns = clock_monotonic_ns();
    for (uint32_t i = 0; i < MESSENGER_BANS_MAX; i++) {
        const struct ban *ban = &messenger->bans[i];
        if (ban->until_ns > now_ns && memcmp(ban->curve, curve, KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

/* A dropped key is let in again when it is named again; one that was cut off waits its time. */
static void peer_unban(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t i = 0; i < MESSENGER_BANS_MAX; i++) {
        struct ban *ban = &messenger->bans[i];
        if (ban->until_ns == INT64_MAX && memcmp(ban->curve, curve, KEY_BYTES) == 0) {
            ban->until_ns = 0;
        }
    }
}

void peer_ban(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
              int64_t until_ns) {
    uint32_t at = messenger->ban_next % MESSENGER_BANS_MAX;
    bool is_known = false;
    for (uint32_t i = 0; i < MESSENGER_BANS_MAX && !is_known; i++) {
        is_known = memcmp(messenger->bans[i].curve, curve, KEY_BYTES) == 0;
        at = is_known ? i : at;
    }
    messenger->ban_next += is_known ? 0 : 1;
    memcpy(messenger->bans[at].curve, curve, KEY_BYTES);
    messenger->bans[at].until_ns = until_ns;
}

bool peer_dials_first(const struct messenger *messenger, const struct peer *peer) {
    return memcmp(peer_curve(messenger, peer), messenger->options.keys->public_keys.curve,
                  KEY_BYTES) < 0;
}

void peer_opened(struct messenger *messenger, struct peer *peer) {
    peer->open = true;
    peer->opened_ns = clock_monotonic_ns();
    peer->refused = false;
    peer->said_refused = false;
    peer->full = false;
    peer->said_full = false;
    peer->turned_away = 0;
    peer->speaks = false;
    messenger->has_news = true;
}

void peer_closed(struct messenger *messenger, struct peer *peer) {
    for (uint32_t i = 0; i <= messenger->options.bulk_connections; i++) {
        link_end(messenger, &peer->links[i], 0);
        peer->links[i].due_ns = INT64_MAX;
    }
    link_schedule_redial(messenger, peer, &peer->links[0]);
    peer->epoch++;
    peer->wants_bulk = false;
    peer->broke = peer->broke || peer->told_open;
    peer->open = false;
    messenger->has_news = true;
}

void peer_disconnect_and_ban(struct messenger *messenger, struct peer *peer) {
    messenger->counts.cut_off++;
    peer->strikes = 0;
    peer_ban(messenger, peer_curve(messenger, peer),
             clock_monotonic_ns() + MESSENGER_BAN * MESSENGER_MS);
    peer_closed(messenger, peer);
}

void peer_on_rejected(struct messenger *messenger, struct peer *peer) {
    if (!peer->said_refused) {
        peer->said_refused = true;
        peer->refused = true;
        messenger->has_news = true;
    }
}

void peer_on_full(struct messenger *messenger, struct peer *peer) {
    if (!peer->said_full) {
        peer->said_full = true;
        peer->full = true;
        messenger->has_news = true;
    }
}

void peer_set_seen_ip(struct peer *peer, zmq_msg_t *message) {
    static const char MAPPED[] = "::ffff:"; /* IPv4 on a socket for both */
    const char *ip = zmq_msg_gets(message, "Peer-Address");
    if (ip == NULL) {
        ip = "";
    } else if (strncmp(ip, MAPPED, sizeof MAPPED - 1) == 0) {
        ip += sizeof MAPPED - 1;
    }
    const size_t letters = strnlen(ip, sizeof peer->seen_ip - 1);
    memset(peer->seen_ip, 0, sizeof peer->seen_ip);
    memcpy(peer->seen_ip, ip, letters);
}

/* In the order in which it happened: closed, opened again. */
static bool news_of(struct peer *peer, enum messenger_event_kind *kind) {
    if (peer->broke) {
        peer->broke = false;
        peer->told_open = false;
        *kind = MESSENGER_CLOSED;
        return true;
    }
    if (peer->open && !peer->told_open) {
        peer->told_open = true;
        *kind = MESSENGER_OPENED;
        return true;
    }
    const bool is_refused = peer->refused;
    const bool is_full = peer->full && !is_refused;
    *kind = is_refused ? MESSENGER_REJECTED : MESSENGER_FULL;
    peer->refused = false;
    peer->full = peer->full && !is_full;
    return is_refused || is_full;
}

bool peer_next_event(struct messenger *messenger, struct messenger_event *event) {
    for (uint32_t i = 0; messenger->has_news && i < messenger->options.peers_max; i++) {
        struct peer *peer = &messenger->peers[i];
        enum messenger_event_kind kind;
        if (news_of(peer, &kind)) {
            *event = (struct messenger_event){.kind = kind, .is_guest = !peer->named};
            memcpy(event->curve, messenger->curves[i], KEY_BYTES);
            if (kind == MESSENGER_OPENED) {
                memcpy(event->address, peer->seen_ip, sizeof event->address);
            }
            return true;
        }
    }
    messenger->has_news = false;
    return false;
}

bool evict_oldest_guest(struct messenger *messenger) {
    const int64_t turn_ns = messenger->options.guests.turn_ms * MESSENGER_MS;
    struct peer *first = NULL;
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        struct peer *peer = &messenger->peers[i];
        if (!peer->named && peer->open && peer->guest_class == 0 &&
            (first == NULL || peer->opened_ns < first->opened_ns)) {
            first = peer;
        }
    }
    const bool is_over =
        turn_ns > 0 && first != NULL && clock_monotonic_ns() - first->opened_ns >= turn_ns;
    if (is_over) {
        peer_closed(messenger, first);
    }
    return is_over;
}

/* What the caller asks. */

static enum status name_peer(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                             struct peer **named, struct fault *fault) {
    struct peer *peer = peer_add(messenger, curve);
    if (peer == NULL) {
        return fault_set(fault, STATUS_FIT, "peers", NULL,
                         "there is place for %u, and not one more", messenger->options.peers_max);
    }
    peer->named = true;
    peer_unban(messenger, curve);
    *named = peer;
    return OK;
}

static void forget_dialed(struct messenger *messenger, struct peer *peer) {
    const enum link_state state = peer->links[0].state;
    if (state == LINK_DIALED || state == LINK_DRAINING) {
        peer_closed(messenger, peer);
    } else if (state != LINK_ACCEPTED) {
        link_end(messenger, &peer->links[0], 0);
    }
}

enum status messenger_peer(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                           const char *address, struct fault *fault) {
    struct peer *peer = NULL;
    read_release_frame(messenger);
    if (address != NULL && !address_is_one(address, false)) {
        return fault_set(fault, STATUS_INPUT, address, NULL, "is not tcp://HOST:PORT");
    }
    const enum status status = name_peer(messenger, curve, &peer, fault);
    if (status != OK || strcmp(peer->address, address == NULL ? "" : address) == 0) {
        return status;
    }
    memset(peer->address, 0, sizeof peer->address);
    if (address == NULL) {
        return OK; /* what stands may stand */
    }
    forget_dialed(messenger, peer);
    memcpy(peer->address, address, strlen(address));
    peer->said_refused = false;
    peer->said_full = false;
    peer->turned_away = 0;
    peer->speaks = false;
    peer->links[0].again_ms = MESSENGER_AGAIN_LEAST;
    const bool waits = messenger->listener != NULL && peer_dials_first(messenger, peer);
    peer->links[0].due_ns = clock_monotonic_ns() + (waits ? MESSENGER_GRACE * MESSENGER_MS : 0);
    wake_by(messenger, peer->links[0].due_ns);
    return OK;
}

void messenger_disconnect(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    read_release_frame(messenger);
    struct peer *peer = peer_find(messenger, curve);
    if (peer != NULL) {
        peer_closed(messenger, peer);
    }
}

void messenger_ban(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    read_release_frame(messenger);
    peer_ban(messenger, curve, INT64_MAX);
    struct peer *peer = peer_find(messenger, curve);
    if (peer != NULL) {
        peer->named = false;
        peer->refused = false;
        peer->full = false;
        memset(peer->address, 0, sizeof peer->address);
        peer_closed(messenger, peer);
    }
}
