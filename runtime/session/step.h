/* step: executes optimizer steps and evaluations as segments of the program. */
#ifndef SKEP_SESSION_STEP_H
#define SKEP_SESSION_STEP_H

#include "runtime/session/decay_products.h"
#include "runtime/session/session.h"

/* The result of a step: the same on every rank except for received_bytes. */
struct step_result {
    double loss;             /* mean loss over the valid tokens of the step */
    double gradient_norm;    /* norm of the gradient before clipping */
    double learning_rate;    /* learning rate of the step */
    int64_t tokens;          /* number of valid tokens of all ranks */
    uint64_t received_bytes; /* bytes that the transport of this rank received in the step */
    bool skipped;            /* a gradient was not finite: no parameter was updated */
};

/* The values that the run's schedules prescribe for one step. */
struct step_schedule {
    double learning_rate;     /* learning rate of the step */
    double weight_decay;      /* weight decay of the step */
    double mean_share;        /* share of the squared mean in AdamW's divisor; 0: plain AdamW */
    struct number_pair betas; /* decay rates of the moments in the step */
    /* products of the decay rates of all earlier updates of the moments, for the bias correction */
    struct decay_products products;
    /* number of earlier updates of the moments, which seeds the random bits of rounding */
    int64_t updates;
};

/* step_schedule_at: the schedule of optimizer step `step`, counted from 0, of a run that trains
 * alone. A member of a swarm derives its schedule from the ledger. */
struct step_schedule step_schedule_at(const struct session *session, int64_t step);

/* step_begin: fills the scalars of a step in which this rank has `own_valid` labels, and executes
 * the begin segment. Returns the number of labels of all ranks; microbatches follow unless it is 0.
 * step_finish: executes the finish segment and returns the step's result. */
int64_t step_begin(struct session *session, const struct step_schedule *schedule,
                   int64_t own_valid);
struct step_result step_finish(struct session *session, const struct step_schedule *schedule,
                               int64_t valid_tokens);

/* Conditions that end a step or an evaluation early. All zero: only a request to stop. */
struct step_limits {
    bool (*should_continue)(void *context); /* an additional condition for continuing; NULL: none */
    void *context;                          /* argument of should_continue */
    int64_t deadline_ns;                    /* deadline on clock_monotonic_ns; 0: none */
    /* After a request to stop, work continues if all remaining work is expected to end within
     * stop_within_s of the request. */
    double stop_within_s;
    double microbatch_s; /* expected duration of one microbatch in seconds */
    /* expected duration of the work after the last microbatch, in seconds */
    double final_s;
    int64_t microbatches_left; /* number of microbatches of the step or evaluation that remain */
};

/* step_should_continue: whether the limits permit one more microbatch. It then counts that
 * microbatch as done. Always true if `limits` is NULL. */
bool step_should_continue(struct step_limits *limits);

/* The ranks share the rows of a step or an evaluation. step_rows_at_once: the number of rows that
 * all ranks compute in one microbatch. step_row_is_own: whether this rank computes row `row`. */
int64_t step_rows_at_once(const struct session *session);
bool step_row_is_own(const struct session *session, int64_t row);

/* The data of steps and evaluations, and when to end them early. */
struct step_source {
    const struct token_data *data;
    uint64_t seed;              /* seed of the shuffled stream */
    struct step_limits *limits; /* NULL: no limits */
};

/* step_execute_from_stream: executes a whole step on rows of the shuffled stream. *cursor advances
 * only when the step is complete. The step's valid labels are counted before its first backward
 * pass.
 *
 *     rows of a step   | microbatch 0          | microbatch 1          | ...
 *                      | rank 0 | rank 1 | ... | rank 0 | rank 1 | ...     batch.microbatch each
 *
 * Rows after the step's last row carry no labels, so that all ranks execute the same number of
 * microbatches.
 * limits  tested before each microbatch; when they end the step on any rank, all ranks abandon it:
 *         STATUS_STOPPED, and neither parameters nor *cursor have changed
 * errors  those of data_read_window on any rank; STATUS_INPUT when every token of the step is a
 *         separator; parameters and *cursor have not changed then either; those of
 *         program_failure */
MUST_CHECK enum status step_execute_from_stream(struct session *session,
                                                const struct step_source *source, int64_t step,
                                                int64_t *cursor, struct step_result *result,
                                                struct fault *fault);

/* step_check_data: reads this rank's rows of the step that begins at `cursor` of the stream, and
 * computes nothing. Must be called after session_bind.
 * errors  those of data_read_window; STATUS_STOPPED when the process was asked to stop */
MUST_CHECK enum status step_check_data(struct session *session, const struct step_source *source,
                                       int64_t cursor, struct fault *fault);

/* A step on windows that the caller has chosen. */
struct step_windows {
    const struct token_data *data;
    const int64_t *windows; /* [count]: index of the window of each row */
    int64_t count;          /* number of rows, at least 1 */
    struct step_schedule schedule;
    struct step_limits *limits; /* NULL: no limits */
};

/* step_execute_on_windows: executes a whole step on the windows in `step`, one per row. All ranks
 * call it with the same windows and schedule.
 * errors  those of step_execute_from_stream */
MUST_CHECK enum status step_execute_on_windows(struct session *session,
                                               const struct step_windows *step,
                                               struct step_result *result, struct fault *fault);

/* evaluate_batch: returns the sum of losses over the valid labels in the batches of all ranks, and
 * adds their number to *valid. The batch of this rank has `own_valid` of them. */
double evaluate_batch(struct session *session, int64_t own_valid, int64_t *valid);

struct evaluation_result {
    double loss;    /* mean of the losses over the valid labels */
    int64_t tokens; /* number of valid labels */
};

/* evaluate_data: computes the mean loss over the first `rows` windows of `data` (0: all of them),
 * which the ranks share like the rows of a step.
 * errors  STATUS_STOPPED when the limits end it; faults of data_read_window; STATUS_INPUT when no
 *         label is valid */
MUST_CHECK enum status evaluate_data(struct session *session, const struct step_source *source,
                                     int64_t rows, struct evaluation_result *result,
                                     struct fault *fault);

#endif
