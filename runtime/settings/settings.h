/* settings: reads a run file and key=value overrides into one struct of checked settings. The table
 * of keys is in setting_keys.c; sharding_settings.h derives the units and the sharding of a model,
 * comma_list.h and path_list.h read lists, and model_config.h reads a model's config.json.
 *
 * public   comma_list.h model_config.h other_trainers.h path_list.h setting_keys.h
 *          sharding_settings.h */
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

enum learning_rate_kind { RATE_CONSTANT, RATE_COSINE, RATE_WSD /* warm-up, stable, decay */ };
enum init_kind { INIT_FROM_WEIGHTS, INIT_RANDOM }; /* where the first weights come from */
/* Value of swarm.member_betas, member_decay and member_variance: whether that setting of the
 * optimizer changes with the number of members. */
enum member_setting {
    MEMBER_FIXED, /* the setting is the same for any number of members */
    MEMBER_AUTO   /* the setting follows from the number of members */
};

/* The value of a key with two numbers, such as optimizer.betas. */
struct number_pair {
    double first, second; /* the two numbers, such as the two betas */
};

/* Values of settings->document_end_token that are not ids of tokens. */
enum document_end {
    DOCUMENT_END_OF_FILES = -1, /* the token in the headers of the files that have one */
    DOCUMENT_END_NONE = -2      /* documents do not end with a token */
};

/* The settings of a run; keys that were not set have their defaults. setting_keys.h states the
 * type of a field for each type of key. Unset texts and paths are NULL. Paths are relative to the
 * working directory. */
