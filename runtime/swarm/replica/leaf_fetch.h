/* leaf_fetch: fetch the outer state with a given root from other members. One source sends the
 * hashes of all leaves, which are checked against the root. Several sources then send the missing
 * leaves, each checked against its hash.
 *
 *     begin ──► HASHES ──(all hashes match the root)──► LEAVES ──(all leaves at the root)──► DONE
 *      follow ──┘ └─(invalid, slow, rejected: use another source)  └─(the same, for one leaf)
 *
 * Leaves are written straight into the replica, which becomes the new state leaf by leaf. When the
 * root advances during the fetch, the leaves that are present advance by the results of the rounds
 * in between (leaf_replay), and missing leaves are fetched at the newest root. The fetch therefore
 * finishes even when rounds are short. A new fetch keeps the leaves that both states share. */
#ifndef SKEP_SWARM_REPLICA_LEAF_FETCH_H
#define SKEP_SWARM_REPLICA_LEAF_FETCH_H

#include "runtime/swarm/replica/replica.h"

#include <stdbool.h>

/* leaf_replay: update leaves that are already present to a newer root. It requests the results of
 * each round in between by their hashes, then applies one round after the other to these leaves.
 *
 *     version 1 ──round 7──► version 2 ──round 9──► version 3     a version: a root that was
 *     leaves 0, 1            leaf 2                 leaf 5        the target; the last one still is
 *
 * Each leaf has a version of its own. Version 0 means that the leaf is missing. */

enum {
    /* maximum number of replay steps: each needs a row of results in the replica */
    REPLAY_STEPS_MAX = RESULT_ROUNDS,
    /* maximum number of unanswered result requests to one source */
    REPLAY_REQUESTS_MAX = RESULT_REQUESTS_MAX,
    /* maximum number of members that results can come from */
    REPLAY_SOURCES_MAX = SWARM_MEMBERS_MAX,
};

/* A request for the result of a slice. */
struct replay_request {
    uint32_t round, slice, epoch; /* round, slice and epoch of the requested result */
    struct hash hash;             /* hash of the requested result */
};

/* request_result: sends a request for a result to a source. Returns false if that is not
 * possible now; the caller repeats it later. */
struct replay_callbacks {
    void *context; /* first argument of request_result */
    bool (*request_result)(void *context, uint32_t source, const struct replay_request *request);
};

struct replay_slice { /* the fetch of one result for a replay step */
    enum {
        RESULT_UNUSED,    /* the result is not needed for the fetched leaves */
        RESULT_MISSING,   /* needed, and not requested yet */
        RESULT_REQUESTED, /* requested from `source` */
        RESULT_STORED,    /* the result has arrived */
    } state;
    uint32_t source;   /* source of the latest request */
    uint32_t timeouts; /* number of requests for this result that timed out */
    int64_t sent_ns;   /* when the latest request was sent */
    uint32_t epoch;    /* epoch of the result */
    struct hash hash;  /* hash of the result */
};

/* One replay step: applies the results of one round to leaves at `from_version`, which are then
 * at the next version. */
struct replay_step {
    uint32_t round, members;     /* the round, and the number of members with seats in it */
    uint32_t from_version;       /* version of the leaves to which the step is applied */
    uint64_t sources;            /* bit i: source i took part in the round */
    uint32_t missing_count;      /* number of needed results that have not arrived */
    int64_t last_result_ns;      /* time of the newest result, or of the first request; 0: none */
    struct replay_slice *slices; /* [slice_count] */
};

struct leaf_replay {                      /* replays commits on fetched leaves */
    struct replica *replica;              /* the replica whose leaves are replayed */
    struct replay_callbacks callbacks;    /* functions that send requests for results */
    int64_t timeout_ns;                   /* timeout of a short answer (leaf_fetch_set_timeout) */
    uint64_t connected;                   /* bit i: source i is connected */
    uint32_t pending[REPLAY_SOURCES_MAX]; /* number of unanswered requests to each source */
    int64_t response_ns[REPLAY_SOURCES_MAX]; /* duration of each source's latest answer; 0: none */
    struct replay_step steps[REPLAY_STEPS_MAX]; /* oldest first */
    uint32_t step_count;                        /* number of steps in use */
};

/* leaf_replay_memory_bytes: size of the tables. leaf_replay_init: initialize a replay without
 * steps, with its tables in `memory`. */
size_t leaf_replay_memory_bytes(uint32_t slice_count);
void leaf_replay_init(struct leaf_replay *replay, void *memory, struct replica *replica,
                      struct replay_callbacks callbacks);

/* leaf_replay_drop_steps: drop all steps and their requests. leaf_replay_cancel_requests: cancel
 * all requests, but keep the steps. */
void leaf_replay_drop_steps(struct leaf_replay *replay);
void leaf_replay_cancel_requests(struct leaf_replay *replay);

