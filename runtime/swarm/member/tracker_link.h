/* tracker_link: keeps the keys of the tracker that this member connects to up to date. While the
 * tracker does not answer, the member fetches the operator's delegation again, because a newer
 * one may name other keys. */
#ifndef SKEP_SWARM_MEMBER_TRACKER_LINK_H
#define SKEP_SWARM_MEMBER_TRACKER_LINK_H

#include "runtime/swarm/delegation/delegation_fetch.h"
#include "runtime/swarm/member/admission.h"

struct tracker_link {
    const struct member_loop_options *options; /* the tracker's address and keys at the start */
    struct admission *admission;               /* sends introductions to the tracker with `keys` */
    struct messenger *messenger;               /* opens and closes the connection to the tracker */
    struct public_keys keys;                   /* public keys of the tracker */
    /* delegation that names `keys`; serial 0: the keys never change */
    struct known_delegation known;
    /* the tracker's address with its host name resolved; "": unknown */
    char numeric[MESSAGE_ADDRESS_BYTES];
    struct delegation_fetch fetch; /* fetch of the delegation from the tracker's address */
    int64_t next_fetch_ms;         /* when the next fetch is due */
    const char *logged_error;      /* error of a delegation that was logged last; NULL: none */
    bool has_expired;              /* the delegation has expired, and the connection was closed */
};

/* tracker_link_init: use the keys of options->tracker. Resolves the tracker's host name, so call it
 * before the arena is sealed.
 * tracker_link_open: connect to the tracker through this messenger.
 * errors  those of messenger_register_peer */
void tracker_link_init(struct tracker_link *link, const struct member_loop_options *options,
                       struct admission *admission);
MUST_CHECK enum status tracker_link_open(struct tracker_link *link, struct messenger *messenger,
                                         struct fault *fault);

/* tracker_link_step: fetch the delegation if a fetch is due, and use a newer one. If the newer one
 * names other keys, or if the delegation has expired, close the connection to the tracker. */
void tracker_link_step(struct tracker_link *link, int64_t now_ms);

/* tracker_link_on_connect: to be called when the tracker with the current keys has connected. */
void tracker_link_on_connect(struct tracker_link *link, int64_t now_ms);

/* tracker_link_cancel_fetch: cancel a fetch of the delegation that is in progress. */
void tracker_link_cancel_fetch(struct tracker_link *link);

#endif
