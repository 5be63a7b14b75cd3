/* train: trains a model without a swarm, for `skep train`: resumes a run, executes its steps,
 * evaluates, saves snapshots and exports the model. trainer.h has the functions that this module
 * shares with runtime/inner_training, which trains a member of a swarm. This module has no state
 * outside its structs.
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
    bool fresh;         /* whether to rename the files of an earlier run before this run starts */
    int lock_fd;        /* descriptor of the run's lock file; 0: not locked */
    bool made_folder;   /* whether this start made the folder of the run */
    bool has_started;   /* whether training_prepare has succeeded */
    int64_t step;       /* number of completed steps of the run */
    int64_t first_step; /* number of steps completed before this start of the process */
    int64_t until;      /* step after which this start ends: settings.steps or settings.pause_at */
    int64_t saved_step; /* step of the newest snapshot; -1: none */
    int64_t evaluated_step; /* last evaluated step; -1: none */
    int64_t cursor;         /* position of the next sample in the shuffled stream */
    /* duration of the last save of a snapshot; before the first save, an estimate */
    double save_seconds;
    double evaluate_seconds;   /* duration of the last evaluation */
    double microbatch_seconds; /* duration of one microbatch in the last step */
};

/* training_prepare: does everything that must precede the seal: opens the data, compiles and binds
 * the program, loads a snapshot or the initial weights, and prepares the writers.
 * session  must have been read
 * fresh    true: renames the files of an earlier run
 * limits   watch_stop_signals must have been called
 * errors   STATUS_STOPPED, or the fault of the stage that failed. Nothing on disk is changed then,
 *          except that folders may have been created */
MUST_CHECK enum status training_prepare(struct training *training, bool fresh, struct fault *fault);

/* training_run: seals the process, then executes steps until the end of the run, a pause or a
 * request to stop. It saves a snapshot, also when it returns STATUS_STOPPED, and exports the model
 * at the end of the run.
 * errors  a fault of the data is returned unchanged before the first step of this start, and as
 *         STATUS_FAILED afterwards, with the last step saved; faults of disk and export;
 *         STATUS_FAILED when SKIPPED_IN_ROW_MAX steps in a row were skipped. Earlier snapshots stay
 *         valid, and no snapshot is saved while steps are skipped */
MUST_CHECK enum status training_run(struct training *training, struct fault *fault);

void training_finish(struct training *training);

#endif
