/* train: a training program. trainer.h has the parts that a run alone and a member of a swarm
 * share; this header is the run alone, for `skep train`: from settings to the exported model, over
 * resume, steps, evaluations and snapshots. The room owns no memory outside its structs.
 *
 * public   metrics.h progress.h trainer.h */
#ifndef SKEP_TRAIN_TRAIN_H
#define SKEP_TRAIN_TRAIN_H

#include "runtime/data/fingerprint.h"
#include "runtime/train/step_trace.h"
#include "runtime/train/trainer.h"

struct training {
    struct trainer trainer;
    struct fingerprint fingerprint; /* fingerprint of the training data */
    struct hash data_hash;          /* hash of all data, which the ranks compare */
    struct step_trace trace;
    bool fresh;                /* an earlier run in the folder is renamed */
    int lock_fd;               /* 0: not locked */
    int64_t step;              /* completed */
    int64_t first_step;        /* step that was completed before this start */
    int64_t until;             /* last step of this start: settings.steps or .pause_at */
    int64_t saved_step;        /* step of the newest snapshot; -1: none */
    int64_t evaluated_step;    /* last evaluated step; -1: none */
    int64_t cursor;            /* position in the sample stream */
    double save_seconds;       /* time to save; before the first snapshot, an estimate */
    double microbatch_seconds; /* of the last step */
};

/* training_prepare: everything before seal: data, program, arena, snapshot or first weights,
 * writers.
 * session  has been read; `fresh` sets an earlier run aside
 * limits   watch_stop_signals has been called
 * errors   STATUS_STOPPED; those of every stage; nothing has been changed except folders made */
MUST_CHECK enum status training_prepare(struct training *training, bool fresh, struct fault *fault);

/* training_run: seals, then takes steps until the end, a pause or a request to stop; saves and, at
 * the end, exports. After STATUS_STOPPED the state is saved too.
 * errors  of data: unchanged before this start's first step; afterwards STATUS_FAILED, with the
 *         last step saved; of disk and export; STATUS_FAILED when SKIPPED_IN_ROW_MAX steps in a
 *         row were skipped. Earlier snapshots stay valid, and no snapshot is made while steps are
 *         skipped */
MUST_CHECK enum status training_run(struct training *training, struct fault *fault);

void training_finish(struct training *training);

#endif