/* leaf_replay_set_source_connected: record that a source connected or disconnected. */
void leaf_replay_set_source_connected(struct leaf_replay *replay, uint32_t source,
                                      bool is_connected);

/* leaf_replay_add_step: add the step that applies a commit's results to leaves at `from_version`.
 * shapes   versions [leaf_count], of the leaves
 * returns  0, or a version: steps were dropped to free their rows of results, so leaves below this
 *          version can no longer be replayed */
uint32_t leaf_replay_add_step(struct leaf_replay *replay, const struct entry *commit,
                              uint64_t sources, uint32_t from_version, const uint32_t *versions);

/* leaf_replay_send_requests: request missing results as far as the limits of each source permit.
 * returns  0, or a version: the oldest step was dropped because its results did not arrive, so
 *          leaves below this version can no longer be replayed */
uint32_t leaf_replay_send_requests(struct leaf_replay *replay, int64_t now_ns);

/* leaf_replay_accept_result: record that a result has arrived. Returns whether a step needs it; the
 * caller then copies its bytes into the replica.
 * limits  result->hash was computed from the bytes received */
MUST_CHECK bool leaf_replay_accept_result(struct leaf_replay *replay, uint32_t source,
                                          const struct replay_request *result, int64_t now_ns);

/* leaf_replay_ready_step: the oldest step if all its results have arrived, else NULL.
 * leaf_replay_remove_step: remove that step, after it was applied to every leaf at its version. */
const struct replay_step *leaf_replay_ready_step(const struct leaf_replay *replay);
void leaf_replay_remove_step(struct leaf_replay *replay);

enum {
    LEAF_SOURCES_MAX = SWARM_MEMBERS_MAX, /* maximum number of members that leaves can come from */
    /* maximum number of unanswered leaf requests to one source */
    LEAF_REQUESTS_PER_SOURCE = 4,
    LEAF_REQUESTS_MAX = LEAF_REQUESTS_PER_SOURCE * LEAF_SOURCES_MAX, /* of all sources */
};

enum leaf_stage {
    LEAF_STAGE_IDLE,   /* no state is being fetched */
    LEAF_STAGE_HASHES, /* leaf hashes are being fetched */
    LEAF_STAGE_LEAVES, /* leaves are being fetched or replayed */
    LEAF_STAGE_DONE,   /* all leaves of the state are present */
};

struct leaf_source {          /* a member from which leaves can be requested */
    bool is_connected;        /* requests can be sent to the source */
    uint32_t pending;         /* number of unanswered requests for leaves */
    uint32_t faults;          /* number of consecutive faults of the source */
    int64_t backoff_until_ns; /* no request is sent before this time */
    int64_t banned_until_ns;  /* end of the ban, also after the source reconnects */
    int64_t response_ns;      /* duration of the source's latest leaf; 0: none yet */
};

struct leaf_request { /* a request for one leaf */
    enum {
        REQUEST_FREE,  /* the row is not in use */
        REQUEST_SENT,  /* the leaf was requested from `source` */
        REQUEST_RETRY, /* the request waits for a source */
    } state;
    uint64_t leaf;   /* index of the requested leaf */
    uint32_t source; /* source that the request was sent to */
    int64_t sent_ns; /* when the request was sent */
};

/* Functions that send a request to a source: for the hashes from leaf `index` to the last one,
 * for leaf `index`, or for a result. They return false if that is not possible now; the caller
 * repeats it later. */
struct leaf_fetch_callbacks {
    void *context;
    bool (*request_hashes)(void *context, uint32_t source, const struct hash *root, uint64_t index);
    bool (*request_leaf)(void *context, uint32_t source, const struct hash *root, uint64_t index);
    bool (*request_result)(void *context, uint32_t source, const struct replay_request *request);
};

/* A file of this member, in which the state to fetch may be stored. read_hashes reads all leaf
 * hashes, and read_leaf reads leaf `index` and returns its length. If the file has no state with
 * this root, read_hashes returns false and read_leaf returns 0. */
struct leaf_file {
    void *context;
    bool (*read_hashes)(void *context, const struct hash *root, struct hash *hashes);
    size_t (*read_leaf)(void *context, const struct hash *root, uint64_t index, uint8_t *bytes);
    bool is_used;       /* leaves are read from the file */
    uint64_t next_leaf; /* leaves below this index are present */
};

