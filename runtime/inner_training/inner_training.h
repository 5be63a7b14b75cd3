/* inner_training: runs a member of a swarm, for `skep join`, from a join string to a trained model.
 * The calling thread is the compute thread: it executes the jobs that the network thread
 * (runtime/swarm/member) assigns: training, summing, storing and applying results.
 *
 *     member_run_read      reads identity, manifest, settings
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
#include "runtime/swarm/delegation/delegation_search.h"
#include "runtime/swarm/member/mailbox.h"
#include "runtime/swarm/member/member_store.h"
#include "runtime/swarm/member/state_store.h"
#include "runtime/swarm_setup/member_session.h"
#include "runtime/train/trainer.h"

enum { STEP_TIMES_MAX = 15 /* number of recent steps whose median time is used */ };

/* The command line. */
struct member_run_args {
    const char *swarm;    /* the swarm: path of a manifest file NAME.skep, or a join string */
    const char *identity; /* path of the identity file */
    /* only a report is written, and no file; a tracker that does not answer is not retried */
    bool reports_only;
    /* address to listen on; NULL: any free port; "none": other members cannot connect */
    const char *listen;
    /* advertised address, and name of the member; NULL: the default */
    const char *public_address, *name;
    const char *const *overrides; /* [override_count]: texts of the form "key=value" */
    int override_count;
};

/* The swarm that this process joins, and the identity of the member. */
struct member_swarm {
    struct member_run_args args;
    struct key_pairs keys; /* key pairs of the member's identity */
    struct manifest manifest;
    struct tracker_contact tracker;   /* of rank 0: address and keys of the tracker */
    char delegation_path[PATH_BYTES]; /* of rank 0: file with the tracker's delegation; "": none */
    const char *subject;              /* subject of messages: manifest file or tracker address */
    char *text;               /* text of a manifest from the tracker; NULL: `subject` is a file */
    size_t text_bytes;        /* length of `text` */
    struct swarm_terms terms; /* values that follow from the manifest */
};

/* The progress of a member in the run: the round of its outer state, and the inner steps that it
 * has executed since then. */
struct training_position {
    uint32_t round;   /* last round whose results were applied; 0: the genesis */
    uint32_t commits; /* number of commits of the run up to `round` */
    int64_t updates;  /* number of updates of this member's inner moments */
    /* products of the decay rates of all these updates */
    struct decay_products products;
    uint32_t saved_round;   /* round of the newest snapshot; 0: none */
    uint32_t saved_commits; /* number of commits up to `saved_round` */
    uint32_t encoded_round; /* round of the last encoded contribution; 0: none */
    int64_t inner_steps;    /* steps since the inner weights were equal to the outer weights */
    double loss_sum;        /* sum of the losses of `inner_steps`, over `loss_tokens` */
    int64_t loss_tokens;    /* number of tokens that `loss_sum` covers */
};

/* The outer state, in memory and on disk. Used on rank 0 only. */
struct outer_state {
    struct replica replica;     /* outer weights, momentum and error feedback */
    struct member_store store;  /* results on disk */
    bool store_is_open;         /* `store` has been opened */
    struct state_store states;  /* states on disk that the swarm can return to */
    bool state_is_due;          /* this member was drawn to store the current state */
    struct ledger_copy ledger;  /* ledger of the swarm on disk */
    struct round_record record; /* writer of the files of recorded rounds */
    struct entry *entry;        /* scratch entry with space for its slices */
    /* [slices]: reports of the stored results of an earlier start, one per slice */
    struct slice_report *reports;
    uint32_t stored_round; /* round of `reports`; 0: none */
    /* the newest lease that an earlier start of this process signed */
    struct lease lease;
    struct hash stored_results_hash; /* hash that identifies the results stored last */
    /* hash that identifies the results whose root was computed last */
    struct hash rooted_results_hash;
};

/* The state of the inner training, which a member does between two commits. */
struct inner_state {
    /* copies of the masters in the type that kernels read; used by a member of one rank */
    struct compute_copies compute_copies;
    /* weights to gather and scatter; used by a member of several ranks */
    struct inner_weights weights;
    struct sample_order order;           /* shuffled order of the samples of the run */
    struct sample_assignment assignment; /* samples assigned to this member in the round */
    int64_t *windows;                    /* [rows of a step]: data windows of the next step */
    /* durations of the most recent steps, as a ring buffer */
    double step_seconds[STEP_TIMES_MAX];
    int64_t step_count;    /* number of all steps that were timed */
    double encode_seconds; /* time to encode the last contribution */
};

