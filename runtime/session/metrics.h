/* metrics: one JSON object a line (cli.md, metrics). Opened before seal; only the start line, which
 * is as long as the lists of files are, must be written before seal: the others never allocate. */
#ifndef SKEP_SESSION_METRICS_H
#define SKEP_SESSION_METRICS_H

#include "runtime/session/step.h"

struct metrics {
    int fd; /* -1: nothing is written, as on every rank but 0 */
    const char *path;
    struct region *region; /* the session's */
    char *line;            /* [line_bytes] */
    size_t line_bytes;
    int ranks;
};

/* What one rank says of its memory. */
struct rank_memory {
    uint64_t high_water_bytes[SPACE_COUNT];
    uint64_t process_bytes;
};

/* metrics_check: lines can be written to `path`, the value of `key`. Changes nothing.
 * errors  STATUS_INPUT when `path` is no file, or lies where no file can be made */
MUST_CHECK enum status metrics_check(const char *path, const char *key, struct fault *fault);

/* metrics_open: append to the run's metrics, whose folder is made.
 * memory  a line in the session's region */
MUST_CHECK enum status metrics_open(struct session *session, struct metrics *metrics,
                                    struct fault *fault);

/* metrics_own_memory: what this rank has to say. */
struct rank_memory metrics_own_memory(const struct session *session);

/* A committed round of a swarm, as one of its members saw it. */
struct metrics_round {
    uint32_t round, members, contributors;
    int64_t step;                        /* inner steps behind it: the ledger's position */
    uint64_t sent_bytes, received_bytes; /* since the last such line */
    uint32_t exchange_ms;
    struct hash root;
    double loss; /* of the own steps; not finite: null */
};

/* Each writes one line. A full disk is reported once and then ignored: metrics never end a run. */
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
