/* rate: runs of a steady swarm, in which some members are slow or lie, for comparison with the same
 * swarm in which these members never start. */
#ifndef SKEP_TESTS_SIM_RATE_H
#define SKEP_TESTS_SIM_RATE_H

#include "tests/sim/fields.h"
#include "tests/sim/world.h"

/* The swarm: rates are up to a tenth lower, and samples up to 3 % shorter. */
enum {
    RATE_SLICES = 32,
    RATE_SLICE_BYTES = 65536,
    RATE_UP_BYTES_S = 4 << 20,
    RATE_DOWN_BYTES_S = 20 << 20,
    RATE_DELAY_MS = 10,
    RATE_SAMPLES = 16, /* of a member and round */
    RATE_SAMPLE_MS = 50,
    RATE_LONG_SAMPLES = 4, /* the same time of training in longer steps */
    RATE_LONG_SAMPLE_MS = 200,
};

/* What is wrong with the faulty members. */
struct fault_case {
    enum hostility hostility;
    const struct field *field; /* of HOSTILE_FIELD, with its change */
    enum field_change change;
    uint32_t uplink_divisor; /* Their uplink has this fraction of the others' rate. */
    uint32_t slowness;       /* factor of their training time */
    bool is_dial_only;       /* They accept no connections. */
};

struct rate_run {
    struct fault_case fault;
    uint32_t members; /* including the faulty ones */
    uint32_t faulty;
    uint32_t rounds; /* commits after which the run ends */
    uint32_t kills;  /* the tracker is killed and restarted after so many commits; 0: never */
    uint64_t seed;
    bool has_long_steps; /* A sample takes a quarter of the time of the training of a round. */
    bool is_clean;       /* The faulty members never start. */
    int64_t limit_ms;
};

/* The deadlines of a swarm, also as an array. */
enum { DEADLINE_COUNT = sizeof(struct swarm_timing) / sizeof(uint32_t) };
union deadlines {
    struct swarm_timing timing;
    uint32_t values[DEADLINE_COUNT];
};

struct rate_figures {
    int64_t first_ms; /* time of the first rounds, in which no time is known */
    int64_t ms;       /* time after them; the figures are of this time, except suspensions */
    uint32_t commits;
    uint32_t aborts;
    uint32_t honest_named; /* suspensions of members that do not lie, slow ones included */
    uint32_t named_round;  /* round after which a liar is suspended first; 0: never */
    double owned;          /* most slices of one faulty member, relative to an equal share */
    double kept;           /* least part of the contributors of a slice that a close left */
    uint64_t delivered;    /* contributions of faulty members to slices, in all commits */
    union deadlines max;   /* longest deadline of each kind */
};

/* A run with faulty members and the same one without them. */
struct rate_pair {
    struct rate_figures faulty, clean;
    double commits;  /* per hour, relative to the clean run */
    double deadline; /* longest deadline, relative to the clean run's; the largest of all kinds */
    double start;    /* time of the first rounds, relative to the clean run's */
};

/* rate_run_clean, rate_run_faulty: the two runs of a pair, in this order; cases with the same
 * members share the clean one. False: an oracle failed (world->failure). */
bool rate_run_clean(struct world *world, const struct rate_run *run, struct rate_pair *pair);
bool rate_run_faulty(struct world *world, const struct rate_run *run, struct rate_pair *pair);
double rate_commits_per_hour(const struct rate_figures *figures);

/* rate_slices_per_commit: mean number of slices of a commit that a faulty member contributes to. */
double rate_slices_per_commit(const struct rate_run *run, const struct rate_figures *figures);

/* rate_print: one line about a pair of runs.
 * rate_check: whether it is within the bars that hold for every case. */
void rate_print(const char *name, const struct rate_run *run, const struct rate_pair *pair);
bool rate_check(const struct rate_pair *pair);

/* rate_find_case: the case of a name: "uplink/20", "compute/5", the name of a lie, or
 * KIND.FIELD=CHANGE; false: none. rate_case_count, rate_case_name: all of them. */
bool rate_find_case(const char *name, struct fault_case *fault);
uint32_t rate_case_count(void);
const char *rate_case_name(uint32_t index, char *text, size_t capacity);

#endif
