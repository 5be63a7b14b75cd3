/* member: the pure state machine of a swarm's member: trains, exchanges, votes, applies. */
#ifndef SKEP_SWARM_PROTOCOL_MEMBER_H
#define SKEP_SWARM_PROTOCOL_MEMBER_H

#include "runtime/swarm/protocol/message.h"

#include <stddef.h>

struct member;

struct member_start {
    struct identity id;
    uint64_t number; /* drawn at random by each start of the process */
    uint32_t slice_count;
    struct hash root;                  /* of the durable outer state */
    uint32_t stored_round;             /* results on disk of that round; 0: none */
    const struct slice_report *stored; /* [slice_count] */
};

/* member_bytes: memory of a member, 64-byte aligned by the caller. */
size_t member_bytes(uint32_t slice_count);

/* member_init: a member in `memory`. Never allocates. */
struct member *member_init(void *memory, const struct member_start *start);

/* member_step: take one event and give the actions it causes.
 * limits  EVENT_TICK every heartbeat, after every message that had arrived
 * memory  actions point into the member */
void member_step(struct member *member, const struct event *event, struct actions *actions);

/* member_set_measured: the own medians; the next report has them. */
void member_set_measured(struct member *member, const struct timing_measured *measured);

/* member_set_unreachable: who does not answer any more on the own links, though the tracker may
 * hear them. It is told of them, and nothing is asked of them. Holds until the next call.
 * limits  count <= SWARM_MEMBERS_MAX; before an EVENT_TICK */
void member_set_unreachable(struct member *member, const struct identity *ids, uint32_t count);

/* member_note_arriving: bytes come from this member, though no whole slice has: what is asked of it
 * is on its way and not asked again.
 * limits  before an EVENT_TICK */
void member_note_arriving(struct member *member, const struct identity *id);

/* member_root: of the outer state that the member stands on; zero while it adopts one. */
const struct hash *member_root(const struct member *member);

#endif
