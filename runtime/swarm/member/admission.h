/* admission: whether the tracker has admitted this member. It sends introductions until then, and
 * records what the tracker's address book states about this member and the swarm's timing. */
#ifndef SKEP_SWARM_MEMBER_ADMISSION_H
#define SKEP_SWARM_MEMBER_ADMISSION_H

#include "runtime/swarm/member/member.h"
#include "runtime/swarm/wire/attendance.h"
#include "runtime/swarm/wire/wire.h"

/* idle_reason: why this member takes no part in rounds, as a text for the operator. A rejection by
 * the tracker and a failed check of the tracker's ledger both set it. The newest text replaces the
 * older one. */

struct idle_reason { /* why this member takes no part in training */
    /* text: "" while the member takes part or waits for the tracker's answer. */
    char text[WIRE_REJECT_REASON_BYTES]; /* reason for display; "" if none */
};

/* idle_reason_set: store the text, truncated if it is too long. Returns whether the stored text
 * changed. idle_reason_clear: the member has no reason to be idle any more. */
bool idle_reason_set(struct idle_reason *reason, const char *text);
void idle_reason_clear(struct idle_reason *reason);

struct admission {                             /* this member's admission by the tracker */
    const struct member_loop_options *options; /* settings of the member loop */
    struct messenger *messenger;
    const struct public_keys *tracker; /* public keys of the tracker, which may change */
    struct idle_reason *reason;        /* why the member is idle, for the view */
    uint64_t start_id;                 /* random number, new at each start of the process */
    int64_t introduction_sent_ns;      /* when the introduction was sent; 0: not sent yet */
    bool is_connected;                 /* the connection to the tracker is open */
    bool is_admitted;                  /* the tracker has accepted this member */
    bool is_reachable;                 /* the tracker found that other members can connect */
    int64_t unreachable_ns;       /* since when they cannot; 0: they can, or none is admitted */
    bool is_replaced;             /* another process has joined with this identity */
    uint32_t member_count;        /* members in the address book, including this one */
    struct swarm_timing timing;   /* from the address book; the default until it arrives */
    struct attendance attendance; /* from this connection's tracker; zeros: none */
    int64_t attendance_ns;        /* when it arrived */
};

/* admission_init: initialize as not connected to the tracker.
 * memory  the pointers `options` and `reason` are kept */
void admission_init(struct admission *admission, const struct member_loop_options *options,
                    struct idle_reason *reason, uint64_t start_id);

/* admission_set_messenger: introductions are sent through this messenger from now on, to the
 * process with these keys. */
void admission_set_messenger(struct admission *admission, struct messenger *messenger,
                             const struct public_keys *tracker);

/* Call these when the connection to the tracker opens or closes. The tracker sends its decision
 * anew on each connection. */
void admission_on_connect(struct admission *admission);
void admission_on_disconnect(struct admission *admission);

/* admission_introduce: send the introduction to the tracker if it is due. */
void admission_introduce(struct admission *admission, int64_t now_ns);

/* Handle an answer of the tracker. After admission_on_replaced this process must end: if it
 * connected again, it would disconnect the process that replaced it. */
void admission_on_rejected(struct admission *admission, const uint8_t *text, size_t count);
void admission_on_replaced(struct admission *admission);
void admission_on_address_book(struct admission *admission, const struct wire_address_book *book);
void admission_on_attendance(struct admission *admission, const uint8_t *payload, size_t count);

/* admission_find_unreachable: write the address that this member advertises into `address` if the
 * tracker has had the time to connect to it, and could not; else "". */
void admission_find_unreachable(const struct admission *admission, int64_t now_ns,
                                char address[static MESSAGE_ADDRESS_BYTES]);

/* admission_is_self: whether these are the public keys of this member. */
bool admission_is_self(const struct admission *admission, const struct public_keys *keys);

/* admission_may_request: whether the tracker answers requests of a member now. */
static inline bool admission_may_request(const struct admission *admission) {
    return admission->is_connected && admission->is_admitted;
}

#endif
