/* messages_table: the table of peers by key. A slot is free when its peer is neither registered nor
 * connected, has no link in progress and no pending event. A free slot still has the key of its
 * former peer, so peer_find may return a peer that is not in use, which is harmless. */
#include "transport/messages/messages_state.h"

#include <string.h>

void table_init(struct messenger *messenger, struct region *region) {
    const struct messenger_options *options = &messenger->options;
    const uint32_t links = messenger_links_max(options);
    messenger->curves = region_alloc(region, options->peers_max, sizeof *messenger->curves);
    messenger->peers = region_alloc(region, options->peers_max, sizeof *messenger->peers);
    struct link *all = region_alloc(region, links, sizeof *all);
    for (uint32_t i = 0; i < links; i++) {
        link_init(&all[i]);
    }
    for (uint32_t i = 0; i < options->peers_max; i++) {
        messenger->peers[i].links = all + (size_t)i * (1 + options->bulk_connections);
    }
}

static bool is_slot_free(const struct messenger *messenger, const struct peer *peer) {
    for (uint32_t i = 0; i <= messenger->options.bulk_connections; i++) {
        if (peer->links[i].state != LINK_NONE) {
            return false;
        }
    }
    return !peer->is_registered && !peer_is_open(peer) && !peer_has_unreported_events(peer);
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

/* Find the slot that has this key, else a free slot, else NULL. */
static struct peer *find_slot(const struct messenger *messenger,
                              const uint8_t curve[static KEY_BYTES]) {
    struct peer *peer = peer_find(messenger, curve);
    for (uint32_t i = 0; i < messenger->options.peers_max && peer == NULL; i++) {
        if (is_slot_free(messenger, &messenger->peers[i])) {
            peer = &messenger->peers[i];
        }
    }
    return peer;
}

static uint32_t classify_process(const struct messenger *messenger,
                                 const uint8_t curve[static KEY_BYTES]) {
    const struct messenger_guests *guests = &messenger->options.guests;
    const uint32_t class = guests->class_of == NULL ? 0 : guests->class_of(guests->context, curve);
    ASSERT(class < MESSAGE_GUEST_CLASSES);
    return class;
}

bool peer_may_be_guest(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    return messenger->options.guests.slots[classify_process(messenger, curve)] > 0;
}

bool peer_has_slot(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    const struct peer *slot = find_slot(messenger, curve);
    if (slot == NULL || !is_slot_free(messenger, slot)) {
        return slot != NULL;
    }
    const uint32_t class = classify_process(messenger, curve);
    uint32_t guests = 0;
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        const struct peer *peer = &messenger->peers[i];
        guests +=
            !peer->is_registered && peer->process_class <= class && !is_slot_free(messenger, peer);
    }
    return guests < messenger->options.guests.slots[class];
}

struct peer *peer_add(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    struct peer *peer = find_slot(messenger, curve);
    if (peer == NULL || !is_slot_free(messenger, peer)) {
        return peer;
    }
    memcpy(messenger->curves[peer - messenger->peers], curve, KEY_BYTES);
    /* Keep the count of disconnections, because frames of the former peer may still be in the
     * read-ahead ring. */
    *peer = (struct peer){.links = peer->links, .disconnect_count = peer->disconnect_count};
    for (uint32_t i = 0; i <= messenger->options.bulk_connections; i++) {
        link_init(&peer->links[i]);
    }
    return peer;
}

struct peer *peer_add_guest(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    const bool may = peer_may_be_guest(messenger, curve) && peer_has_slot(messenger, curve);
    struct peer *peer = may ? peer_add(messenger, curve) : NULL;
    if (peer != NULL) {
        peer->process_class = classify_process(messenger, curve);
    }
    return peer;
}

void messenger_reclassify_guests(struct messenger *messenger) {
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        struct peer *peer = &messenger->peers[i];
        if (!peer->is_registered && !is_slot_free(messenger, peer)) {
            peer->process_class = classify_process(messenger, messenger->curves[i]);
        }
    }
}

/* Numbers of class 0 guests (strangers) that are connected from one network, and from one host
 * in it. */
struct stranger_counts {
    uint32_t network, host; /* strangers from the network; strangers from the host */
};

static bool is_connected_stranger(const struct peer *peer) {
    return !peer->is_registered && peer_is_open(peer) && peer->process_class == 0;
}

static struct stranger_counts count_strangers(const struct messenger *messenger,
                                              const struct source *host) {
    struct stranger_counts counts = {0};
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        const struct peer *peer = &messenger->peers[i];
        if (is_connected_stranger(peer) && source_is_same_network(&peer->host, host)) {
            counts.network++;
            counts.host += source_is_same_host(&peer->host, host);
        }
    }
    return counts;
}

static bool has_more_strangers(struct stranger_counts a, struct stranger_counts b) {
    return a.network > b.network || (a.network == b.network && a.host > b.host);
}

bool evict_stranger(struct messenger *messenger, const struct source *newcomer) {
    const int64_t min_stay_ns = messenger->options.guests.evict_after_ms * NS_PER_MS;
    struct peer *chosen = NULL;
    struct stranger_counts of_chosen = {0};
    for (uint32_t i = 0; min_stay_ns > 0 && i < messenger->options.peers_max; i++) {
        struct peer *peer = &messenger->peers[i];
        if (!is_connected_stranger(peer)) {
            continue;
        }
        const struct stranger_counts counts = count_strangers(messenger, &peer->host);
        if (chosen == NULL || has_more_strangers(counts, of_chosen) ||
            (!has_more_strangers(of_chosen, counts) && peer->opened_ns < chosen->opened_ns)) {
            chosen = peer;
            of_chosen = counts;
        }
    }
    if (chosen == NULL) {
        return false;
    }
    struct stranger_counts with_newcomer = count_strangers(messenger, newcomer);
    with_newcomer.network++;
    with_newcomer.host++;
    const bool may_evict = has_more_strangers(of_chosen, with_newcomer) ||
                           clock_monotonic_ns() - chosen->opened_ns >= min_stay_ns;
    if (may_evict) {
        peer_on_close(messenger, chosen);
    }
    return may_evict;
}

bool peer_dials_first(const struct messenger *messenger, const struct peer *peer) {
    return memcmp(peer_curve(messenger, peer), messenger->options.keys->public_keys.curve,
                  KEY_BYTES) < 0;
}
