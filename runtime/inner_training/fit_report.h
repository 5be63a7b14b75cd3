/* fit_report: whether a machine can be a member of a swarm, and what that will take of it: memory,
 * time, disk and network, before anything is reserved. */
#ifndef SKEP_INNER_TRAINING_FIT_REPORT_H
#define SKEP_INNER_TRAINING_FIT_REPORT_H

#include "base/text.h"
#include "runtime/session/disk.h"
#include "runtime/session/remedies.h"

enum { FIT_REPORT_BYTES = 32 * 1024 }; /* text and JSON stay below */

/* The way to the tracker, as measured; 0: not measured. */
struct fit_link {
    double round_trip_s;
    double up_bytes_per_s, down_bytes_per_s;
};

/* One space that the plan uses. Where all memory is one, the device's line has everything. */
struct fit_space {
    enum space space;
    uint64_t planned_bytes;  /* the arena */
    uint64_t swarm_bytes;    /* of these: what a member keeps beside the program */
    uint64_t declared_bytes; /* what drivers, libraries and ZeroMQ take */
    uint64_t capacity_bytes;
};

/* Bytes of one member in a round of `members` with equal shares of the slices, E bytes encoded:
 *   up    its contribution to the other owners, E (1 - 1/members), and the results of its own
 *         slices to every other member, E/members (members - 1)
 *   down  the mirror of it */
struct fit_exchange {
    int members;
    uint64_t up_bytes, down_bytes;
};

struct fit_report {
    const struct session *session;
    struct fit_link link;
    struct fit_space spaces[SPACE_COUNT];
    int space_count;
    struct disk_budget disk;
    struct fit_exchange exchange;
    double step_s;       /* of an inner step, estimated from the target's speeds */
    double train_s;      /* of a round's inner steps */
    double exchange_s;   /* on the link or within limits.up and limits.down; 0: neither is known */
    double round_s;      /* both together: they do not overlap */
    uint64_t join_bytes; /* the outer state, fetched once */
    double tenth_bytes_per_s; /* each way: at this rate the exchange is a tenth of a round */
    double up_bytes_a_day, down_bytes_a_day; /* rounds one after the other */
    struct fault misfit;                     /* status OK: it fits */
    struct remedy remedies[REMEDIES_MAX];    /* when memory is short */
    int remedy_count;
};

/* fit_report_make: of a session that session_read_swarm has read; its program is compiled for
 * training.
 * members  in a round; 0: as many as the swarm takes
 * memory   the program in the session's region
 * errors   STATUS_FAILED when a proof of a plan fails. That it does not fit is no error here:
 *          report->misfit is then STATUS_FIT with need and have */
MUST_CHECK enum status fit_report_make(struct session *session, const struct fit_link *link,
                                       int members, struct fit_report *report, struct fault *fault);

/* fit_report_text, fit_report_json: for people, and as one JSON document in one line. */
void fit_report_text(const struct fit_report *report, struct text *text);
void fit_report_json(const struct fit_report *report, struct text *text);

struct fit_report_request {
    struct fit_link link;
    int members; /* as fit_report_make takes them */
    bool json;
};

/* fit_report_write: all of it for a command: makes the report, and the text that is to be printed,
 * whether it fits or not.
 * text    a builder of FIT_REPORT_BYTES
 * errors  those of fit_report_make, nothing written; STATUS_FIT, which is exit 3, when it does not
 *         fit */
MUST_CHECK enum status fit_report_write(struct session *session,
                                        const struct fit_report_request *request, struct text *text,
                                        struct fault *fault);

#endif