/* The exchange of commands between the ranks (lockstep.h). */
struct lockstep {
    void *data_of_ranks;                 /* [ranks]: what each rank sent in the last exchange */
    int64_t commanded_ns;                /* time at which rank 0 sent the last command */
    struct step_limits *limits;          /* limits of the step or evaluation being executed */
    struct step_result step_result;      /* result of the last step */
    struct evaluation_result evaluation; /* result of the last evaluation */
};

/* The state that was logged last, so that only changes are logged. */
struct last_logged {
    /* total bytes sent and received up to the last logged line about a round */
    uint64_t sent_bytes, received_bytes;
    bool tracker_was_connected, tracker_absence_logged, was_admitted,
        disk_was_full;          /* when last logged */
    bool unreachability_logged; /* it is logged that other members cannot connect to this one */
    /* time of the first attempt to connect to the tracker */
    int64_t connect_begun_ns;
    int64_t fetch_begun_ns; /* time at which the state fetch began; 0: no fetch is active */
    bool evaluates_at_end; /* evaluates only at the end of the run, because evaluations take long */
    uint32_t evaluated_round; /* last round after which the member evaluated */
    /* last logged reason for which the tracker rejected the member */
    char rejection_reason[WIRE_REJECT_REASON_BYTES];
    int64_t reason_logged_ns;  /* time at which rejection_reason was logged */
    uint32_t unrecorded_round; /* last round without swarm.record files; 0: the newest has them */
    /* time of the last log line about a contribution that did not count; 0: none */
    int64_t missed_logged_ns;
    /* number of rounds since missed_logged_ns whose commits lack this member's contribution */
    uint32_t missed_rounds;
    /* hash of the text that describes what the member waits for; zeros: it does not wait */
    struct hash wait_text_hash;
    int64_t wait_begun_ns;  /* time at which the member began to wait */
    int64_t wait_logged_ns; /* time at which the wait was last logged; 0: never */
};

/* Totals of this member's contributions to the swarm since its process started. */
struct contribution_totals {
    uint64_t tokens;      /* number of tokens of this member's contributions to committed rounds */
    uint32_t rounds;      /* number of rounds to which this member contributed */
    uint32_t measured;    /* number of rounds whose duration was measured */
    double measured_s;    /* total duration of the measured rounds in seconds */
    int64_t round_end_ns; /* end of the last round if this member trained in it; else 0 */
};

struct member_run {
    struct trainer trainer;
    struct member_swarm swarm;
    struct outer_state outer; /* of rank 0 */
    struct inner_state inner;
    struct lockstep lockstep;
    struct training_position position; /* how far the member has come in the run */
    struct last_logged logged;         /* what the log has reported */
    /* what this member contributed since its process started */
    struct contribution_totals contributed;
    struct member_loop *loop; /* NULL: not started */
    /* whether a request to leave the swarm was sent; whether the member has left */
    bool is_leaving, has_left;
    int64_t job_ended_ns; /* end of the last job of the compute thread; 0: none has ended */
};

/* member_run_read: reads identity, manifest and settings. If the tracker does not answer, it is
 * retried until it answers, with one log line, unless args->reports_only. *member must be
 * zero-initialised except for the session's ranks and site. After any outcome member_run_finish
 * frees its memory.
 * errors  STATUS_INPUT for an invalid file or setting; STATUS_STOPPED */
MUST_CHECK enum status member_run_read(struct member_run *member,
                                       const struct member_run_args *args, struct fault *fault);

/* member_listen_address: the address on which a member with these arguments listens, as for
 * member_loop_options. */
const char *member_listen_address(const struct member_run_args *args);

/* member_run_find_data: checks, after member_run_read, that the data files of the swarm are on this
 * machine, by their number, sizes and formats. Text is tokenised first. member_run_prepare compares
 * their contents too.
 * errors  those of data_tokenise_text and data_match_check_sizes */
MUST_CHECK enum status member_run_find_data(struct member_run *member, struct fault *fault);

/* member_run_prepare: does all preparation that must precede the seal: opens the data, binds the
 * program, loads the state and opens the sockets. The caller must have compiled the session's
 * program (swarm_setup/preflight.h).
 * errors  the fault of the step that failed */
MUST_CHECK enum status member_run_prepare(struct member_run *member, struct fault *fault);

/* member_run_execute: seals the process and executes rounds until the run ends, or until a member
 * that was asked to stop may leave. Then it saves a snapshot, and at the end of the run it
 * evaluates and exports the model.
 * errors  STATUS_STOPPED when asked to stop, after saving; faults of data and disk; the files that
 *         were saved before remain valid */
MUST_CHECK enum status member_run_execute(struct member_run *member, struct fault *fault);

void member_run_finish(struct member_run *member);

#endif
