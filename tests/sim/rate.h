/* rate: runs of a steady swarm, in which some members are slow or lie, for comparison with the same
 * swarm in which these members never start. */
#ifndef SKEP_TESTS_SIM_RATE_H
#define SKEP_TESTS_SIM_RATE_H

#include "tests/sim/fields.h"
#include "tests/sim/world.h"

/* What is wrong with the faulty members. */
struct fault_case {
    enum hostility hostility;
    const struct field *field; /* of HOSTILE_FIELD, with its change */
    enum field_change change;
    uint32_t uplink_divisor; /* Their uplink has this fraction of the others' rate. */
    uint32_t slowness;       /* factor of their training time */
};

struct rate_run {
    struct fault_case fault;
    uint32_t members; /* including the faulty ones */
    uint32_t faulty;
    uint32_t rounds; /* commits after which the run ends */
    uint64_t seed;
    bool is_clean; /* The faulty members never start. */
    int64_t limit_ms;
};

struct rate_figures {
    int64_t first_ms; /* time of the first rounds, whose deadlines come from the settings */
    int64_t ms;       /* time after them; all other figures are of this time */
    uint32_t commits;
    uint32_t aborts;
    double owned;            /* most slices of one faulty member, relative to an equal share */
    struct swarm_timing max; /* longest deadline of each kind */
};

/* A run with faulty members and the same one without them. */
struct rate_pair {
    struct rate_figures faulty, clean;
    double commits;  /* per hour, relative to the clean run */
    double deadline; /* longest deadline, relative to the clean run's; the largest of all kinds */
};

/* rate_run_clean, rate_run_faulty: the two runs of a pair, in this order; cases with the same
 * members share the clean one. */
bool rate_run_clean(struct world *world, const struct rate_run *run, struct rate_pair *pair);
bool rate_run_faulty(struct world *world, const struct rate_run *run, struct rate_pair *pair);
double rate_commits_per_hour(const struct rate_figures *figures);

/* rate_find_case: the case of a name: "uplink/20", "compute/5", the name of a lie, or
 * KIND.FIELD=CHANGE; false: none. rate_case_count, rate_case_name: all of them. */
bool rate_find_case(const char *name, struct fault_case *fault);
uint32_t rate_case_count(void);
const char *rate_case_name(uint32_t index, char *text, size_t capacity);

#endif
