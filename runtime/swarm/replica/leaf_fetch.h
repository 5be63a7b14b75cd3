/* leaf_fetch: bring an outer state by its root: the names of its leaves from one source, checked
 * against the root, then the leaves that are not here yet from several, each checked by its name.
 *
 *     begin ──► NAMES ──(all names, their root is right)──► LEAVES ──(all stand there)──► DONE
 *       follow ──┘ └─(wrong, slow, refused: another source)    └─(the same, for that leaf only)
 *
 * What is fetched goes straight into the replica: leaf by leaf it becomes the other state. When the
 * root moves on, what is here follows it by the results of the rounds in between (leaf_replay);
 * what is not comes at the newest root; so it ends however fast the rounds are. A fetch that is
 * begun anew keeps the leaves that both states have. */
#ifndef SKEP_SWARM_REPLICA_LEAF_FETCH_H
#define SKEP_SWARM_REPLICA_LEAF_FETCH_H

#include "runtime/swarm/replica/leaf_replay.h"

enum {
    LEAF_SOURCES_MAX = SWARM_MEMBERS_MAX,
    LEAF_REQUESTS_PER_SOURCE = 4, /* leaves asked of one source at a time */
    LEAF_REQUESTS_MAX = LEAF_REQUESTS_PER_SOURCE * LEAF_SOURCES_MAX,
};

enum leaf_stage { LEAF_IDLE, LEAF_HASHES, LEAF_LEAVES, LEAF_DONE };

struct leaf_source {
    bool is_there;
    uint32_t asked; /* leaves that are on their way from it */
    uint32_t faults;
    int64_t rests_until_ns;
    int64_t shunned_until_ns; /* also when it goes and comes meanwhile */
    int64_t took_ns;          /* its last leaf; 0: none yet */
};

struct leaf_request {
    enum {
        REQUEST_FREE,
        REQUEST_SENT,
        REQUEST_RETRY
    } state; /* AGAIN: it waits for another source */
    uint64_t leaf;
    uint32_t source;
    int64_t since_ns;
};

/* How it asks a source: for names from `index` on, for leaf `index`, for a result. false: not now.
 */
struct leaf_fetch_callbacks {
    void *context;
    bool (*ask_names)(void *context, uint32_t source, const struct hash *root, uint64_t index);
    bool (*ask_leaf)(void *context, uint32_t source, const struct hash *root, uint64_t index);
    bool (*ask_result)(void *context, uint32_t source, const struct replay_request *ask);
};

struct leaf_fetch {
    struct replica *replica;
    struct leaf_fetch_callbacks way;
    struct pool pool; /* the calling thread alone, so that it never meets who computes */
    struct compute compute;
    enum leaf_stage stage;
    int64_t patience_ns; /* for an answer of few bytes; others follow from it and from what came */
    struct hash root;
    uint64_t bytes, leaf_count; /* of the outer state */
    uint64_t named;             /* names that came; they lie in replica->voted */
    bool has_namer;             /* somebody was asked for names */
    uint32_t namer;
    int64_t namer_since_ns;
    struct leaf_replay forward;
    uint32_t *places;  /* [leaf_count]: where each leaf stands; 0: not here */
    uint32_t place;    /* of the root */
    uint64_t carried;  /* leaves below were brought forward by the oldest step */
    uint64_t next;     /* leaves below were looked at */
    uint64_t missing;  /* leaves that are not here */
    uint64_t behind;   /* leaves that do not stand at the root */
    uint64_t received; /* bytes of leaves and results that came and were right */
    uint32_t turn;     /* which source is asked next */
    struct leaf_source sources[LEAF_SOURCES_MAX];
    struct leaf_request asks[LEAF_REQUESTS_MAX];
};

/* leaf_fetch_bytes: memory of its tables. leaf_fetch_init: idle, in that memory. */
size_t leaf_fetch_bytes(const struct replica_shape *shape);
void leaf_fetch_init(struct leaf_fetch *fetch, void *memory, struct replica *replica,
                     struct leaf_fetch_callbacks way);

/* leaf_fetch_set_timeout: how long an answer of few bytes may take; a second at first. */
void leaf_fetch_set_timeout(struct leaf_fetch *fetch, int64_t patience_ns);

/* leaf_fetch_begin: this root is wanted. leaf_fetch_follow: the root after this commit is, which
 * continues the one that was wanted; `sources` were in its round (bit i: source i). What is under
 * way stops: leaf_fetch_step goes on with it.
 * leaf_fetch_end: it stops, and can follow later if nobody else has changed the replica. */
void leaf_fetch_begin(struct leaf_fetch *fetch, const struct hash *root);
void leaf_fetch_follow(struct leaf_fetch *fetch, const struct entry *commit, uint64_t sources);
void leaf_fetch_end(struct leaf_fetch *fetch);

/* leaf_fetch_set_source: whether a source can be asked. */
void leaf_fetch_set_source(struct leaf_fetch *fetch, uint32_t source, bool is_there);

/* leaf_fetch_on_hashes: `count` bytes of names from `index` on, none: it does not have that root.
 * leaf_fetch_on_leaf: a leaf of the wanted root, no bytes: it does not have it. What was not asked
 * for is dropped, but for all names at once: an answer that comes late. leaf_fetch_result: whether
 * its bytes, whose hash that is, go into the replica. */
void leaf_fetch_on_hashes(struct leaf_fetch *fetch, uint32_t source, const struct hash *root,
                          uint64_t index, const uint8_t *names, size_t count, int64_t now_ns);
void leaf_fetch_on_leaf(struct leaf_fetch *fetch, uint32_t source, uint64_t index,
                        const uint8_t *bytes, size_t count, int64_t now_ns);
MUST_CHECK bool leaf_fetch_result(struct leaf_fetch *fetch, uint32_t source,
                                  const struct replay_request *result, int64_t now_ns);

/* leaf_fetch_step: ask for what can be asked for, and bring some leaves forward; LEAF_DONE once
 * replica->root is the root. leaf_fetch_is_busy: there is more to bring forward at once.
 * limits  nobody else reads or writes params, momentum, leaves, voted, results, scratch between
 *         the first step after begin, follow or end and LEAF_DONE or end */
enum leaf_stage leaf_fetch_step(struct leaf_fetch *fetch, int64_t now_ns);
bool leaf_fetch_is_busy(const struct leaf_fetch *fetch);

/* leaf_fetch_outdated: leaves that are still to come or to be brought forward, or all while that is
 * not known. */
uint64_t leaf_fetch_outdated(const struct leaf_fetch *fetch);

#endif
