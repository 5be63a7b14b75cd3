/* outputs: what a run that trains leaves behind, laid out before it is sealed: its snapshots, and
 * the model folder at its end. */
#ifndef SKEP_SESSION_OUTPUTS_H
#define SKEP_SESSION_OUTPUTS_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/session/session.h"

struct outputs {
    const char *config_text; /* config.json as it stands in the model folder */
    size_t config_length;
    const char *keys; /* effective ones, as snapshots carry them */
    struct snapshot_writer writer;
    struct weights_save export;
};

/* outputs_describe: config.json and the keys.
 * memory  in the session's region
 * errors  those of session_config; STATUS_INPUT when the keys do not fit into a snapshot */
MUST_CHECK enum status outputs_describe(struct session *session, struct outputs *outputs,
                                        struct fault *fault);

/* outputs_plan_export: the model folder of the weights in `set`. Described before.
 * errors  those of weights_save_plan */
MUST_CHECK enum status outputs_plan_export(struct session *session, const struct tensor_set *set,
                                           struct outputs *outputs, struct fault *fault);

/* outputs_make_writer: snapshots of `groups`, which the caller keeps. Described before.
 * errors  those of snapshot_writer_init */
MUST_CHECK enum status outputs_make_writer(struct session *session,
                                           const struct snapshot_group *groups, int group_count,
                                           struct outputs *outputs, struct fault *fault);

#endif