struct settings {
    const char *run_file;         /* Path of the run file, or "". */
    const char *folder;           /* Folder of the run file; "": the working directory. */
    const char **value_locations; /* Location of each key's value; NULL if no line has it. */
    bool *given;                  /* [key]: whether the key has a value, and not its default. */
    bool is_fine_tuning; /* A run starts from a model's weights; set by settings_check_model. */
    const char *stem;  /* Default folder of outputs: the path of the run file without its suffix. */
    const char *model; /* Folder, config.json, or org/name in the Hub cache. */
    int64_t init_kind; /* enum init_kind */
    /* Seed of all random numbers; steps of the run; step after which to save and exit, 0: never. */
    int64_t seed, steps, pause_at;
    /* Length of the run in passes over the data; 0: `steps` is the length. data_resolve_epochs sets
     * steps from this value. */
    double epochs;
    bool has_epochs;    /* Whether `steps` was set from epochs. */
    int64_t threads;    /* Number of compute threads; 0: that of the target. */
    const char *target; /* Profile of the target; NULL: this machine. */
    const char *frozen; /* Names of parameters that are not trained; NULL: none. */
    struct path_list train_files, validation_files; /* Paths and patterns; a count of 0: unset. */
    const char *data_format;   /* Format of token files: u16, u32 or bytes; NULL: unset. */
    const char *chat_template; /* Name of the template of conversations; NULL: the model's. */
    /* Whether the tokens of the model are not the bytes of a text, so that text must be tokenised
     * first; set by settings_check_model. */
    bool text_needs_tokenizer;
    int64_t document_end_token; /* token that ends a document, or enum document_end */
    /* Tokens of one row, and tokens of one optimizer step; 0: settings_check_model derives the
     * value. */
    int64_t sequence_tokens, batch_tokens;
    /* Rows that one forward and backward pass processes on one rank. */
    int64_t microbatch;
    /* Peak learning rate, epsilon and weight decay of AdamW; limit of the gradient's norm. */
    double learning_rate, epsilon, weight_decay, clip_norm;
    struct number_pair betas;   /* AdamW decay rates of the two moments. */
    int64_t learning_rate_kind; /* schedule of the learning rate: enum learning_rate_kind */
    int64_t warmup_steps;       /* steps over which the learning rate rises */
    int64_t params_dtype, compute_dtype, master_dtype, moments_dtype, reduce_dtype; /* enum dtype */
    int64_t export_dtype;         /* type of the exported weights: enum dtype */
    int64_t rounding;             /* rounding of bf16 moments: enum rounding */
    int64_t wire_sum;             /* Order of sums over ranks: exact or ring. */
    int64_t zero_stage, replicas; /* ZeRO stage 0 to 3; number of replicas inside a site */
    int64_t prefetch_units;       /* Number of units gathered in advance. */
    int64_t gathered_units_max;   /* Maximum number of gathered units; 0: unlimited. */
    int64_t keep_gathered; /* Whether gathered parameters are kept until the backward pass. */
    int64_t reduce_at; /* When gradients are summed over ranks: each microbatch, or once a step. */
    const char *unit_policy, *unit_overrides, *offload; /* Texts of strategy.* keys. */
    unsigned offload_kinds;                             /* bits of enum offload */
    /* One kind of recomputation, or a comma-separated list with one kind for each layer. */
    const char *recompute;
    int64_t context_tokens; /* Capacity of the key-value cache in tokens; 0: sequence_tokens. */
    /* Number of steps between evaluations; maximum number of tokens of an evaluation. */
    int64_t eval_every, eval_tokens;
    /* Number of steps between snapshots; number of snapshots to keep. */
    int64_t snapshot_every, snapshot_keep;
    const char *snapshot_folder, *export_folder, *metrics_path;
    /* Path of the trace, NULL: no trace; range of steps that are traced. */
    const char *trace_path, *trace_steps;
    uint64_t limit_device, limit_disk; /* bytes; 0: no limit */
    uint64_t limit_up, limit_down;     /* bytes per second to and from the swarm; 0: no limit */
    double stop_within_s;              /* Time limit to save and exit after a signal to stop. */
    /* Name of the swarm; folder for the files of every round, NULL: none. */
    const char *swarm_name, *swarm_record;
    int64_t swarm_inner_steps; /* Inner steps of a round. */
    /* maximum number of members; minimum number with which a round opens */
    int64_t swarm_members_max, swarm_members_min;
    int64_t swarm_codec; /* Encoding of contributions. */
    /* With the sparse codec: indices of the choices of how many values are sent of each 4,096, and
     * of the bits of a value. */
    int64_t swarm_sparse_values, swarm_sparse_bits;
    int64_t swarm_forks; /* copies of the tracker's store: 0: accepted; 1: refused */
    double swarm_outer_lr, swarm_outer_momentum; /* Rates of the outer optimizer. */
    /* Outer gain, from which the outer momentum follows; 0: swarm_outer_momentum applies. */
    double swarm_outer_gain;
    /* Whether betas, weight decay and divisor follow from the number of members: enum
     * member_setting. */
    int64_t swarm_member_betas, swarm_member_decay, swarm_member_variance;
    double swarm_quorum;         /* Share of the roster whose votes a commit must exceed. */
    double swarm_shrink_after_s; /* Time after which a round below quorum is reopened. */
    double swarm_patience;       /* Limit on training, as a multiple of the typical time. */
    int64_t ranks;               /* ranks of the site; 0: one rank, and `strategy` has no effect */
    /* length of the longest document when rows have several; 0: each row is one document */
    int64_t longest_document_tokens;
    /* [layers] recomputation of each layer, set by settings_check_model */
    enum recompute *layer_recompute;
};

/* settings_open: read the run file `path` (NULL: only defaults), apply each override in order, and
 * check keys against each other.
 * overrides  "key.sub=value" as on the command line; "key=" selects the key's default
 * memory     in `region`
 * errors     STATUS_INPUT at file:line:column or "command line" for an unknown key (the remedy
 *            suggests the nearest), a wrong type, a value out of range or contradictory keys;
 *            STATUS_USAGE for an override without '='. *settings is then unchanged */
