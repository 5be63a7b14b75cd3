/* world: a simulated swarm: the real machines under a virtual clock and a seeded network. */
#ifndef SKEP_TESTS_SIM_WORLD_H
#define SKEP_TESTS_SIM_WORLD_H

#include "base/check.h"
#include "runtime/swarm/member.h"
#include "runtime/swarm/tracker.h"

enum {
    TRACKERS = 2, /* nodes 0 and 1 */
    MEMBERS_MOST = 16,
    NODES = TRACKERS + MEMBERS_MOST,
    SLICES_MOST = 6,
    SLICE_ELEMENTS = 4,
    ELEMENTS_MOST = SLICES_MOST * SLICE_ELEMENTS,
    STORE_ROWS = 64, /* results kept by a node */
    TRUTHS = 4096,   /* contributions made in one schedule */
    LEDGER_MOST = 512,
    SAMPLES_MOST = 1 << 18,
};

/* Deliberate mistakes of the data plane, the network or the settings, never of the machines. */
enum mistake {
    MISTAKE_NONE,
    MISTAKE_SUM_ORDER,  /* an owner adds in descending seats */
    MISTAKE_HASH_CHECK, /* the transport believes a hash that was said */
    MISTAKE_QUORUM,     /* signatures are cut from a commit before it is written */
    MISTAKE_FENCE,      /* a tracker of a lower incarnation may still write */
    MISTAKE_UNDURABLE,  /* a write is said to be done before it is */
    MISTAKE_CURSOR,     /* a used range goes back to the cursor at a commit */
    MISTAKE_COUNT
};

/* An encoded slice: the toy codec's scale and steps. */
struct coded {
    float scale;
    int8_t steps[SLICE_ELEMENTS];
};

struct outer {
    float values[ELEMENTS_MOST];
    float momentum[ELEMENTS_MOST];
};

/* What was contributed, for the oracle. */
struct truth {
    uint32_t round;
    uint32_t session;
    struct coded slices[SLICES_MOST];
};

struct stored {
    uint32_t round;
    uint32_t slice;
    uint32_t epoch;
    int is_durable;
    uint64_t contributors;
    struct identity owner;
    struct signature signature; /* of the owner */
    struct coded coded;
};

/* A message with all it points to, and the bytes that follow it. */
struct parcel {
    struct message message;
    struct coded coded;
    struct entry *entry;
    struct round_table *table;
    struct slice_report reports[SLICES_MOST];
    struct hash hashes[SLICES_MOST];
    struct entry_slice slices[SLICES_MOST];
    struct slice_plan plans[SLICES_MOST];
    uint64_t holders[SLICES_MOST];
    struct hash *declared;
};

enum { HAPPEN_TICK, HAPPEN_PARCEL, HAPPEN_EVENT, HAPPEN_WRITTEN, HAPPEN_LEAF, HAPPEN_FAULT };

struct happening {
    int64_t at;
    uint64_t order;
    int kind;
    uint32_t node;
    uint32_t start; /* of the node; another one does not see it */
    struct parcel *parcel;
    struct event event;
    struct hash hashes[SLICES_MOST]; /* of an EVENT_TRAINED */
    struct tracker_record *record;   /* of a write */
    int is_appending;
    int fault;
    uint32_t other; /* a node that a fault concerns too */
    int64_t lasts;
};

struct node {
    void *machine; /* struct tracker or struct member; NULL: down */
    uint32_t start;
    int has_left;
    int is_up_at_end;
    int64_t paused_until;
    int64_t slow; /* factor of its training time */
    /* Volatile: */
    struct truth own;
    struct coded slots[MEMBERS_MOST][SLOTS_PER_MEMBER];
    struct action adopting; /* job 0: nothing */
    struct hash adopt_root;
    uint32_t leaves; /* of it that have come */
    /* Durable: */
    struct outer outer;
    struct stored store[STORE_ROWS];
    uint32_t store_next;
};

struct world {
    uint64_t key; /* of everything random */
    uint64_t drawn;
    enum mistake mistake;
    uint32_t member_count;
    uint32_t slice_count;
    int64_t now;
    uint64_t order;
    struct tracker_settings settings;
    struct tracker_record record; /* durable */
    struct node nodes[NODES];
    int64_t cut_until[NODES][NODES];
    int is_over; /* everybody was told that the run has ended */
    double loss;
    int64_t delay;
    struct happening **heap;
    uint32_t heap_count;
    uint32_t heap_capacity;
    struct action *actions;
    struct truth truths[TRUTHS];
    uint32_t truth_count;
    struct entry ledger[LEDGER_MOST];
    struct entry_slice ledger_slices[LEDGER_MOST][SLICES_MOST];
    uint32_t ledger_count;
    uint8_t used[SAMPLES_MOST]; /* samples of committed rounds */
    uint32_t commits;
    uint32_t aborts;
    uint32_t salvages; /* committed slices of a risen epoch */
    uint32_t partial;  /* committed slices that lack a contributor of another slice */
    uint64_t happenings;
    char failure[200]; /* what an oracle found; empty: nothing */
};

/* world_run: one schedule; 1 if every oracle held, else world->failure says which did not. */
int world_run(struct world *world, uint64_t seed, enum mistake mistake);

/* The network and the clock (world.c). */
uint64_t world_draw(struct world *world, uint64_t below);
struct happening *world_add(struct world *world, int kind, uint32_t node, int64_t delay);
void world_fail(struct world *world, const char *format, ...) PRINTF_LIKE(2, 3);

/* The data plane (plane.c): do a machine's actions. `parcel` is the one being handled, or NULL. */
void plane_act(struct world *world, uint32_t node, const struct actions *actions,
               const struct parcel *parcel);
struct hash plane_root(const struct world *world, const struct outer *outer);
/* plane_entry_hash: of an entry with this root in the place of its own. */
struct hash plane_entry_hash(const struct entry *entry, const struct hash *root);
struct coded plane_encode(const float *values);
struct signature plane_sign(const struct identity *id, const struct hash *hash);
/* plane_take: what a transport does before a machine sees a message: hash and signatures. */
int plane_take(const struct world *world, struct parcel *parcel);
/* plane_leaf: a leaf of the state that a node adopts comes, or does not. */
void plane_leaf(struct world *world, uint32_t node, uint32_t job);
void plane_free(struct parcel *parcel);
void plane_record_init(struct tracker_record *record, uint32_t slice_count);
void plane_record_copy(struct tracker_record *to, const struct tracker_record *from,
                       uint32_t slice_count);
void plane_record_finish(struct tracker_record *record);

/* The oracles (oracle.c). */
void oracle_append(struct world *world, const struct entry *entry);
void oracle_applied(struct world *world, uint32_t node, const struct hash *root);
uint32_t oracle_behind(const struct world *world); /* a member that is on an old root, or 0 */

#endif