struct leaf_fetch {                        /* fetches the outer state leaf by leaf */
    struct replica *replica;               /* receives the state */
    struct leaf_fetch_callbacks callbacks; /* functions that send requests to sources */
    struct pool pool; /* a pool of one thread, because the compute thread uses the shared pool */
    struct compute compute; /* kernels that execute on `pool` */
    enum leaf_stage stage;  /* what is being fetched */
    int64_t timeout_ns; /* timeout of a short answer, from which leaf and result timeouts derive */
    struct hash root;   /* root of the state to fetch */
    uint64_t bytes, leaf_count; /* size of the outer state in bytes and in leaves */
    uint64_t hash_count;        /* number of hashes received into replica->voted_leaves */
    bool has_hash_request;      /* a request for hashes has no answer yet */
    uint32_t hash_source;       /* source of the latest request for hashes */
    int64_t hash_request_ns;    /* when the request for hashes was sent */
    struct leaf_replay replay;  /* replays commits on fetched leaves */
    uint32_t *versions;         /* [leaf_count]: version of each leaf (leaf_replay); 0: missing */
    uint32_t target_version;    /* version of the leaves of `root` */
    /* the oldest replay step was applied to all leaves below this index */
    uint64_t replayed_leaves;
    uint64_t next_leaf;      /* leaves below this index are present or requested */
    uint64_t missing_count;  /* number of leaves that are not present */
    uint64_t outdated_count; /* number of leaves that are not at target_version */
    uint64_t received_bytes; /* bytes of valid leaves and results */
    uint32_t next_source;    /* index of the source that gets the next request, in rotation */
    struct leaf_file file;   /* a file of this member, which may have the state to fetch */
    /* the other members, by seat or by row of the address book */
    struct leaf_source sources[LEAF_SOURCES_MAX];
    struct leaf_request requests[LEAF_REQUESTS_MAX]; /* requests for leaves */
};

/* leaf_fetch_memory_bytes: size of the tables. leaf_fetch_init: initialize an idle fetch with
 * its tables in `memory`. */
size_t leaf_fetch_memory_bytes(const struct replica_shape *shape);
void leaf_fetch_init(struct leaf_fetch *fetch, void *memory, struct replica *replica,
                     struct leaf_fetch_callbacks callbacks);

/* leaf_fetch_set_file: read the states to fetch from a file of this member if it has them, before
 * leaves are requested from sources. To be called before leaf_fetch_begin.
 * limits  file->is_used is false */
void leaf_fetch_set_file(struct leaf_fetch *fetch, const struct leaf_file *file);

/* leaf_fetch_set_timeout: set the timeout of a short answer, which is initially one second. */
void leaf_fetch_set_timeout(struct leaf_fetch *fetch, int64_t timeout_ns);

/* leaf_fetch_begin: fetch the state with this root. leaf_fetch_follow_commit: fetch the state after
 * `commit`, the entry after the previous target; the sources in `sources` (bit i: source i) took
 * part in its round. Both cancel all requests; leaf_fetch_step sends new ones.
 * leaf_fetch_end: stop fetching. leaf_fetch_follow_commit may resume later if the replica has not
 * changed. */
void leaf_fetch_begin(struct leaf_fetch *fetch, const struct hash *root);
void leaf_fetch_follow_commit(struct leaf_fetch *fetch, const struct entry *commit,
                              uint64_t sources);
void leaf_fetch_end(struct leaf_fetch *fetch);

/* leaf_fetch_set_source_connected: record that a source connected or disconnected. */
void leaf_fetch_set_source_connected(struct leaf_fetch *fetch, uint32_t source, bool is_connected);

/* leaf_fetch_on_hashes: handle `count` bytes of leaf hashes from leaf `index`; 0 bytes mean that
 * the source does not have the root. leaf_fetch_on_leaf: handle a leaf of the target root; 0 bytes
 * mean that the source does not have it. Answers without a request are dropped, except a late
 * answer that has all hashes. leaf_fetch_accept_slice_result: record that the result of a slice,
 * whose bytes have result->hash, has arrived. Returns whether the caller must copy the bytes into
 * the replica. */
void leaf_fetch_on_hashes(struct leaf_fetch *fetch, uint32_t source, const struct hash *root,
                          uint64_t index, const uint8_t *hashes, size_t count, int64_t now_ns);
void leaf_fetch_on_leaf(struct leaf_fetch *fetch, uint32_t source, uint64_t index,
                        const uint8_t *bytes, size_t count, int64_t now_ns);
MUST_CHECK bool leaf_fetch_accept_slice_result(struct leaf_fetch *fetch, uint32_t source,
                                               const struct replay_request *result, int64_t now_ns);

/* leaf_fetch_step: send requests as far as limits permit, and replay some leaves; returns
 * LEAF_STAGE_DONE once replica->root is the target root.
 * leaf_fetch_has_local_work: whether leaves can be read from the file or replayed at once.
 * limits  from the first step after begin or follow until LEAF_STAGE_DONE or end, no other thread
 *         accesses the replica's params, momentum, leaves, voted_leaves, results and scratch */
enum leaf_stage leaf_fetch_step(struct leaf_fetch *fetch, int64_t now_ns);
bool leaf_fetch_has_local_work(const struct leaf_fetch *fetch);

/* leaf_fetch_outdated_count: number of leaves that must still be fetched or replayed; all of them
 * while the hashes are unknown. */
uint64_t leaf_fetch_outdated_count(const struct leaf_fetch *fetch);

#endif
