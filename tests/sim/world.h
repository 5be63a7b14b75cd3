/* world: a simulated swarm: the real machines under a virtual clock and a seeded network.
 *
 *     test_sim   seeds, counts, mistakes
 *     schedule   the course of a schedule: its swarm, its faults, its end
 *     world      clock, heap of happenings, starts and stops of nodes
 *     faults     crashes, pauses, partitions and full disks of a schedule
 *     post       messages: signatures, forged bytes, the checks of a transport
 *     parcel     copies of messages, and the size of each on the wire
 *     net        links: rates, queues, delay, loss, nodes that cannot connect to each other
 *     measure    the times and rates that a member measures and reports
 *     lies       what hostile members do to their messages, bytes and contributions
 *     theft      hostile members that declare the contributions of others
 *     fields     every field of a member's messages, and false values for it
 *     training   data: the contribution of a member
 *     plane      data: results, roots, adoption
 *     check      data: sketches, and checks of sums
 *     values     data: what a slice contains, by toy arithmetic or the program's own
 *     chain      a member's copy of the ledger, by the real code
 *     equivocate a tracker that shows members different messages
 *     keys       signatures: a hash in place of Ed25519
 *     store      the tracker's disk
 *     oracle     what must hold; oracle_sums: of results and steps */
#ifndef SKEP_TESTS_SIM_WORLD_H
#define SKEP_TESTS_SIM_WORLD_H

#include "base/check.h"
#include "base/text.h"
#include "kernels/sketch.h"
#include "kernels/sparse.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/member/uplink.h"
#include "runtime/swarm/member_machine/member_machine.h"
#include "runtime/swarm/tracker_machine/tracker_machine.h"

/* A build for larger swarms, or one that computes as the program does (SIM_REAL), defines these. */
#ifndef SIM_MEMBERS
#define SIM_MEMBERS        16
#define SIM_SLICES         32
#define SIM_STORE_ROUNDS   10
#define SIM_SLICE_ELEMENTS 4
#endif

