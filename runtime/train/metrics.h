/* metrics: one JSON object a line (cli.md, metrics). Opened before seal; only the start line, which
 * is as long as the lists of files are, must be written before seal: the others never allocate. */
#ifndef SKEP_TRAIN_METRICS_H
#define SKEP_TRAIN_METRICS_H

#include "runtime/train/step.h"

struct metrics {
    int fd;
    const char *path;
};

/* metrics_check: metrics_open can succeed. Changes nothing.
 * errors  STATUS_INPUT when `path` is no file, or lies where no file can be made */
MUST_CHECK enum status metrics_check(const char *path, struct fault *fault);

/* metrics_open: append to `path`, whose folder is made. */
MUST_CHECK enum status metrics_open(const char *path, struct metrics *metrics, struct fault *fault);

/* Each writes one line. A full disk is reported once and then ignored: metrics never end a run. */
void metrics_start(struct metrics *metrics, const struct session *session, const char *version);
void metrics_step(struct metrics *metrics, int64_t step, const struct step_result *result,
                  double seconds);
void metrics_eval(struct metrics *metrics, int64_t step, double loss);
void metrics_memory(struct metrics *metrics, const struct session *session);
void metrics_end(struct metrics *metrics, bool finished);

void metrics_close(struct metrics *metrics);

#endif
