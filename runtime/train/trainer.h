/* trainer: the state and functions shared by a run without a swarm (train.h) and a member of a
 * swarm (runtime/inner_training): session, data, metrics, progress, snapshots, evaluation and
 * export. Either of them owns the struct trainer and decides when to call each function. */
#ifndef SKEP_TRAIN_TRAINER_H
#define SKEP_TRAIN_TRAINER_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/session/session.h"
#include "runtime/train/metrics.h"
#include "runtime/train/progress.h"

enum {
    /* maximum number of tensor groups of a snapshot: weights and two moments; for a member also
     * momentum and error feedback */
    SNAPSHOT_GROUPS_MAX = 5,
    SKIPPED_IN_ROW_MAX = 20 /* number of consecutive skipped steps after which a run fails */
};

/* The files that a run writes: snapshots, and the model folder at its end. The layout of all files
 * is computed before the seal. */
struct outputs {
    const char *config_text;       /* text of config.json in the exported model folder */
    size_t config_length;          /* length of `config_text` */
    const char *keys;              /* text of the run's settings, which each snapshot contains */
    struct snapshot_writer writer; /* writes the snapshots */
    struct weights_save export;    /* writes the exported model */
};

struct trainer {
    struct session session;
    const char *stop_subject; /* subject of the fault when the process was asked to stop */
    /* training data and validation data; validation.file_count is 0 without validation data */
    struct token_data train, validation;
    struct outputs outputs;
    struct metrics metrics;
    struct progress progress;
    struct rank_memory *memories; /* [ranks]: last reported memory use of each rank */
    /* the part of each tensor group of the snapshots that this rank saves */
    struct snapshot_group groups_to_save[SNAPSHOT_GROUPS_MAX];
    /* the part of each tensor group of the snapshots that this rank loads */
    struct snapshot_group groups_to_load[SNAPSHOT_GROUPS_MAX];
    int group_count;        /* number of elements in groups_to_save and in groups_to_load */
    int64_t skipped;        /* number of skipped steps in this start */
    int64_t skipped_in_row; /* number of consecutive skipped steps, up to the last step */
};

/* ---- functions to call before the seal ---- */

/* trainer_agree_on_stage: returns the outcome of a stage, which is the same on all ranks; `mine` is
 * the outcome of this rank. Ranks may communicate only in a stage that does nothing else, so that
 * every rank executes it.
 * errors  the status `mine` if it is not OK on this rank; STATUS_STOPPED when the process was asked
 *         to stop */
MUST_CHECK enum status trainer_agree_on_stage(const struct trainer *trainer, enum status mine,
                                              struct fault *fault);

/* trainer_tokenise_text: executes data_tokenise_text on rank 0; the other ranks then find the
 * tokens.
 * errors  those of data_tokenise_text, on all ranks */
MUST_CHECK enum status trainer_tokenise_text(struct trainer *trainer, struct fault *fault);

/* trainer_open_data: opens the token files of data.train and data.validation.
 * errors  those of data_open_run */
MUST_CHECK enum status trainer_open_data(struct trainer *trainer, struct fault *fault);

/* trainer_compare_ranks: calls ranks_check_equal, then logs the number of ranks. */
MUST_CHECK enum status trainer_compare_ranks(struct trainer *trainer, const struct hash *data,
                                             struct fault *fault);

/* trainer_add_group: adds a tensor group of the snapshots: the part to save and the part to
 * load. */
void trainer_add_group(struct trainer *trainer, const struct snapshot_group *saved,
                       const struct tensor_set *resident);
void trainer_add_view_group(struct trainer *trainer, const char *file, const char *prefix,
                            enum param_view view); /* the view to save, of all parameters */

/* trainer_prepare_output_texts: reads config.json and writes the settings as text, into
 * trainer->outputs.
 * memory  in the session's region
 * errors  those of session_read_config; STATUS_INPUT when the settings are too long for a
 *         snapshot */
MUST_CHECK enum status trainer_prepare_output_texts(struct trainer *trainer, struct fault *fault);