enum {
    /* Nodes 0 and 1. Node 1 is a second process on the store of node 0, or has a copy of it. */
    TRACKERS = 2,
    MEMBERS_MOST = SIM_MEMBERS,
    NODES = TRACKERS + MEMBERS_MOST,
    SLICES_MOST = SIM_SLICES,
    SLICE_ELEMENTS = SIM_SLICE_ELEMENTS,
    ELEMENTS_MOST = SLICES_MOST * SLICE_ELEMENTS,
    STORE_ROUNDS = SIM_STORE_ROUNDS, /* rounds whose results a node keeps */
    STORE_ROWS = STORE_ROUNDS * SLICES_MOST,
    TRUTHS = 8192,     /* contributions made in one schedule */
    SUMS_MOST = 16384, /* results made in one schedule */
    LEDGER_MOST = 1024,
    POOL_MOST = 2 * LEDGER_MOST, /* different entries that members received */
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

/* What a lying tracker shows to some members (equivocate.c), from the second round on. */
enum equivocation {
    EQUIVOCATE_NOT,
    EQUIVOCATE_OPEN,     /* an OPEN with another deadline */
    EQUIVOCATE_TABLE,    /* tables with other owners */
    EQUIVOCATE_PROPOSE,  /* proposals without one of the contributors */
    EQUIVOCATE_ABORT,    /* the ABORT of a round that the others see committed */
    EQUIVOCATE_WITHHOLD, /* one commit, whose votes its own machine never gets; no other entry */
    EQUIVOCATIONS
};

/* The lie of a member, which it tells all the time (lies.c). */
enum hostility {
    HONEST,
    /* Values. */
    HOSTILE_NAN,    /* contributes values that are not finite */
    HOSTILE_HUGE,   /* contributes finite values far beyond any other's */
    HOSTILE_SCALED, /* contributes a thousand times its values */
    HOSTILE_SIGN,   /* contributes its values with the opposite sign */
    HOSTILE_REPLAY, /* contributes its values of an earlier round */
    HOSTILE_PATCH,  /* the same, but for one slice */
    HOSTILE_COPY,   /* contributes another member's values of an earlier round, but for one slice */
    HOSTILE_LATE,   /* declares late, another member's contribution to the same round if it can */
    HOSTILE_ZEROS,  /* contributes zeros, with all tokens */
    HOSTILE_TOKENS, /* declares more tokens than any member could train */
    HOSTILE_SUM,    /* adds to what it sums */
    HOSTILE_SWAP,   /* adds other values than it declared to its sums, and sketches these */
    HOSTILE_SKETCH, /* signs sketches of other values than it contributes */
    HOSTILE_ACCUSE, /* says of every proposal that a sum is wrong */
    HOSTILE_HIDE,   /* sends no sketches */
    /* Bytes. */
    HOSTILE_DAMAGE,   /* sends contributions that differ from their declared hash */
    HOSTILE_UNLIKE,   /* sends different contributions to different owners */
    HOSTILE_WITHHOLD, /* sends no contributions */
    HOSTILE_DRIP,     /* sends a contribution only after 0.6 of the exchange deadline */
    HOSTILE_TRICKLE,  /* sends slices at a thousandth of its rate */
    HOSTILE_MUTE,     /* sends no results */
    HOSTILE_CLAIM,    /* claims to have all results, and sends none */
    HOSTILE_IDLE,     /* never sums the slices that it owns */
    HOSTILE_TOGGLE,   /* the same, while one bit of its reports changes all the time */
    HOSTILE_FAIL_3,   /* does not sum the slices that it owns in every third round */
    HOSTILE_FAIL_4,   /* in every fourth round */
    HOSTILE_FAIL_5,   /* in every fifth round */
    HOSTILE_LOST_3,   /* sends nothing in the exchange of every third round */
    HOSTILE_LOST_4,   /* of every fourth round */
    HOSTILE_LOST_5,   /* of every fifth round */
    HOSTILE_WITHDRAW, /* withdraws in every second report what it reported before */
    /* Claims. */
    HOSTILE_VOTE,      /* votes for a root that is not the entry's */
    HOSTILE_LINKS,     /* claims that no other member answers it */
    HOSTILE_RATE_ZERO, /* claims an upload rate of 0 */
    HOSTILE_RATE_MAX,  /* claims the highest upload rate that the message can carry */
    HOSTILE_DAY,       /* claims that a step takes a day */
    HOSTILE_STALE,     /* repeats the round, version and roots of its reports of the last round */
    HOSTILE_RETURNING, /* claims to fetch the state in two of four rounds */
    HOSTILE_FIELD,     /* gives one field of its messages a false value: world->false_field */
    HOSTILITIES
};

/* An encoded slice: the program's encoding, of at most 16 bits an element; or the toy codec's scale
 * and steps. */
#ifdef SIM_REAL
struct coded {
    uint8_t bytes[2 * SLICE_ELEMENTS];
};
struct page_sketch {
    uint8_t bytes[SKETCH_BYTES];
};
#else
struct coded {
    float scale;
    int8_t steps[SLICE_ELEMENTS];
};
struct page_sketch {
    struct coded values; /* a toy sketch: the values themselves */
};
#endif

struct outer {
    uint32_t round;
    struct hash root; /* of values and momentum; zero: not computed */
    float values[ELEMENTS_MOST];
    float momentum[ELEMENTS_MOST];
};

/* A contribution as it was made, for its maker and for the oracle. */
struct truth {
    uint32_t round;
    uint32_t node;
    uint32_t start; /* of the node */
    uint32_t store; /* of its tracker */
    struct coded slices[SLICES_MOST];
    double norms[SLICES_MOST];          /* of the slices, as declared */
    struct hash nodes[3 * SLICES_MOST]; /* the tree over the slices */
    float residual[ELEMENTS_MOST];      /* what the encoding left out */
    float meant[ELEMENTS_MOST];         /* with lists: what was to be encoded */
};

/* A result as its owner made it. */
struct summed {
    uint32_t round;
    uint32_t slice;
    uint32_t epoch;
    uint32_t owner; /* node */
    uint32_t start; /* of the node */
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
    struct hash hash;           /* of `coded` */
    struct coded coded;
};

/* A message with copies of all that it points to (NULL: it has none), and the bytes that follow
 * it. */
struct parcel {
    struct message message;
    struct coded coded;
    struct entry *entry;
    struct round_table *table;
    struct slice_proof proof; /* of a CONTRIBUTION */
    void *array;              /* slices of the entry, or the message's reports */
    uint64_t *holders;
    struct slice_plan *plans;
    uint32_t awaited_ms[SWARM_MEMBERS_MAX]; /* of a REPORT */
    struct page_sketch *sketches;           /* of a SKETCHES message: of all slices */
    uint32_t sender_start; /* start of the sender's node when it sent the message */
    int64_t last_byte_us;  /* when the last byte can arrive, if the receiver's downlink is free */
    uint64_t bytes;        /* on the wire; 0: links have no rates */
};

enum {
    HAPPEN_TICK,
    HAPPEN_ARRIVAL, /* the first byte of a message arrives at the receiver's downlink */
    HAPPEN_PARCEL,  /* the message is complete */
    HAPPEN_UPLINK,  /* the uplink can send the next slice */
    HAPPEN_PING,    /* at a tracker */
    HAPPEN_PONG,    /* at the member that sent the ping */
    HAPPEN_REQUEST, /* of a member, for a page of the ledger, at its tracker */
    HAPPEN_PAGE,    /* of the ledger, at a member */
    HAPPEN_EVENT,
    HAPPEN_WRITTEN,
    HAPPEN_LEAF,
    HAPPEN_FAULT
};

struct happening {
    int64_t at;
    uint64_t order;
    int kind;
    uint32_t node;
    uint32_t start; /* of the node; another one does not see it */
    struct parcel *parcel;
    struct event event;
    struct tracker_record *record; /* of a write */
    int is_appending;
    int fault;
    uint32_t other; /* a node that a fault or a ping concerns too */
    uint8_t *page;  /* payload of a page of the ledger */
    size_t page_bytes;
    int64_t lasts; /* duration of a fault; of a ping, the time at which it was sent */
};

/* One direction of a node's link. Control messages have connections of their own and share the
 * link with bulk data, so that they never wait for it; bulk data waits for them. */
struct pipe {
    uint64_t rate; /* bytes a second; 0: no limit */
    int64_t control_free_us;
    int64_t bulk_free_us;
};

/* The link of a node, with the real queues of its bulk data. */
struct node_link {
    struct pipe up;
    struct pipe down;
    bool is_dial_only; /* The node accepts no connections, as behind a NAT. */
    struct outbox contributions;
    struct outbox results;
    struct outbox last_results;  /* for members that no owner waits for */
    struct outbox_queue *queues; /* memory of all; NULL: the node is down, or links have no rates */
    bool is_flush_planned;       /* A HAPPEN_UPLINK is on its way. */
    uint32_t arriving[NODES];    /* number of slices that are arriving from each node */
};

struct field;
struct field_memory;
struct theft;

/* Times and rates that a member measures, as the real process does. */
struct measures {
    struct recent_values steps;       /* ms, per step */
    struct recent_values round_trips; /* ms */
    struct recent_values transfers;   /* ms from a TABLE to the last result */
    struct recent_values rates;       /* KiB/s: best second of each exchange */
    int64_t pinged_ms;                /* send time of the unanswered ping; 0: none */
    uint32_t round;                   /* round of the exchange that is measured; 0: none */
    int64_t table_ms, last_result_ms;
    int64_t window_us; /* begin of the second in which bytes are counted */
    uint64_t window_bytes;
    uint32_t best_kib_s;
};

/* What a tracker's disk has: the durable record, and the ledger as it was appended. */
struct tracker_store {
    struct tracker_record record;
    struct ledger_chain chain; /* of the entries of the ledger, which it verified */
    uint32_t place;            /* of its file */
    uint32_t ledger_count;
    struct entry ledger[LEDGER_MOST];
    struct entry_slice ledger_slices[LEDGER_MOST][SLICES_MOST];
    int is_undone[LEDGER_MOST]; /* by a rollback */
};

/* Training of a round. */
struct sim_training {
    struct action action; /* job of the machine, with its own ranges */
    struct sample_range ranges[SWARM_SEAT_RANGES_MAX];
    int64_t began_ms;
    uint64_t sample_ms;
    uint64_t samples; /* that it trains on */
    int64_t ends_ms;  /* when the machine gets the contribution */
    uint32_t truth;   /* index of the contribution in world.truths */
};

struct node {
    void *machine;  /* struct tracker or struct member; NULL: down */
    uint32_t store; /* index of a tracker's store, or of the store of a member's tracker */
    uint32_t start;
    int has_left;
    bool is_redirected;  /* by the operator, to the copy of the store that it knows */
    bool has_moved;      /* from one copy of the store to the other */
    int is_lost;         /* never starts again */
    int64_t waits_since; /* since when a tracker has said that a fork is possible */
    enum hostility hostility;
    int64_t paused_until;
    int64_t disk_full_until;
    int64_t clock_ahead;          /* of a tracker's clock */
    int64_t slow;                 /* factor of its training time */
    struct sim_training training; /* its last one */
    /* Volatile: */
    struct member_chain *chain; /* of a running member */
    struct truth own;
    float feedback[ELEMENTS_MOST];
    struct coded slots[MEMBERS_MOST][CONTRIBUTION_SLOTS_PER_MEMBER];
    struct slice_proof slot_proofs[MEMBERS_MOST][CONTRIBUTION_SLOTS_PER_MEMBER];
    struct values *values; /* of a running member, with the real arithmetic */
    struct page_sketch own_sketches[SLICES_MOST];
    struct hash own_seed;                                   /* of the own sketches */
    struct page_sketch sketches[MEMBERS_MOST][SLICES_MOST]; /* by seat */
    uint32_t checked_round;                                 /* round of the newest check */
    uint64_t checked_silent;                                /* seats whose sketches it lacked */
    uint32_t suspected_slice;                     /* whose sum failed it; slice_count: none */
    struct message sketch_messages[MEMBERS_MOST]; /* by seat: with their hash and signature */
    struct node_link link;
    struct measures measures;
    struct field_memory *field_memory; /* of a HOSTILE_FIELD member; NULL at first */
    struct truth replayed; /* of a HOSTILE_REPLAY or HOSTILE_PATCH member: its first contribution */
    struct theft *theft;   /* of a HOSTILE_COPY or HOSTILE_LATE member; NULL at first */
    struct message last_report; /* of a HOSTILE_STALE member, from the last round */
    int64_t drip_at;            /* A HOSTILE_DRIP member sends nothing before. */
    struct action adopting;     /* job 0: nothing */
    struct hash adopt_root;
    uint32_t adopting_round;
    uint32_t adopting_commits;
    uint32_t leaves; /* of it that have come */
    /* Durable: */
    uint16_t copy[LEDGER_MOST]; /* of the ledger: indices of world->pool */
    uint32_t copy_count;
    struct lease lease; /* that it gave with its last vote */
    struct outer outer;
    struct outer snapshot;
    uint32_t applied; /* commits since the snapshot */
    int64_t since;    /* when the outer state came to stand */
    struct stored results[STORE_ROWS];
    uint32_t results_next;
};

struct world {
    uint64_t key; /* of everything random */
    uint64_t drawn;
    enum mistake mistake;
    enum codec codec;           /* of the real arithmetic */
    struct sparse_shape sparse; /* the same, in place of `codec`; keep 0: none */
    uint32_t member_count;
    uint32_t first_guest; /* node of the first guest; 0: all members vote */
    uint32_t slice_count;
    int64_t now;
    struct swarm_timing timing; /* of the tracker; every node ticks at its heartbeat */
    uint64_t order;
    struct tracker_settings settings;
    struct node nodes[NODES];
    int64_t cut_until[NODES][NODES];
    int64_t answered[NODES][NODES]; /* when the other one last did, as seen at heartbeats */
    int is_calm;                    /* no bytes are damaged, and nobody mishears */
    bool is_measuring;              /* Members report what they measure, not random values. */
    bool is_steady;                 /* Times of training and delays are constant. */
    uint32_t sample_ms;   /* in a steady world: time of a sample, if the member is not slow */
    float agreement;      /* what all samples have in common, as a part of their other values */
    uint64_t slice_bytes; /* size of an encoded slice on the wire; 0: links have no rates */
    double loss;
    int64_t delay;
    struct happening **heap;
    uint32_t heap_count;
    uint32_t heap_capacity;
    struct action *actions;
    uint32_t truth_count;
    uint32_t sum_count;
    uint32_t pool_count;
    uint32_t applied_count; /* commits that members applied */
    struct key_pairs node_keys[NODES];
    bool has_rosters;           /* The operator changes the roster. */
    struct roster_epoch roster; /* the newest one */
    uint64_t excluded;          /* nodes that it does not name */
    enum equivocation equivocation;
    uint64_t deceived;     /* nodes that a lying tracker deceives */
    uint32_t lies_told;    /* messages that it changed */
    uint32_t held_count;   /* votes that it withholds */
    uint64_t held_number;  /* of the proposal */
    uint32_t detections;   /* members that rejected its ledger */
    uint32_t copied_count; /* entries of the ledger when it was copied; 0: not yet */
    bool will_copy;        /* Node 1 starts only once it has a copy of the store. */
    bool may_fork;         /* The copies of a store may both commit, but use no sample twice. */
    int64_t retired_ms;    /* when the operator stopped one of two copies */
    uint32_t orders;       /* of the operator, to continue */
    uint32_t commits;
    uint32_t aborts;
    uint32_t rollbacks;
    uint32_t suspended; /* suspensions for any reason */
    uint32_t named;     /* of these, for false statements */
    uint32_t swapped;   /* committed results with swapped values of their owner */
    uint32_t salvages;  /* committed slices of a risen epoch */
    uint32_t partial;   /* committed slices that lack a contributor of another slice */
    uint32_t adoptions;
    uint32_t rechecks; /* audits of slices whose sums were right */
    uint32_t replays;  /* commits heard that are not the newest */
    uint64_t happenings;
    bool may_stall;                       /* Hostile members may keep rounds from ending. */
    const struct field *false_field;      /* field of all HOSTILE_FIELD members */
    int false_change;                     /* enum field_change */
    float feedback[NODES][ELEMENTS_MOST]; /* as the ledger has it advance */
    char failure[400];                    /* what an oracle found; empty: nothing */
    uint8_t used[SAMPLES_MOST];           /* samples of committed rounds that stand */
    /* From here on not cleared for a schedule: its count says how much is valid. */
    struct truth truths[TRUTHS];
    struct summed sums[SUMS_MOST];
    struct tracker_store stores[TRACKERS]; /* The second one is valid once it is a copy. */
    struct hash applied[LEDGER_MOST];      /* by number of commits: the root that members applied */
    struct entry held;                     /* proposal of a lying tracker, with its votes */
    struct entry_slice held_slices[SLICES_MOST];
    struct entry pool[POOL_MOST];
    struct entry_slice pool_slices[POOL_MOST][SLICES_MOST];
    bool needs_leases; /* Members give leases with their votes. */
    /* NULL, or shown every action as the machine of `node` gives it; `observed` is its own. */
    void (*observe)(struct world *world, uint32_t node, const struct action *action);
    void *observed;
};

/* node_is_in: whether a set of the first 64 nodes has this one. */
static inline bool node_is_in(uint64_t nodes, uint32_t node) {
    return node < 64 && (nodes >> node & 1) != 0;
}

/* world_new, world_delete: the memory of a world, all zero. It is reserved as a whole, and takes
 * only the pages that its schedules write: malloc would fill all of it when it looks for reads of
 * uninitialized memory, as in `meson test`. With large slices that is 7 GiB. */
struct world *world_new(void);
void world_delete(struct world *world);

/* world_run: one schedule; 1 if every oracle held, else world->failure says which did not. */
int world_run(struct world *world, uint64_t seed, enum mistake mistake);

/* world_run_pair: two members who do not reach each other from some moment of a round on, and no
 * other fault: rounds go on at once, with everybody in them, and nobody takes the state anew. */
int world_run_pair(struct world *world, uint64_t seed);

/* world_run_copied: a schedule of faults in which another tracker starts with a copy of the store.
 * Each has about half of the members, and some move to the other one, once or several times. After
 * the copy at most one of the two trackers commits rounds, unless `may_fork`, and no sample is used
 * twice. With leases, the copy is made after the first commit, no disk is lost, and if the operator
 * ordered one of the two to continue, rounds go on. Otherwise nothing is required to progress.
 * world_commits_after_copy: the commits of both after the copy was made. */
int world_run_copied(struct world *world, uint64_t seed, bool may_fork);
uint32_t world_commits_after_copy(const struct world *world);

/* world_run_equivocal: a schedule of faults in which the tracker lies to some members. These and
 * the others never apply different states as the same commit. Nothing is required to progress. */
int world_run_equivocal(struct world *world, uint64_t seed, enum equivocation kind);

/* world_begin_steady: begin a schedule without faults in which nothing varies. The caller sets the
 * links, starts nodes, runs and ends it. */
struct steady_swarm {
    uint32_t members;
    uint32_t slices;
    uint64_t slice_bytes; /* 0: links have no rates */
    int64_t delay_ms;     /* of a message, one way */
    uint32_t samples;     /* of a seat and round */
    uint32_t sample_ms;
    float agreement; /* what all samples have in common, as a part of their other values */
};
void world_begin_steady(struct world *world, uint64_t seed, const struct steady_swarm *swarm);

/* The clock and the nodes (world.c).
 * world_run_until  Handle all happenings up to a time or a number of commits.
 * world_end        Free what a schedule allocated; 1 if every oracle held. */
uint64_t world_draw(struct world *world, uint64_t below);
struct happening *world_add(struct world *world, int kind, uint32_t node, int64_t delay);
void world_push(struct world *world, struct happening *happening);
void world_fail(struct world *world, const char *format, ...) PRINTF_LIKE(2, 3);
void world_start(struct world *world, uint32_t node);
void world_stop(struct world *world, uint32_t node);
void world_step(struct world *world, uint32_t node, const struct event *event,
                const struct parcel *parcel);
void world_run_until(struct world *world, int64_t until, uint32_t commits);
int world_end(struct world *world);

#endif
