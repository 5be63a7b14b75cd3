/* world: a simulated swarm: the real machines under a virtual clock and a seeded network.
 *
 *     test_sim   seeds, counts, mistakes
 *     world      clock, heap of happenings, starts and stops, the course of a schedule
 *     faults     what goes wrong in a schedule, and its end
 *     post       messages: copies, loss, delay, forgery, what a transport checks
 *     plane      data: toy codec, training, sums, roots, adoption, error feedback
 *     store      the tracker's disk
 *     oracle     what must hold */
#ifndef SKEP_TESTS_SIM_WORLD_H
#define SKEP_TESTS_SIM_WORLD_H

#include "base/check.h"
#include "base/text.h"
#include "runtime/swarm/protocol/member.h"
#include "runtime/swarm/protocol/tracker.h"

enum {
    TRACKERS = 2, /* nodes 0 and 1 */
    MEMBERS_MOST = 16,
    NODES = TRACKERS + MEMBERS_MOST,
    SLICES_MOST = 6,
    SLICE_ELEMENTS = 4,
    ELEMENTS_MOST = SLICES_MOST * SLICE_ELEMENTS,
    STORE_ROWS = 64,  /* results kept by a node */
    TRUTHS = 8192,    /* contributions made in one schedule */
    SUMS_MOST = 8192, /* results made in one schedule */
    LEDGER_MOST = 512,
    SAMPLES_MOST = 1 << 18,
    SNAPSHOT_COMMITS = 3, /* from one snapshot to the next */
};

/* Deliberate mistakes of the data plane and the tracker's disk. Those of the machines themselves
 * are planted in a copy of their source: see meson.build. */
enum mistake {
    MISTAKE_NONE,
    MISTAKE_SUM_ORDER, /* an owner adds in descending seats */
    MISTAKE_FEEDBACK,  /* error feedback advances before a commit names the contribution */
    MISTAKE_FENCE,     /* a tracker of a lower incarnation may still write */
    MISTAKE_UNDURABLE, /* a write is said to be done before it is */
    MISTAKE_COUNT
};

