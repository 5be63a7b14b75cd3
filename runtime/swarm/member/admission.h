/* admission: whether the tracker has admitted this member. Sends introductions until it has, and
 * stores what the tracker's address book states about this member and the swarm's timing. */
#ifndef SKEP_SWARM_MEMBER_ADMISSION_H
#define SKEP_SWARM_MEMBER_ADMISSION_H

#include "runtime/swarm/member/member.h"
#include "runtime/swarm/wire/attendance.h"
#include "runtime/swarm/wire/wire.h"

/* idle_reason: why this member takes no part in rounds, as a text for the operator. A rejection by
 * the tracker and a failed check of the tracker's ledger both set it. The newest text replaces the
 * older one. */

struct idle_reason {
    /* "" while the member takes part in rounds or waits for the tracker's answer */
    char text[WIRE_REJECT_REASON_BYTES];
};

/* idle_reason_set: store the text, truncated if it is too long. Returns whether the stored text
 * changed. idle_reason_clear: remove the text, because the member takes part again. */
bool idle_reason_set(struct idle_reason *reason, const char *text);
void idle_reason_clear(struct idle_reason *reason);

struct admission {                             /* this member's admission by the tracker */
    const struct member_loop_options *options; /* settings of the member loop */
    struct messenger *messenger;               /* sends the introductions */
    /* public keys of the tracker, which a newer delegation may change */
    const struct public_keys *tracker;
    struct idle_reason *reason;   /* why the member is idle, for logs and metrics */
    uint64_t start_id;            /* random number, new at each start of the process */
    int64_t introduction_sent_ns; /* when the newest introduction was sent; 0: not sent yet */
    bool is_connected;            /* the connection to the tracker is open */
    bool is_admitted;             /* the tracker has accepted this member */
    bool is_reachable;            /* the tracker found that other members can connect */
    /* since when other members cannot connect to this one; 0: they can, or it is not admitted */
    int64_t unreachable_ns;
    bool is_replaced;           /* another process has joined with this identity */
    uint32_t member_count;      /* number of members in the address book, including this one */
    struct swarm_timing timing; /* deadlines from the address book; defaults until it has arrived */
    /* attendance that the tracker sent on this connection; zeros: none */
    struct attendance attendance;
    int64_t attendance_ns; /* when the attendance arrived */
};

/* admission_init: initialize as not connected to the tracker.
 * memory  refers to `options` and `reason` from then on */
void admission_init(struct admission *admission, const struct member_loop_options *options,
                    struct idle_reason *reason, uint64_t start_id);

/* admission_set_messenger: from now on, send introductions through this messenger, to the
 * tracker with these keys. */
void admission_set_messenger(struct admission *admission, struct messenger *messenger,
                             const struct public_keys *tracker);

/* To be called when the connection to the tracker opens or closes. On each new connection, the
 * tracker decides again whether to admit the member. */
void admission_on_connect(struct admission *admission);
void admission_on_disconnect(struct admission *admission);

/* admission_introduce: send the introduction to the tracker if it is due. */
void admission_introduce(struct admission *admission, int64_t now_ns);

/* Functions that handle an answer of the tracker. After admission_on_replaced this process must
 * end: if it connected again, it would disconnect the process that replaced it. */
void admission_on_rejected(struct admission *admission, const uint8_t *text, size_t count);
void admission_on_replaced(struct admission *admission);
void admission_on_address_book(struct admission *admission, const struct wire_address_book *book);
void admission_on_attendance(struct admission *admission, const uint8_t *payload, size_t count);

/* admission_write_unreachable_address: write the address that this member advertises into `address`
 * if the tracker had enough time to connect to that address but could not; else write "". */
void admission_write_unreachable_address(const struct admission *admission, int64_t now_ns,
                                         char address[static MESSAGE_ADDRESS_BYTES]);

/* admission_is_self: whether these are the public keys of this member. */
bool admission_is_self(const struct admission *admission, const struct public_keys *keys);

/* admission_may_request: whether the tracker answers requests of a member now. */
static inline bool admission_may_request(const struct admission *admission) {
    return admission->is_connected && admission->is_admitted;
}

#endif
