/* member_machine: the state machine of a swarm's member: train, exchange, vote, apply.
 *
 * The room owns a member's view of the round, its job in hand, its requests and its session with
 * the tracker. runtime/swarm/protocol explains what a state machine is; in member_state.h, each
 * part of the state belongs to the file that assigns it. */
#ifndef SKEP_SWARM_MEMBER_MACHINE_MEMBER_MACHINE_H
#define SKEP_SWARM_MEMBER_MACHINE_MEMBER_MACHINE_H

#include "runtime/swarm/protocol/protocol.h"

#include <stddef.h>

struct member;

struct member_initial_state {
    struct identity id;     /* this member's public key */
    uint64_t start_id;      /* Random number that identifies this start of the process. */
    uint32_t slice_count;   /* number of slices of the parameters */
    uint64_t sample_tokens; /* Maximum tokens per sample, which limits weights. */
    bool has_sketches;      /* The codec of the swarm has sketches. */
    /* With a sparse codec: number of values that a whole contribution sends. With others 0. */
    uint64_t sent_values;
    /* Random bytes, from which this member draws slices to audit. They never leave the process. */
    struct hash audit_secret;
    struct hash root;                  /* Root of the durable outer state. */
    uint32_t stored_round;             /* Round of the results on disk; 0 if there are none. */
    const struct slice_report *stored; /* [slice_count]: reports of the results on disk */
    struct lease lease;                /* the last durable lease; all zero: none */
};

/* member_memory_bytes: the size of the memory that a member needs. The caller aligns it to 64
 * bytes. */
size_t member_memory_bytes(uint32_t slice_count);

/* member_init: initialize a member in `memory`. It allocates nothing. */
struct member *member_init(void *memory, const struct member_initial_state *start);

/* member_step: handle one event and return the actions that it causes.
 * limits  pass EVENT_TICK every heartbeat, after all messages that have arrived; now_ms is a
 *         monotonic time, used only to measure how long other members take
 * memory  actions point into the member */
void member_step(struct member *member, const struct event *event, int64_t now_ms,
                 struct actions *actions);

/* member_set_measured_medians: set the medians that this member measured, for its next report. */
void member_set_measured_medians(struct member *member, const struct timing_measured *measured);

/* member_set_stored_states: set the roots of the states that this member stores, for its next
 * report.
 * shapes  roots [STORED_STATES_MAX]; zero: none */
void member_set_stored_states(struct member *member, const struct hash *roots);

/* member_set_unreachable_members: set the members that do not answer on this member's connections,
 * even if the tracker still receives their reports. The next report lists them, and this member
 * requests nothing from them until the next call.
 * limits  count <= SWARM_MEMBERS_MAX; before an EVENT_TICK */
void member_set_unreachable_members(struct member *member, const struct identity *ids,
                                    uint32_t count);

/* member_mark_partial_arrival: record that bytes of an incomplete slice arrived from this
 * member, so that open requests to it do not time out.
 * limits  before an EVENT_TICK */
void member_mark_partial_arrival(struct member *member, const struct identity *id);

/* Signs, seen by this member, that two starts of the tracker continue after the same state. */
enum lease_conflict {
    LEASE_FREE,   /* no sign of a second start of the tracker */
    LEASE_HELD,   /* this member did not vote, because another start has its lease */
    LEASE_COPIED, /* two starts have the same incarnation number: one is a copy of the other */
};

/* member_pop_conflict: return the conflict found since the last call, for the log. */
enum lease_conflict member_pop_conflict(struct member *member);

/* member_current_root: the root of the member's outer state; zero during a state fetch. */
const struct hash *member_current_root(const struct member *member);

#endif
