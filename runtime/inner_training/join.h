/* join: a member of a swarm: from a join string to a trained model. This thread computes: it
 * trains, sums, votes, stores and applies as member_loop's thread, which talks, is told by the
 * swarm.
 *
 *     member_run_read     identity, manifest, settings member_run_prepare  data, program, arena,
 *     first state, sockets                          then: seal member_run_execute      round after
 *     round, until the run's end or a wish to stop
 *
 * Of a member of several ranks all call these, and rank 0 speaks for it (join_order.h).
 *
 * The state folder keeps what a restart needs (member_store.h), snapshots and the model at the end.
 * / */
#ifndef SKEP_INNER_TRAINING_JOIN_H
#define SKEP_INNER_TRAINING_JOIN_H

#include "runtime/data/sample_share.h"
#include "runtime/inner_training/inner_weights.h"
#include "runtime/inner_training/join_ledger.h"
#include "runtime/inner_training/round_record.h"
#include "runtime/session/compute_copies.h"
#include "runtime/session/metrics.h"
#include "runtime/session/outputs.h"
#include "runtime/session/progress.h"
#include "runtime/session/session.h"
#include "runtime/swarm/member/member.h"
#include "runtime/swarm/member/member_store.h"

enum {
    SNAPSHOT_GROUPS_MAX = 5, /* weights, momentum, feedback, two moments */
    STEP_TIMES_MAX = 15      /* steps that the median is of */
};

/* What the command line says. */
struct member_run_args {
    const char *swarm; /* NAME.skep or a join string */
    const char *identity;
    const char *listen, *public_address, *name; /* NULL: as member_loop_options has it */
    const char *const *overrides;
    int override_count;
};

/* Where a member stands: the outer state, and what it has trained from there. */
struct training_position {
    uint32_t round;       /* whose results were applied last; 0: the genesis */
    uint32_t commits;     /* up to there */
    int64_t updates;      /* that the inner moments have seen */
    uint32_t saved_round; /* of the newest snapshot, and its commits; 0: none is needed */
    uint32_t saved_commits;
    uint32_t encoded_round; /* whose contribution stands as the inner weights do; 0: none */
    int64_t inner_steps;    /* since the inner weights were the outer ones */
    int64_t skipped_in_row; /* of all steps, the last ones without an update */
    double loss_sum;        /* of these inner steps, over `loss_tokens` */
    int64_t loss_tokens;
};

/* What was told last, so that only changes are. */
struct last_logged {
    uint64_t sent_bytes, received_bytes; /* of all rounds up to the last line */
    bool tracker_was_there, tracker_was_missed, was_admitted, disk_was_full;
    int64_t begun_ns;                  /* when the tracker was first looked for */
    int64_t adopts_ns, adopts_told_ns; /* since when the state comes from others; 0: it does not */
    bool evaluates_last;               /* between rounds there is not the time */
    uint32_t evaluated_round;
    char reason[WIRE_REASON_BYTES];
};

struct member_run {
    struct member_run_args request;
    struct key_pairs keys;
    struct manifest manifest;
    const char *place; /* of the manifest, for messages */
    struct session session;
    struct token_data train, validation; /* validation.file_count 0: none */
    struct replica replica;
    struct compute_copies copies; /* of one rank */
    struct inner_weights inner;   /* of several */
    struct sample_order order;
    struct sample_assignment share;
    struct member_store store;
    bool store_is_open;
    struct member_loop *loop; /* NULL: not started */
    struct ledger_copy ledger;
    struct metrics metrics;
    struct progress progress;
    struct round_record record;
    struct snapshot_group groups[SNAPSHOT_GROUPS_MAX]; /* what this rank saves, */
    struct snapshot_group held[SNAPSHOT_GROUPS_MAX];   /* and what it loads */
    int group_count;
    struct outputs outputs;
    struct training_position at;
    struct last_logged told;
    struct hash *hashes;          /* [slices]: of the own contribution */
    struct slice_report *reports; /* [slices]: of results found on the disk */
    uint32_t stored_round;        /* whose results those are; 0: none */
    struct hash stored, rooted;   /* what names the results that were last stored, and rooted */
    struct entry *entry;          /* scratch, with its slices */
    int64_t *windows;             /* [rows of a step] */
    double step_seconds[STEP_TIMES_MAX];
    int64_t step_count;    /* of these, all told */
    double encode_seconds; /* the last contribution's */
    bool is_leaving, has_left;
    /* What the ranks tell each other (join_order.h). */
    void *heard; /* of all ranks */
    struct rank_memory *memories;
    int64_t ordered_ns;  /* when the last order was given */
    char *manifest_text; /* as the tracker sent it; NULL: `place` is a file */
    size_t manifest_bytes;
    step_keep_on *keep_on; /* rank 0's, of the step or evaluation under way */
    void *keep_on_context;
    struct step_result stepped;         /* the last one, */
    struct evaluation_result evaluated; /* and the last evaluation */
};

/* member_run_read: identity, manifest (asked for until it comes, telling why it does not),
 * settings. Zero-initialise *joining first but for the session's ranks and site; after any outcome
 * member_run_finish frees what was taken.
 * errors  STATUS_INPUT from whichever is at fault; STATUS_STOPPED */
MUST_CHECK enum status member_run_read(struct member_run *joining,
                                       const struct member_run_args *request, struct fault *fault);

/* member_run_prepare: everything up to seal. The session's program has been compiled
 * (fit_report.h).
 * errors  whatever stands in the way; in the state folder are then at most files of our own */
MUST_CHECK enum status member_run_prepare(struct member_run *joining, struct fault *fault);

/* member_run_execute: seal, then work until the run ends, or until the swarm lets go of a member
 * that wants to stop; then save, and at the run's end evaluate and export.
 * errors  STATUS_STOPPED when asked to stop, and saved; those of data and disk: what was durable
 *         before stays good */
MUST_CHECK enum status member_run_execute(struct member_run *joining, struct fault *fault);

void member_run_finish(struct member_run *joining);

#endif
