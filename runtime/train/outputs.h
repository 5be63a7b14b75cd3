/* outputs: the files that a run writes: its snapshots, and the model folder at its end. Their
 * layout is planned before seal. */
#ifndef SKEP_TRAIN_OUTPUTS_H
#define SKEP_TRAIN_OUTPUTS_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/session/session.h"

struct outputs {
    const char *config_text; /* config.json as in the model folder */
    size_t config_length;
    const char *keys; /* the effective settings, as snapshots contain them */
    struct snapshot_writer writer;
    struct weights_save export;
};

/* outputs_describe: reads config.json and writes the settings as text.
 * memory  in the session's region
 * errors  those of session_config; STATUS_INPUT when the settings are too long for a snapshot */
MUST_CHECK enum status outputs_describe(struct session *session, struct outputs *outputs,
                                        struct fault *fault);

/* outputs_plan_export: plans the model folder of the weights in `set`. After outputs_describe.
 * errors  those of weights_save_plan */
MUST_CHECK enum status outputs_plan_export(struct session *session, const struct tensor_set *set,
                                           struct outputs *outputs, struct fault *fault);

/* outputs_make_writer: plans snapshots of `groups`, which must outlive *outputs. After
 * outputs_describe.
 * errors  those of snapshot_writer_init */
MUST_CHECK enum status outputs_make_writer(struct session *session,
                                           const struct snapshot_group *groups, int group_count,
                                           struct outputs *outputs, struct fault *fault);

#endif
