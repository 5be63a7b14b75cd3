/* preflight: estimates the memory, time, disk space and bandwidth that a swarm member needs, and
 * whether this machine has them, before anything is reserved. */
#ifndef SKEP_SWARM_SETUP_PREFLIGHT_H
#define SKEP_SWARM_SETUP_PREFLIGHT_H

#include "runtime/session/disk_budget.h"
#include "runtime/session/remedies.h"
#include "runtime/swarm_setup/swarm_setup.h"

/* The measured link to the tracker; 0: not measured. */
struct fit_link {
    double round_trip_s;                     /* round-trip time to the tracker in seconds */
    double up_bytes_per_s, down_bytes_per_s; /* upload and download rate */
};

/* Memory that the member needs and has in one space. With unified memory, the device space includes
 * all the others. */
struct fit_space {
    enum space space;        /* the kind of memory */
    uint64_t planned_bytes;  /* size of the arena */
    uint64_t swarm_bytes;    /* part of planned_bytes: resident extents for the swarm */
    uint64_t declared_bytes; /* declared use of drivers, libraries and ZeroMQ */
    uint64_t capacity_bytes; /* bytes that the machine has available */
};

/* Bytes that one member sends and receives in a round of `members` members that own equal shares of
 * the slices. E is the encoded size of all slices.
 * up    contributions to the other owners, E (1 - 1/members), and the results of its own slices to
 *       every other member, E/members (members - 1)
 * down  as many bytes as up */
struct fit_exchange {
    int members;                   /* number of members in the exchange, all of which are voters */
    uint64_t up_bytes, down_bytes; /* bytes that a member sends and receives in a round */
    /* Probability that audits find an owner that signs false sums, in one round and in ten. */
    double found_in_round, found_in_10_rounds;
};

struct fit_report { /* whether and how fast this machine can be a member */
    const struct session *session;
    const struct swarm_terms *terms;
    struct fit_link link;                 /* measured connection to the swarm */
    struct fit_space spaces[SPACE_COUNT]; /* [space_count]: needed and available bytes */
    int space_count;                      /* number of kinds of memory */
    struct disk_budget disk;              /* needed and available disk space */
    struct fit_exchange exchange;         /* traffic of one exchange */
    double step_s;                        /* duration of an inner step, estimated from the target */
    double train_s;                       /* duration of the inner steps of a round */
    double exchange_s;   /* duration of the exchange of a round; 0: unknown rates */
    double round_s;      /* duration of a round: train_s + exchange_s */
    uint64_t join_bytes; /* size of the outer state, which a joiner receives */
    /* upload and download rate with which the exchange takes 1/10 of a round */
    double tenth_of_round_bytes_per_s;
    /* bytes that a member sends and receives in a day of rounds */
    double up_bytes_per_day, down_bytes_per_day;
    struct fault misfit;                  /* why the member does not fit; status OK: it fits */
    struct remedy remedies[REMEDIES_MAX]; /* changes that would make memory suffice */
    int remedy_count;                     /* number of remedies */
};

/* fit_report_make: compiles the training program of a session that member_session_read has read,
 * and computes the report.
 * members  number of members in a round; 0: the maximum of the swarm
 * memory   the program is in the session's region
 * errors   STATUS_FAILED when a proof of a plan fails. A member that does not fit is not an error
 *          here: report->misfit is then STATUS_FIT */
MUST_CHECK enum status fit_report_make(struct session *session, const struct swarm_terms *terms,
                                       const struct fit_link *link, int members,
                                       struct fit_report *report, struct fault *fault);

#endif
