/* step: one optimizer step and one evaluation, in terms of the program's segments. */
#ifndef SKEP_SESSION_STEP_H
#define SKEP_SESSION_STEP_H

#include "runtime/session/session.h"

/* What one step came to: the same on every rank but for received_bytes. */
struct step_result {
    double loss; /* mean over the step's valid tokens */
    double gradient_norm;
    double learning_rate;
    int64_t tokens;          /* valid ones, of all ranks */
    uint64_t received_bytes; /* by this rank's transport */
    bool skipped;            /* gradients were not finite: nothing was updated */
};

/* How far a step goes: what follows from its number, unless a swarm's ledger says otherwise. */
struct step_schedule {
    double learning_rate;
    int64_t updates; /* that the moments have seen before, for their bias correction */
};

/* step_begin_at, step_finish_at: step_begin and step_finish at a pace of the caller's. */
int64_t step_begin_at(struct session *session, const struct step_schedule *pace, int64_t own_valid);
struct step_result step_finish_at(struct session *session, const struct step_schedule *pace,
                                  int64_t valid_tokens);

/* step_begin: scalars for optimizer step `step` (counted from 0) in which this rank has `own_valid`
 * labels, then the begin segment. Gives all ranks' labels; microbatches follow unless that is 0. */
int64_t step_begin(struct session *session, int64_t step, int64_t own_valid);

/* step_finish: the finish segment, and what the step came to. */
struct step_result step_finish(struct session *session, int64_t step, int64_t valid_tokens);

/* How rows are dealt to the ranks. step_rows_at_once: as many as all of them compute at a time.
 * step_row_is_own: whether row `row` of a step or an evaluation is this rank's.
 * step_continues: the caller's answer to whether it goes on; NULL: always. */
typedef bool step_keep_on(void *context);
int64_t step_rows_at_once(const struct session *session);
bool step_row_is_own(const struct session *session, int64_t row);
bool step_continues(step_keep_on *keep_on, void *context);

/* step_from_data: a whole step, its rows from the shuffled stream; *cursor moves on only when the
 * step is complete. The step's valid labels are counted before its first backward.
 *
 *     rows of a step   | microbatch 0          | microbatch 1          | ...
 *                      | rank 0 | rank 1 | ... | rank 0 | rank 1 | ...     batch.microbatch each
 *
 * Rows beyond the step's last carry no labels, so that all ranks run as many microbatches.
 * keep_on  asked between microbatches; when it says no on any rank, the step is dropped on all:
 *          STATUS_STOPPED, and neither parameters nor *cursor have changed
 * errors   those of data_window, of whichever rank met them; STATUS_INPUT when every token of the
 *          step is a separator; parameters and *cursor have not changed then either; those of
 *          program_failure */
struct step_source {
    const struct token_data *data;
    uint64_t seed;
    step_keep_on *keep_on; /* NULL: always */
    void *context;
};
MUST_CHECK enum status step_from_data(struct session *session, const struct step_source *source,
                                      int64_t step, int64_t *cursor, struct step_result *result,
                                      struct fault *fault);

/* evaluate_batch: the sum of losses over the labels now in all ranks' batches, of which this rank's
 * has `own_valid`; *valid grows by how many they are. */
double evaluate_batch(struct session *session, int64_t own_valid, int64_t *valid);

/* What an evaluation came to. */
struct evaluation_result {
    double loss;    /* mean over the valid labels */
    int64_t tokens; /* valid labels */
};

/* evaluate_data: mean loss over the first `rows` windows of `data` (0: all of them), dealt to the
 * ranks as a step's.
 * errors  STATUS_STOPPED as above, those of data_window, STATUS_INPUT when no label is valid */
MUST_CHECK enum status evaluate_data(struct session *session, const struct step_source *source,
                                     int64_t rows, struct evaluation_result *result,
                                     struct fault *fault);

#endif
