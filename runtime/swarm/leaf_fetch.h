/* leaf_fetch: bring an outer state by its root: the names of its leaves from one source, checked
 * against the root, then the leaves that are not here yet from several, each checked by its name.
 *
 *     begin ──► NAMES ──(all names, their root is right)──► LEAVES ──(none is missing)──► DONE
 *                 └─(wrong, slow, refused: another source)      └─(the same, for that leaf only)
 *
 * What is fetched goes straight into the replica: leaf by leaf it becomes the other state. A fetch
 * that is begun anew for another root keeps the leaves that both have. */
#ifndef SKEP_SWARM_LEAF_FETCH_H
#define SKEP_SWARM_LEAF_FETCH_H

#include "runtime/swarm/replica.h"

#include <stdbool.h>

enum {
    LEAF_SOURCES_MAX = SWARM_MEMBERS_MAX,
    LEAF_WINDOW = 2, /* leaves asked of one source at a time */
    LEAF_ASKS_MAX = LEAF_WINDOW * LEAF_SOURCES_MAX,
};

enum leaf_stage { LEAF_IDLE, LEAF_NAMES, LEAF_LEAVES, LEAF_DONE };

struct leaf_source {
    bool is_there;
    uint32_t asked; /* leaves that are on their way from it */
    uint32_t faults;
    int64_t rests_until_ns;
    int64_t took_ns; /* its last leaf; 0: none yet */
};

struct leaf_ask {
    enum { ASK_FREE, ASK_OUT, ASK_AGAIN } state; /* AGAIN: it waits for another source */
    uint64_t leaf;
    uint32_t source;
    int64_t since_ns;
};

/* How it asks a source: for names from `index` on, or for leaf `index`. false: not now. */
struct leaf_way {
    void *context;
    bool (*ask_names)(void *context, uint32_t source, const struct hash *root, uint64_t index);
    bool (*ask_leaf)(void *context, uint32_t source, const struct hash *root, uint64_t index);
};

struct leaf_fetch {
    struct replica *replica;
    struct leaf_way way;
    enum leaf_stage stage;
    struct hash root;
    uint64_t bytes, leaf_count; /* of the outer state */
    uint64_t named;             /* names that came; they lie in replica->voted */
    bool has_namer;             /* somebody was asked for names */
    uint32_t namer;
    int64_t namer_since_ns;
    uint64_t next;    /* leaves below were looked at */
    uint64_t missing; /* leaves that are not there yet */
    uint32_t turn;    /* which source is asked next */
    struct leaf_source sources[LEAF_SOURCES_MAX];
    struct leaf_ask asks[LEAF_ASKS_MAX];
};

void leaf_fetch_init(struct leaf_fetch *fetch, struct replica *replica, struct leaf_way way);

/* leaf_fetch_begin: from now on the replica is the fetch's, until it is done or ended.
 * limits  nobody else reads or writes params, momentum, leaves, voted */
void leaf_fetch_begin(struct leaf_fetch *fetch, const struct hash *root);
void leaf_fetch_end(struct leaf_fetch *fetch);

/* leaf_fetch_source: whether a source can be asked. */
void leaf_fetch_source(struct leaf_fetch *fetch, uint32_t source, bool is_there);

/* leaf_fetch_names: `count` bytes of names from `index` on, none: it does not have that root.
 * leaf_fetch_leaf: a leaf, no bytes: it does not have it. What was not asked for is dropped. */
void leaf_fetch_names(struct leaf_fetch *fetch, uint32_t source, const struct hash *root,
                      uint64_t index, const uint8_t *names, size_t count, int64_t now_ns);
void leaf_fetch_leaf(struct leaf_fetch *fetch, uint32_t source, uint64_t index,
                     const uint8_t *bytes, size_t count, int64_t now_ns);

/* leaf_fetch_step: ask for what can be asked for; LEAF_DONE once replica->root is the root. */
enum leaf_stage leaf_fetch_step(struct leaf_fetch *fetch, int64_t now_ns);

/* leaf_fetch_behind: leaves still to come, or all while the names are not known. */
uint64_t leaf_fetch_behind(const struct leaf_fetch *fetch);

#endif
