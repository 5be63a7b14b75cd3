/* run: run.yaml and key=value overrides become one checked struct of settings. */
#ifndef SKEP_SETTINGS_SETTINGS_H
#define SKEP_SETTINGS_SETTINGS_H

#include "base/dtype.h"
#include "base/fault.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/model/graph.h"
#include "runtime/model/model.h"
#include "runtime/settings/path_list.h"
#include "runtime/settings/setting_keys.h"

enum learning_rate_kind { RATE_CONSTANT, RATE_COSINE, RATE_WSD };
enum init_kind { INIT_FROM_WEIGHTS, INIT_RANDOM };

/* A number of run.yaml's list form, such as optimizer.betas. */
struct number_pair {
    double first, second;
};

/* The settings of run.yaml, defaults in place of what it leaves out. Fields have the type that
 * their key's row in keys.c names: int64_t for numbers, choices and switches, double for reals,
 * uint64_t for bytes, const char * for texts and paths (NULL: unset), struct path_list for lists of
 * paths. Paths are relative to the working directory by now. */
struct settings {
    const char *run_file;         /* the run file, or "" */
    const char *folder;           /* of the run file; "": the working directory */
    const char **value_locations; /* of each key's value; NULL: the default */
    const char *stem;             /* folder for unset outputs: the run file without its suffix */
    const char *model;
    int64_t init_kind; /* enum init_kind */
    int64_t seed, steps, pause_at;
    int64_t threads;                                /* 0: the target's */
    const char *target;                             /* NULL: this machine */
    const char *frozen;                             /* names that do not train; NULL: none */
    struct path_list train_files, validation_files; /* patterns not yet expanded; count 0: unset */
    const char *data_format;
    int64_t document_end_token; /* the token that ends a document, or DATA_NO_SEPARATOR */
    int64_t sequence_tokens, microbatch, batch_tokens; /* 0: taken from the model, or derived */
    double learning_rate, epsilon, weight_decay, clip_norm;
    struct number_pair betas;
    int64_t learning_rate_kind; /* enum learning_rate_kind */
    int64_t warmup_steps;
    int64_t params_dtype, compute_dtype, master_dtype, moments_dtype, reduce_dtype; /* enum dtype */
    int64_t rounding; /* enum rounding */
    int64_t wire_sum;
    int64_t zero_stage, replicas, prefetch_units, gathered_units_max, keep_gathered, reduce_at;
    const char *unit_policy, *unit_overrides, *offload;
    unsigned offload_kinds; /* of enum offload: what the key lists */
    const char *recompute;  /* one kind, or one per layer, comma-separated */
    int64_t context_tokens;
    int64_t eval_every, eval_tokens, snapshot_every, snapshot_keep;
    const char *snapshot_folder, *export_folder, *metrics_path;
    const char *trace_path, *trace_steps;                    /* trace_path NULL: no trace */
    uint64_t limit_device, limit_disk, limit_up, limit_down; /* 0: none */
    double stop_within_s;
    const char *swarm_name, *swarm_record;
    int64_t swarm_inner_steps, swarm_members_max, swarm_members_min, swarm_codec;
    double swarm_outer_lr, swarm_outer_momentum, swarm_quorum, swarm_shrink_after_s;
    double swarm_patience;
    int64_t ranks;                   /* of the site; 0: alone, whatever the strategy says */
    int64_t longest_document_tokens; /* tokens, when rows hold several; 0: a row is one document */
    enum recompute *layer_recompute; /* [layers], by settings_check_model */
};

/* settings_open: the run file (NULL: defaults only, for a bare model), then each override in turn,
 * then the checks of keys against each other.
 * overrides  "key.sub=value" as given on the command line; "key=" gives the key its default
 * memory     everything in `region`
 * errors     STATUS_INPUT at file:line:column or "command line": unknown key (naming the nearest),
 *            wrong type, value out of range, keys that contradict each other; STATUS_USAGE: an
 *            override without '='. *settings is then untouched */
MUST_CHECK enum status settings_open(const char *path, const char *const *overrides,
                                     int override_count, struct region *region,
                                     struct settings *settings, struct fault *fault);

/* Where a run starts from beside its text. */
struct settings_source {
    const char *path; /* the text's, which names it and which its paths are relative to */
    const char *stem; /* folder for unset outputs; NULL: `path` without its suffix */
    const char *const *overrides;
    int override_count;
};

/* settings_open_source: the same for `length` bytes of text that were read before. */
MUST_CHECK enum status settings_open_source(const struct settings_source *source, const char *text,
                                            size_t length, struct region *region,
                                            struct settings *settings, struct fault *fault);

/* settings_open_text: the same for a run file's `length` bytes of text that lie at `path`, without
 * overrides. Reads no file; asks only whether `model` exists. */
MUST_CHECK enum status settings_open_text(const char *text, size_t length, const char *path,
                                          struct region *region, struct settings *settings,
                                          struct fault *fault);

/* settings_check_model: what can be checked only against the model: sequence and context within its
 * positions, data.documents within its vocabulary, a recompute kind per layer. Fills in what
 * follows from the model: sequence, batch_tokens, context, layer_recompute.
 * errors  STATUS_INPUT naming the key and the model's figure; *settings is then untouched */
MUST_CHECK enum status settings_check_model(struct settings *settings,
                                            const struct blueprint *blueprint,
                                            struct region *region, struct fault *fault);

/* settings_location: where the value of a key came from: "run.yaml:3:1" or "command line"; for a
 * default the run file, if there is one.
 * limits  `name` is a key's */
const char *settings_location(const struct settings *settings, const char *name);

/* settings_key_location: the same for reasons that do not name the key: "command line: frozen".
 * memory  in `region`, or where settings_location has it */
const char *settings_key_location(const struct settings *settings, const char *name,
                                  struct region *region);

/* settings_learning_rate: learning rate of step `step` (counted from 0) of settings->steps. Warm-up
 * is linear from lr / warmup_steps, reached in step 0, to lr. Cosine then falls to a tenth of lr,
 * WSD holds lr and falls linearly to zero over the last fifth of all steps; both would arrive at
 * step settings->steps. */
double settings_learning_rate(const struct settings *settings, int64_t step);

/* settings_eval_rows: rows of an evaluation that reads eval.tokens, the last one whole; 0 for
 * all. */
int64_t settings_eval_rows(const struct settings *settings);

/* settings_print_keys: every key with class, default, unit and meaning; for `skep help keys`. */
void settings_print_keys(struct text *text);

/* settings_describe: every key with its effective value, one "key: value" a line, in the table's
 * order: what a snapshot and the metrics' start line carry. shared_only leaves local keys out.
 * Reads back as a run file with the same effect. */
void settings_describe(const struct settings *settings, bool shared_only, struct text *text);

/* settings_describe_bytes_max: bytes that settings_describe's text takes at most, with its NUL; as
 * JSON with names in quotes too. */
size_t settings_describe_bytes_max(const struct settings *settings);

/* settings_describe_key: one key's effective value, as setting_write gives it. */
void settings_describe_key(const struct settings *settings, const struct setting_key *key,
                           struct text *text);

#endif
