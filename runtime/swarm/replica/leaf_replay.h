/* leaf_replay: bring leaves that are already present up to a newer root. It requests the results of
 * each round in between by their hashes, then applies one round after the other to these leaves.
 *
 *     version 1 ──round 7──► version 2 ──round 9──► version 3     a version: a root that was
 *     leaves 0, 1            leaf 2                 leaf 5        the target; the last one still is
 *
 * Each leaf has a version of its own. Version 0 means that the leaf is missing. */
#ifndef SKEP_SWARM_REPLICA_LEAF_REPLAY_H
#define SKEP_SWARM_REPLICA_LEAF_REPLAY_H

#include "runtime/swarm/replica/replica.h"

#include <stdbool.h>

enum {
    REPLAY_STEPS_MAX = RESULT_ROUNDS, /* at a time: each needs a row of results in the replica */
    REPLAY_REQUESTS_MAX = RESULT_REQUESTS_MAX,
    REPLAY_SOURCES_MAX = SWARM_MEMBERS_MAX,
};

/* The result that a request names. */
struct replay_request {
    uint32_t round, slice, epoch;
    struct hash hash;
};

/* request_result: request a result from a source; false: try again later. */
struct replay_callbacks {
    void *context;
    bool (*request_result)(void *context, uint32_t source, const struct replay_request *request);
};

struct replay_slice {
    enum { RESULT_UNUSED, RESULT_MISSING, RESULT_REQUESTED, RESULT_STORED } state;
    uint32_t source;   /* of the latest request */
    uint32_t attempts; /* requests that timed out */
    int64_t sent_ns;
    uint32_t epoch;
    struct hash hash;
};

/* Takes leaves from version `from_version` to the next one. */
struct replay_step {
    uint32_t round, from_version;
    uint64_t sources;       /* bit i: source i took part in that round */
    uint32_t missing_count; /* needed results that have not arrived */
    int64_t
        last_result_ns; /* arrival of the newest result, at first the first request; 0: neither */
    struct replay_slice *slices; /* [slice_count] */
};

struct leaf_replay {
    struct replica *replica;
    struct replay_callbacks callbacks;
    int64_t timeout_ns;                         /* see leaf_fetch_set_timeout */
    uint64_t connected;                         /* bit i: source i is connected */
    uint32_t pending[REPLAY_SOURCES_MAX];       /* requests to it without an answer */
    int64_t response_ns[REPLAY_SOURCES_MAX];    /* duration of its latest answer; 0: none yet */
    struct replay_step steps[REPLAY_STEPS_MAX]; /* oldest first */
    uint32_t step_count;
};

/* leaf_replay_bytes: size of the tables. leaf_replay_bind: initialize without steps, with tables in
 * `memory`. */
size_t leaf_replay_bytes(uint32_t slice_count);
void leaf_replay_bind(struct leaf_replay *replay, void *memory, struct replica *replica,
                      struct replay_callbacks callbacks);

/* leaf_replay_reset: drop all steps. leaf_replay_stop: cancel all requests and keep the steps. */
void leaf_replay_reset(struct leaf_replay *replay);
void leaf_replay_stop(struct leaf_replay *replay);

/* leaf_replay_set_source: record that a source connected or disconnected. */
void leaf_replay_set_source(struct leaf_replay *replay, uint32_t source, bool is_connected);

/* leaf_replay_add: add the step that applies the results of a commit to leaves at `from_version`.
 * shapes   versions [leaf_count], of the leaves
 * returns  0, or a version: steps were dropped to free their rows of results, so leaves below this
 *          version can no longer be replayed */
uint32_t leaf_replay_add(struct leaf_replay *replay, const struct entry *commit, uint64_t sources,
                         uint32_t from_version, const uint32_t *versions);

/* leaf_replay_request: request missing results as far as the limits of each source permit.
 * returns  as leaf_replay_add: the oldest step is dropped when its results do not arrive */
uint32_t leaf_replay_request(struct leaf_replay *replay, int64_t now_ns);

/* leaf_replay_on_result: whether a step needs this result; the caller then copies its bytes into
 * the replica's row.
 * limits  result->hash was computed from the bytes received */
MUST_CHECK bool leaf_replay_on_result(struct leaf_replay *replay, uint32_t source,
                                      const struct replay_request *result, int64_t now_ns);

/* leaf_replay_ready: the oldest step if all its results have arrived, else NULL.
 * leaf_replay_step_done: remove that step, after it was applied to every leaf at its version. */
const struct replay_step *leaf_replay_ready(const struct leaf_replay *replay);
void leaf_replay_step_done(struct leaf_replay *replay);

#endif