/* What a member does wrong on purpose, all the time. */
enum hostility {
    HONEST,
    HOSTILE_NAN,    /* contributes what is not finite */
    HOSTILE_HUGE,   /* contributes finite bytes far beyond any other's */
    HOSTILE_REPLAY, /* sends an earlier round's bytes */
    HOSTILE_COPY,   /* contributes what another contributed before */
    HOSTILE_UNLIKE, /* sends unlike bytes to unlike owners */
    HOSTILE_SUM,    /* sums wrongly what it owns */
    HOSTILE_MUTE,   /* keeps the results that it makes to itself */
    HOSTILE_VOTE,   /* votes for a root that is not the entry's */
    HOSTILE_TOKENS, /* declares more tokens than anybody could train */
    HOSTILE_LINKS,  /* says that nobody answers it */
    HOSTILITIES
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

/* A contribution as it was made, for its maker and for the oracle. */
struct truth {
    uint32_t round;
    uint32_t node;
    uint32_t start; /* of the node */
    struct coded slices[SLICES_MOST];
    float residual[ELEMENTS_MOST]; /* what the encoding left out */
};

/* A result as its owner made it. */
struct summed {
    uint32_t round;
    uint32_t slice;
    uint32_t epoch;
    uint32_t owner; /* node */
    uint64_t contributors;
    struct hash hash;
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
    int is_lost; /* never starts again */
    enum hostility hostility;
    int64_t paused_until;
    int64_t disk_full_until;
    int64_t clock_ahead; /* of a tracker's clock */
    int64_t slow;        /* factor of its training time */
    /* Volatile: */
    struct truth own;
    float feedback[ELEMENTS_MOST];
    struct coded slots[MEMBERS_MOST][CONTRIBUTION_SLOTS_PER_MEMBER];
    struct action adopting; /* job 0: nothing */
    struct hash adopt_root;
    uint32_t leaves; /* of it that have come */
    /* Durable: */
    struct outer outer;
    struct outer snapshot;
    uint32_t applied; /* commits since the snapshot */
    int64_t since;    /* when the outer state came to stand */
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
    int64_t heartbeat_ms;
    uint64_t order;
    struct tracker_settings settings;
    struct tracker_record record; /* durable */
    struct node nodes[NODES];
    int64_t cut_until[NODES][NODES];
    int64_t answered[NODES][NODES]; /* when the other one last did, as seen at heartbeats */
    int is_calm;                    /* no bytes are damaged, and nobody mishears */
    double loss;
    int64_t delay;
    struct happening **heap;
    uint32_t heap_count;
    uint32_t heap_capacity;
    struct action *actions;
    uint32_t truth_count;
    uint32_t sum_count;
    uint32_t ledger_count;
    uint32_t commits;
    uint32_t aborts;
    uint32_t rollbacks;
    uint32_t salvages; /* committed slices of a risen epoch */
    uint32_t partial;  /* committed slices that lack a contributor of another slice */
    uint32_t adoptions;
    uint32_t replays; /* commits heard that are not the newest */
    uint64_t happenings;
    float feedback[NODES][ELEMENTS_MOST]; /* as the ledger has it advance */
    char failure[200];                    /* what an oracle found; empty: nothing */
    uint8_t used[SAMPLES_MOST];           /* samples of committed rounds that stand */
    /* From here on not cleared for a schedule: its count says how much is valid. */
    struct truth truths[TRUTHS];
    struct summed sums[SUMS_MOST];
    struct entry ledger[LEDGER_MOST];
    struct entry_slice ledger_slices[LEDGER_MOST][SLICES_MOST];
    int is_undone[LEDGER_MOST]; /* by a rollback */
    /* NULL, or shown every action as the machine of `node` gives it; `observed` is its own. */
    void (*observe)(struct world *world, uint32_t node, const struct action *action);
    void *observed;
};

/* world_run: one schedule; 1 if every oracle held, else world->failure says which did not. */
int world_run(struct world *world, uint64_t seed, enum mistake mistake);

/* world_run_pair: two members who do not reach each other from some moment of a round on, and no
 * other fault: rounds go on at once, with everybody in them, and nobody takes the state anew. */
int world_run_pair(struct world *world, uint64_t seed);

/* The network and the clock (world.c). */
uint64_t world_draw(struct world *world, uint64_t below);
struct happening *world_add(struct world *world, int kind, uint32_t node, int64_t delay);
void world_fail(struct world *world, const char *format, ...) PRINTF_LIKE(2, 3);
void world_start(struct world *world, uint32_t node);
void world_stop(struct world *world, uint32_t node);
void world_step(struct world *world, uint32_t node, const struct event *event,
                const struct parcel *parcel);

/* What goes wrong (faults.c). */
enum { FAULTS_MS = 8000 /* faults happen up to here */ };
void faults_plan(struct world *world);
void faults_happen(struct world *world, const struct happening *happening);
void faults_heal(struct world *world);

/* Messages (post.c).
 * post_send   what a node says, through the network
 * post_take   what a transport does before a machine sees a message; 0: it drops it */
void post_send(struct world *world, uint32_t from, const struct action *action);
int post_take(struct parcel *parcel);
void post_free(struct parcel *parcel);
struct signature post_sign(const struct identity *id, const struct hash *hash);
struct hash post_result_hash(const struct message *message);

/* The data plane (plane.c): do a machine's actions. `parcel` is the one being handled, or NULL.
 * plane_leaf    a leaf of the state that a node adopts comes, or does not
 * plane_stored  the results of the newest round on disk, as reports; their round */
void plane_act(struct world *world, uint32_t node, const struct actions *actions,
               const struct parcel *parcel);
void plane_leaf(struct world *world, uint32_t node, uint32_t job);
uint32_t plane_stored(const struct world *world, const struct node *node,
                      struct slice_report *reports);
struct stored *plane_find(struct node *node, uint32_t round, uint32_t slice,
                          const struct hash *hash);
struct hash plane_root(const struct world *world, const struct outer *outer);
struct coded plane_encode(const float *values);
int plane_is_sound(const struct coded *coded);
/* plane_entry_hash: of an entry with this root in the place of its own. */
struct hash plane_entry_hash(const struct entry *entry, const struct hash *root);

/* The tracker's disk (store.c). */
void store_begin(struct world *world);
void store_finish(struct world *world);
void store_transaction(struct world *world, uint32_t node, const struct action *action);
void store_written(struct world *world, struct happening *happening);
void store_free(struct tracker_record *record);

/* The oracles (oracle.c).
 * oracle_append    an entry is durable
 * oracle_applied   a member stands on a root, by an entry or by adopting it (0)
 * oracle_trained   a member is about to encode with its feedback
 * oracle_restarted a member forgets its feedback
 * oracle_behind    a member that is on an old root, or 0 */
void oracle_append(struct world *world, const struct entry *entry);
void oracle_applied(struct world *world, uint32_t node, const struct hash *root, int is_adopted);
void oracle_trained(struct world *world, uint32_t node);
void oracle_restarted(struct world *world, uint32_t node);
uint32_t oracle_behind(const struct world *world);

#endif
