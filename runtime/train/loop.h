/* loop: a training run from settings to end: resume, steps, evaluations, snapshots, export. */
#ifndef SKEP_TRAIN_LOOP_H
#define SKEP_TRAIN_LOOP_H

#include "runtime/data/fingerprint.h"
#include "runtime/session/metrics.h"
#include "runtime/session/outputs.h"
#include "runtime/session/progress.h"
#include "runtime/session/session.h"
#include "runtime/session/step_trace.h"

enum { TRAINING_GROUPS = 3, SKIPPED_IN_ROW_MAX = 20 };

struct training {
    struct session session;
    struct token_data train, validation; /* validation.file_count 0: none */
    struct fingerprint fingerprint;      /* of train */
    struct hash data_hash;               /* of all data: what ranks compare */
    struct metrics metrics;
    struct progress progress;
    struct step_trace trace;
    struct rank_memory *memories;                  /* [ranks]: what each last said */
    struct snapshot_group groups[TRAINING_GROUPS]; /* what this rank saves */
    struct outputs outputs;
    bool fresh; /* an earlier run is set aside */
    int lock_fd;
    int64_t step;              /* completed */
    int64_t first_step;        /* completed when this start began */
    int64_t saved_step;        /* of the newest snapshot; -1: none */
    int64_t evaluated_step;    /* the last one evaluated; -1: none */
    int64_t cursor;            /* of the sample stream */
    double save_seconds;       /* the last snapshot's, or what the disk's rate suggests */
    double microbatch_seconds; /* smoothed */
    double loss;               /* of the last step */
    int64_t until;             /* steps at which this start ends: run.steps or pause_at */
    int64_t skipped;           /* steps of this start without an update */
    int64_t skipped_in_row;    /* of these, the last ones */
};

/* training_prepare: everything up to seal: data, program, arena, snapshot or first weights,
 * writers.
 * session  has been read; fresh sets an earlier run aside
 * limits   stop_watch has been called
 * errors   STATUS_STOPPED; whatever stands in the way; nothing has been changed but folders made */
MUST_CHECK enum status training_prepare(struct training *training, bool fresh, struct fault *fault);

/* training_run: seal, then steps until the end, a pause or a wish to stop; saves and, at the end,
 * exports. After STATUS_STOPPED the state is saved too.
 * errors  of data: as they are before this start's first step, STATUS_FAILED with the last step
 *         saved after it; of disk and export; STATUS_FAILED when the gradients of
 *         SKIPPED_IN_ROW_MAX steps in a row were not finite. What was saved before stays good, and
 *         snapshots that fall due while steps are skipped are left out */
MUST_CHECK enum status training_run(struct training *training, struct fault *fault);

void training_finish(struct training *training);

#endif
