/* leaf_replay: leaves that are here already follow a root that moves on: the results of each round
 * in between are asked for by hash, and one step after the other is taken on these leaves.
 *
 *     place 1 ──round 7──► place 2 ──round 9──► place 3      a place: a root that was wanted once
 *     leaves 0, 1          leaf 2                leaf 5      the last one is wanted now
 *
 * Leaves stand at places of their own; a leaf at place 0 is not here. */
#ifndef SKEP_SWARM_REPLICA_LEAF_REPLAY_H
#define SKEP_SWARM_REPLICA_LEAF_REPLAY_H

#include "runtime/swarm/replica/replica.h"

#include <stdbool.h>

enum {
    REPLAY_STEPS_MAX = RESULT_ROUNDS, /* under way: whose results have a row in the replica */
    REPLAY_REQUESTS_MAX = RESULT_REQUESTS_MAX,
    REPLAY_SOURCES_MAX = SWARM_MEMBERS_MAX,
};

/* A result that is asked for. */
struct replay_request {
    uint32_t round, slice, epoch;
    struct hash hash;
};

/* false: not now. */
struct replay_callbacks {
    void *context;
    bool (*ask_result)(void *context, uint32_t source, const struct replay_request *ask);
};

struct replay_slice {
    enum { RESULT_UNUSED, RESULT_LACKING, RESULT_ASKED, RESULT_HERE } state;
    uint32_t source; /* who was asked last */
    uint32_t turn;   /* how many were asked in vain */
    int64_t since_ns;
    uint32_t epoch;
    struct hash hash;
};

/* From place `from` to the next one. */
struct replay_step {
    uint32_t round, from;
    uint64_t sources;            /* bit i: source i was in that round */
    uint32_t lacking;            /* results that are used and not here */
    int64_t moved_ns;            /* when the last of them came; 0: not looked at yet */
    struct replay_slice *slices; /* [slice_count] */
};

struct leaf_replay {
    struct replica *replica;
    struct replay_callbacks way;
    int64_t patience_ns;                /* as leaf_fetch_set_timeout says */
    uint64_t there;                     /* bit i: source i can be asked */
    uint32_t asked[REPLAY_SOURCES_MAX]; /* results that are on their way from it */
    int64_t took_ns[REPLAY_SOURCES_MAX];
    struct replay_step steps[REPLAY_STEPS_MAX]; /* the oldest first */
    uint32_t step_count;
};

/* leaf_replay_bytes: memory of its tables. leaf_replay_bind: no steps, in that memory. */
size_t leaf_replay_bytes(uint32_t slice_count);
void leaf_replay_bind(struct leaf_replay *forward, void *memory, struct replica *replica,
                      struct replay_callbacks way);

/* leaf_replay_reset: forget all steps. leaf_replay_stop: what is asked for counts as not asked. */
void leaf_replay_reset(struct leaf_replay *forward);
void leaf_replay_stop(struct leaf_replay *forward);

/* leaf_replay_set_source: whether a source can be asked. */
void leaf_replay_set_source(struct leaf_replay *forward, uint32_t source, bool is_there);

/* leaf_replay_add: one more step, by the results of a commit, from place `from`.
 * shapes  places [leaf_count]: of the leaves; those of a later place do not need this step
 * result  steps that cannot be taken any more were dropped: no leaf below this place comes on */
uint32_t leaf_replay_add(struct leaf_replay *forward, const struct entry *commit, uint64_t sources,
                         uint32_t from, const uint32_t *places);

/* leaf_replay_request: ask for what can be asked for. The result as above: results that nobody
 * has. */
uint32_t leaf_replay_request(struct leaf_replay *forward, int64_t now_ns);

/* leaf_replay_on_result: whether a result is one that is lacking; the caller then puts its bytes
 * into the replica's row. Its hash was made from its bytes. */
MUST_CHECK bool leaf_replay_on_result(struct leaf_replay *forward, uint32_t source,
                                      const struct replay_request *result, int64_t now_ns);

/* leaf_replay_ready: the oldest step if all of its results are here, else NULL.
 * leaf_replay_step_done: it was taken on every leaf that stood there. */
const struct replay_step *leaf_replay_ready(const struct leaf_replay *forward);
void leaf_replay_step_done(struct leaf_replay *forward);

#endif
