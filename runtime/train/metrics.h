/* metrics: writes metrics as one JSON object per line. metrics_open and
 * metrics_write_start must be called before the seal, because they allocate memory. The other
 * functions never allocate. */
#ifndef SKEP_TRAIN_METRICS_H
#define SKEP_TRAIN_METRICS_H

#include "runtime/session/step.h"

struct metrics {
    int fd; /* descriptor of the metrics file; -1: no metrics are written, as on ranks above 0 */
    const char *path;      /* path of the metrics file */
    struct region *region; /* region of the session */
    char *line;            /* [line_bytes]: buffer for the text of one line */
    size_t line_bytes;     /* capacity of `line` */
    int ranks;             /* number of ranks of the site */
    /* number of lines that could not be written since the last line that was written */
    int64_t lost_lines;
};

/* The memory use of one rank. */
struct rank_memory {
    uint64_t high_water_bytes[SPACE_COUNT]; /* highest used offset of each arena */
    uint64_t process_bytes; /* memory that the operating system reports for the process */
};

/* metrics_check_path: checks that the file `path` can be written or created, without changing it.
 * `key` is the run key that contains the path.
 * errors  STATUS_INPUT when `path` is not a file and no file can be created there */
MUST_CHECK enum status metrics_check_path(const char *path, const char *key, struct fault *fault);

/* metrics_open: opens the run's metrics for appending and creates their folder. An incomplete line
 * at the end, which a crash may leave, is removed.
 * memory  buffer for one line, in the session's region */
MUST_CHECK enum status metrics_open(struct session *session, struct metrics *metrics,
                                    struct fault *fault);

/* metrics_own_memory: returns the memory use of this rank. */
struct rank_memory metrics_own_memory(const struct session *session);

/* The metrics of a committed round, measured by one member of the swarm. */
struct metrics_round {
    uint32_t round, members, contributors; /* number of the round, of members and of contributors */
    int64_t step;                          /* number of inner steps of the run up to this round */
    /* bytes that this member sent and received since the last line about a round */
    uint64_t sent_bytes, received_bytes;
    uint32_t exchange_ms; /* duration of the exchange of the round */
    struct hash root;     /* root of the outer state after the round */
    double loss;          /* mean loss of this member's steps; written as null if not finite */
};

/* metrics_write_*: each writes one line of metrics, completely or not at all. Failed writes never
 * end the run: the first one is logged, and later, when writing works again, the number of missing
 * lines. */
void metrics_write_start(struct metrics *metrics, const struct session *session,
                         const char *version);
void metrics_write_step(struct metrics *metrics, int64_t step, const struct step_result *result,
                        double seconds);
void metrics_write_evaluation(struct metrics *metrics, int64_t step, double loss);
void metrics_write_round(struct metrics *metrics, const struct metrics_round *round);
void metrics_write_memory(struct metrics *metrics, const struct session *session,
                          const struct rank_memory *memories); /* [ranks]: one entry per rank */
void metrics_write_end(struct metrics *metrics, bool finished);

/* metrics_find_interrupted_step: returns the last step in the metrics file `path` if the process
 * that wrote it crashed or failed afterwards, and 0 if it ended in order, or if there is no such
 * file.
 * memory  a buffer in `region`
 * limits  only the last 64 KiB of the file are read */
int64_t metrics_find_interrupted_step(const char *path, struct region *region);

void metrics_close(struct metrics *metrics);

#endif