MUST_CHECK enum status settings_open(const char *path, const char *const *overrides,
                                     int override_count, struct region *region,
                                     struct settings *settings, struct fault *fault);

/* Arguments of settings_open_source other than the text. */
struct settings_source {
    const char *path; /* Path of the text, for messages and as the base of relative paths. */
    const char *stem; /* Default folder of outputs; NULL: `path` without its suffix. */
    const char *const *overrides; /* [override_count]: texts of the form "key=value" */
    int override_count;
};

/* settings_open_source: settings_open for `length` bytes of text that the caller has read. */
MUST_CHECK enum status settings_open_source(const struct settings_source *source, const char *text,
                                            size_t length, struct region *region,
                                            struct settings *settings, struct fault *fault);

/* settings_open_text: settings_open_source without overrides. It reads no file, and only tests
 * whether the path of `model` exists. */
MUST_CHECK enum status settings_open_text(const char *text, size_t length, const char *path,
                                          struct region *region, struct settings *settings,
                                          struct fault *fault);

/* settings_check_model: check settings against the model: batch.sequence and generate.context must
 * be within its positions, data.documents within its vocabulary, and strategy.recompute must match
 * its layers. Sets sequence_tokens, batch_tokens, context_tokens, layer_recompute,
 * text_needs_tokenizer, and the types, learning rate and warm-up that were not given. A run file
 * with init: weights gets those for fine-tuning: the type in the model's config.json, a learning
 * rate of 2e-5 and a warm-up of 20 steps. A model without a run file is computed in f32.
 * errors  STATUS_INPUT, with the key and the model's value; *settings is then unchanged */
MUST_CHECK enum status settings_check_model(struct settings *settings,
                                            const struct blueprint *blueprint,
                                            struct region *region, struct fault *fault);

/* settings_location: return the source of a key's value: "run.yaml:3:1" or "command line"; for a
 * default, the run file if one was read.
 * limits  `name` is the name of a key */
const char *settings_location(const struct settings *settings, const char *name);

/* settings_is_given: whether the run file or an override has a value for the key `name`. */
bool settings_is_given(const struct settings *settings, const char *name);

/* settings_default_source: return in a few words how the default of a key was determined, such as
 * "the model's type"; NULL if the key was given. Call it after settings_check_model. */
const char *settings_default_source(const struct settings *settings, const struct setting_key *key);

/* settings_key_location: return the source of a key's value with the key's name: "command line:
 * frozen". For messages without that name.
 * memory  in `region`, or the string of settings_location */
const char *settings_key_location(const struct settings *settings, const char *name,
                                  struct region *region);

/* settings_learning_rate: return the learning rate of optimizer step `step`, counted from 0. The
 * rate rises linearly from lr / warmup_steps in step 0 to lr. The cosine schedule then decreases it
 * to a tenth of lr; WSD holds lr and decreases it linearly to zero over the last fifth of all
 * steps. Both would reach their final rate in step settings->steps. */
double settings_learning_rate(const struct settings *settings, int64_t step);

/* settings_eval_rows: return the number of rows in an evaluation that eval.tokens requires; 0: all
 * rows. */
int64_t settings_eval_rows(const struct settings *settings);

/* settings_print_keys: append the table of keys that `skep help keys` prints. */
void settings_print_keys(struct text *text);

/* settings_describe: append a line "key: value" for each key, in the order of the table, as stored
 * in snapshots. Local keys are omitted if `shared_only` is true. The text is a run file with the
 * same settings. */
void settings_describe(const struct settings *settings, bool shared_only, struct text *text);

/* settings_describe_bytes_max: return the maximum size of settings_describe's text with its NUL,
 * also if it is written as JSON with quoted names. */
size_t settings_describe_bytes_max(const struct settings *settings);

/* settings_describe_key: append the value of one key in the format of setting_write. */
void settings_describe_key(const struct settings *settings, const struct setting_key *key,
                           struct text *text);

#endif
