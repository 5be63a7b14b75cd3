/* tracker: the tracker's pure state machine: admits members, runs rounds, keeps the record. */
#ifndef SKEP_SWARM_PROTOCOL_TRACKER_H
#define SKEP_SWARM_PROTOCOL_TRACKER_H

#include "runtime/swarm/protocol/message.h"
#include "runtime/swarm/protocol/timing.h"

#include <stddef.h>

struct tracker;

struct tracker_settings {
    uint32_t slice_count;    /* 1 .. SWARM_SLICES_MAX */
    uint64_t slice_elements; /* of each slice but the last: slices_plan */
    uint64_t parameter_count;
    uint64_t seat_samples;      /* new ones given to a seat a round */
    uint64_t sample_tokens;     /* a member's tokens are at most its samples times this */
    uint32_t members_min;       /* no round before that many are ready */
    uint32_t shrink_after_ms;   /* below a quorum for so long: ABORT; 0: never */
    uint32_t rollback_after_ms; /* so long without anybody on the newest state: ROLLBACK to one that
                                   a member stands on. Who is away for longer with the only copy
                                   of a committed round loses it; 0: never */
    uint32_t commits_max;       /* the run's end: no OPEN after that many commits; 0: none */
    struct timing_training training; /* for a round's deadline */
    struct swarm_timing timing;      /* until a member has measured its own */
};

/* tracker_bytes: memory of a tracker, 64-byte aligned by the caller. */
size_t tracker_bytes(const struct tracker_settings *settings);

/* tracker_init: a tracker in `memory`, from what is durable.
 * limits  record->incarnation has been raised, and the raised one is durable; its head and commit
 *         are genesis in a new swarm; commit is a rollback if that came last;
 *         the table's arrays are read, not kept
 * memory  tracker_bytes(settings) of the caller's; never allocates */
struct tracker *tracker_init(void *memory, const struct tracker_settings *settings,
                             const struct tracker_record *record, int64_t now_ms);

/* tracker_replay_entry: what the ledger came by, for rollbacks: its genesis, commits and rollbacks
 * in order, at least the last ROLLBACK_STATES_MAX of them, once after tracker_init. */
void tracker_replay_entry(struct tracker *tracker, const struct entry *entry);

/* tracker_step: take one event and give the actions it causes.
 * limits  EVENT_TICK every heartbeat; while an ACTION_WRITE is out, nothing new is promised
 * memory  actions point into the tracker */
void tracker_step(struct tracker *tracker, const struct event *event, int64_t now_ms,
                  struct actions *actions);

/* tracker_timing: the deadlines that hold now; EVENT_TICK comes every heartbeat of these, at the
 * members too. tracker_measured: the members' medians that they were derived from at the last
 * OPEN; gives their number, 0 when the deadlines are those of the settings. */
const struct swarm_timing *tracker_timing(const struct tracker *tracker);
uint32_t tracker_measured(const struct tracker *tracker, const struct timing_measured **rows);

#endif
