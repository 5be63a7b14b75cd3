/* admission: this member's standing with the tracker: introduce it until the tracker admits it, and
 * note what the tracker's address book says about it and about the swarm's timing. */
#ifndef SKEP_SWARM_MEMBER_ADMISSION_H
#define SKEP_SWARM_MEMBER_ADMISSION_H

#include "runtime/swarm/member/member.h"
#include "runtime/swarm/wire/wire.h"

/* idle_reason: why this member takes no part in rounds, as a text for the operator. The tracker's
 * rejection and the check of its ledger both set it; the newest text replaces the older one. */

struct idle_reason {
    char text[WIRE_REJECT_REASON_BYTES]; /* "": the member takes part, or waits for an answer */
};

/* idle_reason_set: longer text is truncated. True when the text changed.
 * idle_reason_clear: the obstacle was removed. */
bool idle_reason_set(struct idle_reason *reason, const char *text);
void idle_reason_clear(struct idle_reason *reason);

struct admission {
    const struct member_loop_options *options;
    struct messenger *messenger;
    struct idle_reason *reason;
    uint64_t start_id;     /* drawn at random by each start of a member's process */
    int64_t introduced_ns; /* 0: not on this connection */
    bool is_connected;     /* to the tracker */
    bool is_admitted;
    bool is_reachable;          /* for other members, as the tracker found */
    bool is_replaced;           /* another process has joined with this identity since */
    uint32_t member_count;      /* in the address book, with this one */
    struct swarm_timing timing; /* the tracker's; a default heartbeat at first */
};

/* admission_init: not connected.
 * memory  options and reason are kept */
void admission_init(struct admission *admission, const struct member_loop_options *options,
                    struct idle_reason *reason, uint64_t start_id);

/* admission_bind: send through this messenger from now on. */
void admission_bind(struct admission *admission, struct messenger *messenger);

/* The connection to the tracker opened or closed. The tracker sends its decision on each. */
void admission_on_connect(struct admission *admission);
void admission_on_disconnect(struct admission *admission);

/* admission_introduce: send the introduction if it is due. */
void admission_introduce(struct admission *admission, int64_t now_ns);

/* Answers of the tracker. After admission_on_replaced this process must end: connecting again would
 * disconnect the process that is the member now. */
void admission_on_rejected(struct admission *admission, const uint8_t *text, size_t count);
void admission_on_replaced(struct admission *admission);
void admission_on_address_book(struct admission *admission, const struct wire_address_book *book);

/* admission_is_self: whether the keys are this member's. */
bool admission_is_self(const struct admission *admission, const struct public_keys *keys);

/* admission_may_request: whether the tracker answers requests of a member now. */
static inline bool admission_may_request(const struct admission *admission) {
    return admission->is_connected && admission->is_admitted;
}

#endif