/* trainer_plan_export: prepares the export of the first tensor group, the weights, as a model
 * folder. Must be called after trainer_prepare_output_texts.
 * errors  those of weights_save_plan */
MUST_CHECK enum status trainer_plan_export(struct trainer *trainer, struct fault *fault);

/* trainer_make_snapshot_writer: prepares snapshots of all tensor groups. Must be called after
 * trainer_prepare_output_texts.
 * errors  those of snapshot_writer_init */
MUST_CHECK enum status trainer_make_snapshot_writer(struct trainer *trainer, struct fault *fault);

/* trainer_allocate_memory_reports: allocates memory for the reports of all ranks. */
void trainer_allocate_memory_reports(struct trainer *trainer);

/* ---- functions to call from the seal on ---- */

/* trainer_seal: starts progress and metrics, then seals the program. */
void trainer_seal(struct trainer *trainer);

/* trainer_count_skipped_step: counts a step if it was skipped, and logs the first step of every
 * series of skipped steps, and the 10th, 100th and so on of all skipped steps. A step is skipped
 * when a gradient is not finite. That is rare in a normal run; many skipped steps in a row mean
 * that the run has diverged.
 * step     text that identifies the step in messages
 * subject  subject of the fault when the run has diverged; `remedy` is its remedy
 * errors  STATUS_FAILED after SKIPPED_IN_ROW_MAX in a row */
MUST_CHECK enum status trainer_count_skipped_step(struct trainer *trainer, bool skipped,
                                                  const char *step, const char *subject,
                                                  const char *remedy, struct fault *fault);

/* trainer_write_snapshot: writes a snapshot that contains `values`, which the caller chooses.
 * Called on every rank. */
MUST_CHECK enum status trainer_write_snapshot(struct trainer *trainer, int64_t step,
                                              const struct snapshot_value *values, int value_count,
                                              struct fault *fault);

/* trainer_log_snapshot: logs a saved snapshot. `moment` is a text such as "step 100", and `seconds`
 * is the duration of the save. */
void trainer_log_snapshot(struct trainer *trainer, const char *moment, double seconds);

/* trainer_evaluate: computes the loss on held-out text; called on every rank.
 * trainer_log_evaluation: writes that loss to metrics and progress. */
MUST_CHECK enum status trainer_evaluate(struct trainer *trainer, struct step_limits *limits,
                                        struct evaluation_result *result, struct fault *fault);
void trainer_log_evaluation(struct trainer *trainer, int64_t step, double loss);

/* trainer_export: writes the model folder; called on every rank. */
MUST_CHECK enum status trainer_export(struct trainer *trainer, struct fault *fault);

/* trainer_collect_memory_use: collects the memory use of every rank in trainer->memories; called on
 * every rank. */
MUST_CHECK enum status trainer_collect_memory_use(struct trainer *trainer, struct fault *fault);

/* Callbacks of the code that uses a trainer, for trainer_conclude. All ranks call each of them
 * together. */
struct trainer_callbacks {
    enum status (*save)(void *owner, struct fault *fault);
    enum status (*evaluate)(void *owner, struct fault *fault);
    enum status (*export_model)(void *owner, struct fault *fault);
};

/* trainer_conclude: saves the state when this process stops training, then evaluates if `evaluates`
 * is true, and exports the model if `finished` is true.
 * finished  whether the last step of the run is complete
 * errors    those of the callbacks; STATUS_STOPPED when the process was asked to stop during the
 *           evaluation or the export, after the state was saved */
MUST_CHECK enum status trainer_conclude(struct trainer *trainer,
                                        const struct trainer_callbacks *callbacks, void *owner,
                                        bool finished, bool evaluates, struct fault *fault);

/* trainer_end_metrics: writes the last lines of the metrics: the memory use of every rank, as in
 * trainer->memories, and whether the run has finished. */
void trainer_end_metrics(struct trainer *trainer, bool finished);

/* trainer_close_files: closes the metrics and the token files. The caller finishes the session. */
void trainer_close_files(struct trainer *trainer);

#endif
