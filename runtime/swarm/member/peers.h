/* peers: the other members in the tracker's address book, and the links to them.
 *
 * A dead connection is not reported by the network, so each member is pinged while it sends
 * nothing. A member that does not answer for peers_timeout_ns is unreachable: the state machine
 * reports it to the tracker, which may still receive from both. A ping that arrives is not an
 * answer, as it proves one direction only. */
#ifndef SKEP_SWARM_MEMBER_PEERS_H
#define SKEP_SWARM_MEMBER_PEERS_H

#include "runtime/swarm/member/admission.h"

#include <string.h>

enum { PEER_NONE = SWARM_MEMBERS_MAX }; /* an index that is no row of `links` */

/* A member of the address book. Within this process, the member is identified by the index of
 * its row. */
struct member_peer_link {
    bool is_known;       /* the row is in use */
    bool is_open;        /* the member's control connection is open */
    bool is_dialled;     /* the messenger has the member's address and redials it */
    bool is_unreachable; /* the member does not answer */
    int64_t closed_ns;   /* when the connection was lost, or when the member was listed first */
    int64_t answered_ns, pinged_ns; /* time of the last answer, and of the last ping */
    struct wire_member entry;       /* the member's row in the address book */
};

struct peers_callbacks {
    void *context; /* first argument of the functions */
    /* Called when a peer becomes usable or unusable. The callee discards what is queued for an
     * unusable peer.
     * */
    void (*on_usable)(void *context, uint32_t peer, bool is_usable);
    void (*on_disconnect)(void *context, const struct identity *id);
};

struct peers {                         /* connections to the other members */
    const struct admission *admission; /* this member's admission, with the deadlines */
    struct member *member;             /* the state machine that gets unreachable peers */
    struct messenger *messenger;       /* opens and closes the connections */
    struct peers_callbacks callbacks;  /* called when a peer becomes usable or unusable */
    struct member_peer_link links[SWARM_MEMBERS_MAX]; /* one row per peer */
};

/* peers_init: initialize with no known peer.
 * memory  refers to admission, member and messenger from then on */
void peers_init(struct peers *peers, const struct admission *admission, struct member *member,
                struct messenger *messenger, struct peers_callbacks callbacks);

/* peers_find_by_curve_key, peers_find_by_id: return the index of the known peer with this CURVE
 * key, or with this identity; PEER_NONE if there is none. */
uint32_t peers_find_by_curve_key(const struct peers *peers, const uint8_t *curve);
uint32_t peers_find_by_id(const struct peers *peers, const struct identity *id);

/* peers_with_seats: bit i is set when peer i has a seat in the entry's round. */
uint64_t peers_with_seats(const struct peers *peers, const struct entry *entry);

/* peers_update: update the table from the address book, after admission_on_address_book. Members
 * that are no longer listed are disconnected first, which makes room for new ones. */
void peers_update(struct peers *peers, const struct wire_address_book *book);

/* Functions that handle an event of the messenger: a peer connected, disconnected, or sent a
 * frame of this kind. */
void peers_on_connect(struct peers *peers, uint32_t peer);
void peers_on_disconnect(struct peers *peers, uint32_t peer);
void peers_on_frame(struct peers *peers, uint32_t peer, uint8_t kind, int64_t now_ns);

/* peers_on_pause: to be called when this process was paused for `pause_ns`. That time does not
 * count as silence of peers. */
void peers_on_pause(struct peers *peers, int64_t pause_ns);

/* peers_tick: ping quiet peers, and report the unreachable ones to the state machine.
 * peers_dial: connect to the peers to which a connection is due.
 * limits  call both at every heartbeat */
void peers_tick(struct peers *peers, int64_t now_ns);
void peers_dial(struct peers *peers, int64_t now_ns);

/* peers_timeout_ns: the time without an answer after which a peer is unreachable. */
int64_t peers_timeout_ns(const struct peers *peers);

static inline const uint8_t *peers_curve_key(const struct peers *peers, uint32_t peer) {
    return peers->links[peer].entry.keys.curve;
}

static inline struct identity peers_identity(const struct peers *peers, uint32_t peer) {
    struct identity id;
    memcpy(id.bytes, peers->links[peer].entry.keys.sign, KEY_BYTES);
    return id;
}

static inline bool peers_is_open(const struct peers *peers, uint32_t peer) {
    return peers->links[peer].is_open;
}

/* peers_is_usable: whether the peer is connected and answers pings. */
static inline bool peers_is_usable(const struct peers *peers, uint32_t peer) {
    return peers->links[peer].is_open && !peers->links[peer].is_unreachable;
}

#endif
