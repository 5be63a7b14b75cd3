/* inner_training: a member of a swarm, for `skep join`: from a join string to a trained model. The
 * calling thread is the compute thread: it trains, sums, votes, stores and applies as the network
 * thread (runtime/swarm/member) assigns it jobs.
 *
 *     member_run_read      identity, manifest, settings
 *     member_run_prepare   data, program, arena, first state, sockets; then seal
 *     member_run_execute   round after round, until the run's end or a request to stop
 *
 * All ranks of a member call these functions, and rank 0 acts for the member (lockstep.h). The
 * state folder holds what a restart needs, snapshots and the exported model. */
#ifndef SKEP_INNER_TRAINING_INNER_TRAINING_H
#define SKEP_INNER_TRAINING_INNER_TRAINING_H

#include "runtime/data/sample_assignment.h"
#include "runtime/inner_training/inner_weights.h"
#include "runtime/inner_training/ledger_copy.h"
#include "runtime/inner_training/round_record.h"
#include "runtime/session/compute_copies.h"
#include "runtime/swarm/member/mailbox.h"
#include "runtime/swarm/member/member_store.h"
#include "runtime/swarm_setup/member_session.h"
#include "runtime/train/trainer.h"

enum { STEP_TIMES_MAX = 15 /* recent steps, for their median time */ };

/* The command line. */
struct member_run_args {
    const char *swarm; /* NAME.skep or a join string */
    const char *identity;
    const char *listen, *public_address, *name; /* NULL: the defaults of member_loop_options */
    const char *const *overrides;
    int override_count;
};

/* The swarm that this process joins, and as which member. */
struct member_swarm {
    struct member_run_args args;
    struct key_pairs keys;
    struct manifest manifest;
    const char *subject; /* the manifest's file or the tracker's address, for messages */
    char *text;          /* of the manifest, from the tracker; NULL: `subject` is a file */
    size_t text_bytes;
    struct swarm_terms terms;
};

/* How far a member is: the round of its outer state, and its own training since then. */
struct training_position {
    uint32_t round;       /* whose results were applied last; 0: the genesis */
    uint32_t commits;     /* of the run up to that round */
    int64_t updates;      /* that the inner moments have seen */
    uint32_t saved_round; /* of the newest snapshot; 0: none */
    uint32_t saved_commits;
    uint32_t encoded_round; /* whose contribution was encoded from the inner weights; 0: none */
    int64_t inner_steps;    /* since the inner weights were equal to the outer ones */
    double loss_sum;        /* of these inner steps, over `loss_tokens` */
    int64_t loss_tokens;
};

/* The outer state, in memory and on disk. Used on rank 0 only. */
struct outer_state {
    struct replica replica;
    struct member_store store;
    bool store_is_open;
    struct ledger_copy ledger;
    struct round_record record;
    struct entry *entry;          /* scratch, with its slices */
    struct slice_report *reports; /* [slices]: of results that an earlier start stored */
    uint32_t stored_round;        /* of these results; 0: none */
    struct hash stored_results;   /* identifies the results that were stored last, */
    struct hash rooted_results;   /* and those whose root was computed last */
};

/* The member's own training between two rounds. */
struct inner_state {
    struct compute_copies copies; /* of a member of one rank */
    struct inner_weights weights; /* of a member of several */
    struct sample_order order;
    struct sample_assignment assignment;
    int64_t *windows;    /* [rows of a step] */
    struct hash *hashes; /* [slices]: of the encoded contribution */
    double step_seconds[STEP_TIMES_MAX];
    int64_t step_count;    /* of all steps timed */
    double encode_seconds; /* of the last contribution */
};

/* The exchange of commands between the ranks (lockstep.h). */
struct lockstep {
    void *gathered;                      /* what all ranks sent last */
    int64_t commanded_ns;                /* when rank 0 sent the last command */
    struct step_limits *limits;          /* of the step or evaluation that is being executed */
    struct step_result step_result;      /* of the last step, */
    struct evaluation_result evaluation; /* and of the last evaluation */
};

/* The last state that was logged, so that only changes are. */
struct last_logged {
    uint64_t sent_bytes, received_bytes; /* of all rounds up to the last line */
    bool tracker_was_connected, tracker_absence_logged, was_admitted, disk_was_full;
    int64_t begun_ns;                        /* of the first attempt to reach the tracker */
    int64_t fetch_begun_ns, fetch_logged_ns; /* of the state from other members; 0: not fetching */
    bool evaluates_at_end;                   /* there is no time for it between rounds */
    uint32_t evaluated_round;
    char reason[WIRE_REJECT_REASON_BYTES];
};

struct member_run {
    struct trainer trainer;
    struct member_swarm swarm;
    struct outer_state outer;
    struct inner_state inner;
    struct lockstep lockstep;
    struct training_position position;
    struct last_logged logged;
    struct member_loop *loop; /* NULL: not started */
    bool is_leaving, has_left;
};

/* member_run_read: identity, manifest and settings. A tracker that does not answer is retried
 * until it does, with one log line. Zero-initialise *member first except for the session's ranks
 * and site; after any outcome member_run_finish frees what was taken.
 * errors  STATUS_INPUT from the file or setting at fault; STATUS_STOPPED */
MUST_CHECK enum status member_run_read(struct member_run *member,
                                       const struct member_run_args *args, struct fault *fault);

/* member_run_prepare: everything before seal. The session's program has been compiled
 * (swarm_setup/preflight.h).
 * errors  those of every stage; the state folder then contains at most files of this program */
MUST_CHECK enum status member_run_prepare(struct member_run *member, struct fault *fault);

/* member_run_execute: seals, then works until the run ends, or until the swarm releases a member
 * that was asked to stop; then saves, and at the run's end evaluates and exports.
 * errors  STATUS_STOPPED when asked to stop, after saving; those of data and disk: what was durable
 *         before stays valid */
MUST_CHECK enum status member_run_execute(struct member_run *member, struct fault *fault);

void member_run_finish(struct member_run *member);

#endif
