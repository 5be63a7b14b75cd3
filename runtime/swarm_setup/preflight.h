/* preflight: whether a machine can be a member of a swarm, and the memory, time, disk space and
 * bandwidth that a member needs, before anything is reserved. */
#ifndef SKEP_SWARM_SETUP_PREFLIGHT_H
#define SKEP_SWARM_SETUP_PREFLIGHT_H

#include "runtime/session/disk_budget.h"
#include "runtime/session/remedies.h"
#include "runtime/swarm_setup/swarm_setup.h"

/* The measured link to the tracker; 0: not measured. */
struct fit_link {
    double round_trip_s;
    double up_bytes_per_s, down_bytes_per_s;
};

/* One space that the plan uses. With unified memory the device's has everything. */
struct fit_space {
    enum space space;
    uint64_t planned_bytes;  /* the arena */
    uint64_t swarm_bytes;    /* of these: resident extents for the swarm */
    uint64_t declared_bytes; /* declared use of drivers, libraries and ZeroMQ */
    uint64_t capacity_bytes;
};

/* Bytes of one member in a round of `members` with equal shares of the slices, E bytes encoded:
 *   up    its contribution to the other owners, E (1 - 1/members), and the results of its own
 *         slices to every other member, E/members (members - 1)
 *   down  the same, received */
struct fit_exchange {
    int members;
    uint64_t up_bytes, down_bytes;
};

struct fit_report {
    const struct session *session;
    const struct swarm_terms *terms;
    struct fit_link link;
    struct fit_space spaces[SPACE_COUNT];
    int space_count;
    struct disk_budget disk;
    struct fit_exchange exchange;
    double step_s;            /* of an inner step, estimated from the target's speeds */
    double train_s;           /* of a round's inner steps */
    double exchange_s;        /* by the link or limits.up and limits.down; 0: none is known */
    double round_s;           /* the sum: they do not overlap */
    uint64_t join_bytes;      /* the outer state, received once */
    double tenth_bytes_per_s; /* in each direction: then the exchange is a tenth of a round */
    double up_bytes_a_day, down_bytes_a_day; /* of consecutive rounds */
    struct fault misfit;                     /* status OK: the member fits */
    struct remedy remedies[REMEDIES_MAX];    /* when memory is short */
    int remedy_count;
};

/* fit_report_make: the report on a session that member_session_read has read; compiles its program
 * for training.
 * members  in a round; 0: the maximum of the swarm
 * memory   the program in the session's region
 * errors   STATUS_FAILED when a proof of a plan fails. A member that does not fit is not an error
 *          here: report->misfit is then STATUS_FIT */
MUST_CHECK enum status fit_report_make(struct session *session, const struct swarm_terms *terms,
                                       const struct fit_link *link, int members,
                                       struct fit_report *report, struct fault *fault);

#endif
