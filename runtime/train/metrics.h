/* metrics: writes metrics as one JSON object per line (cli.md, metrics). Must be opened before the
 * seal. The start line, whose length depends on the lists of files, must be written before seal;
 * the others never allocate. */
#ifndef SKEP_TRAIN_METRICS_H
#define SKEP_TRAIN_METRICS_H

#include "runtime/session/step.h"

struct metrics {
    int fd; /* -1: no metrics are written, as on all ranks except rank 0 */
    const char *path;
    struct region *region; /* the session's */
    char *line;            /* [line_bytes] */
    size_t line_bytes;
    int ranks;
};

/* The memory use of one rank. */
struct rank_memory {
    uint64_t high_water_bytes[SPACE_COUNT];
    uint64_t process_bytes;
};

/* metrics_check: checks that `path`, the value of `key`, is writable. Changes nothing.
 * errors  STATUS_INPUT when `path` is not a file, or none can be created there */
MUST_CHECK enum status metrics_check(const char *path, const char *key, struct fault *fault);

/* metrics_open: opens the run's metrics for appending and creates their folder.
 * memory  one line in the session's region */
MUST_CHECK enum status metrics_open(struct session *session, struct metrics *metrics,
                                    struct fault *fault);

/* metrics_own_memory: returns the memory use of this rank. */
struct rank_memory metrics_own_memory(const struct session *session);

/* A committed round of a swarm, as one of its members saw it. */
struct metrics_round {
    uint32_t round, members, contributors;
    int64_t step;                        /* number of inner steps of the run up to this round */
    uint64_t sent_bytes, received_bytes; /* bytes since the last round line */
    uint32_t exchange_ms;
    struct hash root;
    double loss; /* mean loss of this member's steps; written as null if not finite */
};

/* Each function writes one line. A failed write is logged once and closes the metrics. It never
 * ends the run. */
void metrics_start(struct metrics *metrics, const struct session *session, const char *version);
void metrics_step(struct metrics *metrics, int64_t step, const struct step_result *result,
                  double seconds);
void metrics_eval(struct metrics *metrics, int64_t step, double loss);
void metrics_round(struct metrics *metrics, const struct metrics_round *round);
void metrics_memory(struct metrics *metrics, const struct session *session,
                    const struct rank_memory *memories); /* [ranks] */
void metrics_end(struct metrics *metrics, bool finished);

void metrics_close(struct metrics *metrics);

#endif
