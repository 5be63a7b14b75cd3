#include "runtime/settings/setting_keys.h"

#include "base/check.h"
#include "base/limits.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/settings/settings.h"

#include <string.h>

#define FIELD(field) offsetof(struct settings, field)

#define BYTES_MAX 1e15

/* Columns: name, class, type, field, default, unit, minimum, maximum, choices, help. */
static const struct setting_key KEYS[] = {
    {"model", SETTING_SHARED, SETTING_MODEL, FIELD(model), NULL, "", 0, 0, NULL,
     "model folder, config.json, or org/name in the Hub cache"},
    {"init", SETTING_SHARED, SETTING_CHOICE, FIELD(init_kind), "weights", "", 0, 0,
     "weights|random", "initial weights: those of the model folder, or random"},
    {"seed", SETTING_SHARED, SETTING_INTEGER, FIELD(seed), "1", "", 0, 9e15, NULL,
     "seed of random weights and of the sample order"},
    {"steps", SETTING_SHARED, SETTING_INTEGER, FIELD(steps), "1000", "steps", 1, 1e9, NULL,
     "total number of optimizer steps"},
    {"epochs", SETTING_SHARED, SETTING_REAL, FIELD(epochs), "0", "passes", 0, 1e6, NULL,
     "length of the run in passes over data.train, instead of steps; 0: the key steps sets the "
     "length"},
    {"pause_at", SETTING_LOCAL, SETTING_INTEGER, FIELD(pause_at), "0", "steps", 0, 1e9, NULL,
     "save and exit after this many steps; the next start resumes; 0: never"},
    {"threads", SETTING_LOCAL, SETTING_INTEGER, FIELD(threads), "0", "", 0, THREADS_MAX, NULL,
     "number of compute threads; 0: the number in the target's profile"},
    {"target", SETTING_LOCAL, SETTING_PROFILE, FIELD(target), NULL, "", 0, 0, NULL,
     "profile to plan for: a name or a path; unset: this machine"},
    {"frozen", SETTING_SHARED, SETTING_TEXT, FIELD(frozen), NULL, "", 0, 0, NULL,
     "parameters that are not trained: their Hugging Face names, or prefixes of them"},
    {"data.train", SETTING_SHARED, SETTING_PATHS, FIELD(train_files), NULL, "", 0, 0, NULL,
     "token files: a path, a pattern or a list"},
    {"data.validation", SETTING_SHARED, SETTING_PATHS, FIELD(validation_files), NULL, "", 0, 0,
     NULL, "held-out token files"},
    {"data.format", SETTING_SHARED, SETTING_TEXT, FIELD(data_format), NULL, "", 0, 0,
     "u16|u32|bytes", "token format of files whose header and suffix do not determine it"},
    {"data.documents", SETTING_SHARED, SETTING_INTEGER, FIELD(document_end_token), "-1", "", -2,
     VOCAB_MAX - 1, NULL,
     "id of the token that ends a document; -1: as in the headers of the files; -2: none"},
    {"data.chat", SETTING_SHARED, SETTING_TEXT, FIELD(chat_template), NULL, "", 0, 0,
     "chatml|llama3|mistral|qwen3",
     "template of conversations in JSON lines; unset: the model's, if skep knows it"},
    {"batch.sequence", SETTING_SHARED, SETTING_INTEGER, FIELD(sequence_tokens), "0", "tokens", 0,
     1 << 24, NULL, "tokens in a row of a batch; 0: the model's number of positions, at most 1024"},
    {"batch.microbatch", SETTING_LOCAL, SETTING_INTEGER, FIELD(microbatch), "1", "rows", 1, 1 << 20,
     NULL, "rows that one forward and backward pass processes"},
    {"batch.tokens", SETTING_SHARED, SETTING_INTEGER, FIELD(batch_tokens), "0", "tokens", 0, 1e12,
     NULL, "tokens per step over all ranks; 0: one microbatch per rank"},
    {"optimizer.lr", SETTING_SHARED, SETTING_REAL, FIELD(learning_rate), "3e-4", "", 0, 1e3, NULL,
     "peak learning rate; unset with init: weights: 2e-5"},
    {"optimizer.betas", SETTING_SHARED, SETTING_PAIR, FIELD(betas), "0.9,0.95", "", 0, 0.99999999,
     NULL, "AdamW's two decay rates"},
    {"optimizer.eps", SETTING_SHARED, SETTING_REAL, FIELD(epsilon), "1e-8", "", 0, 1, NULL,
     "AdamW's epsilon, added outside the square root"},
    {"optimizer.weight_decay", SETTING_SHARED, SETTING_REAL, FIELD(weight_decay), "0.1", "", 0, 1e3,
     NULL, "decoupled weight decay of tensors with two or more dimensions"},
    {"optimizer.clip_norm", SETTING_SHARED, SETTING_REAL, FIELD(clip_norm), "1.0", "", 0, 1e9, NULL,
     "maximum global gradient norm; 0: no clipping"},
    {"schedule.kind", SETTING_SHARED, SETTING_CHOICE, FIELD(learning_rate_kind), "cosine", "", 0, 0,
     "constant|cosine|wsd", "decay of the learning rate"},
    {"schedule.warmup_steps", SETTING_SHARED, SETTING_INTEGER, FIELD(warmup_steps), "0", "steps", 0,
     1e9, NULL, "steps over which the learning rate rises linearly; unset with init: weights: 20"},
    {"precision.params", SETTING_SHARED, SETTING_DTYPE, FIELD(params_dtype), "auto", "", 0, 0,
     "auto|f32|bf16",
     "type of the parameters that kernels read; auto: that of the model's files with init: "
     "weights, else f32"},
    {"precision.compute", SETTING_SHARED, SETTING_DTYPE, FIELD(compute_dtype), "auto", "", 0, 0,
     "auto|f32|bf16",
     "type of activations; must equal precision.params; auto: that of precision.params"},
    {"precision.master", SETTING_SHARED, SETTING_DTYPE, FIELD(master_dtype), "f32", "", 0, 0, NULL,
     "type of the copy that the optimizer updates; must be f32"},
    {"precision.moments", SETTING_SHARED, SETTING_DTYPE, FIELD(moments_dtype), "f32", "", 0, 0,
     NULL, "type of AdamW's moments"},
    {"precision.rounding", SETTING_SHARED, SETTING_CHOICE, FIELD(rounding), "nearest", "", 0, 0,
     "nearest|stochastic",
     "rounding of bf16 moments; stochastic: unbiased, so that small changes are not lost"},
    {"precision.reduce", SETTING_SHARED, SETTING_DTYPE, FIELD(reduce_dtype), "f32", "", 0, 0, NULL,
     "type of gradients sent between ranks"},
    {"precision.wire_sum", SETTING_SHARED, SETTING_CHOICE, FIELD(wire_sum), "exact", "", 0, 0,
     "exact|ring", "summation order over ranks: exact: ascending ranks; ring: same as NCCL's ring"},
    {"strategy.zero", SETTING_LOCAL, SETTING_INTEGER, FIELD(zero_stage), "3", "", 0, 3, NULL,
     "ZeRO stage of the ranks of a site; no effect with a single rank"},
    {"strategy.replicate", SETTING_LOCAL, SETTING_INTEGER, FIELD(replicas), "1", "", 1, 1 << 20,
     NULL, "replicas inside a site (hybrid sharding)"},
    {"strategy.prefetch", SETTING_LOCAL, SETTING_INTEGER, FIELD(prefetch_units), "1", "units", 0,
     64, NULL, "number of units that are gathered before they are needed"},
    {"strategy.live", SETTING_LOCAL, SETTING_INTEGER, FIELD(gathered_units_max), "0", "units", 0,
     1 << 20, NULL, "maximum number of units gathered at the same time; 0: unlimited"},
    {"strategy.units", SETTING_LOCAL, SETTING_TEXT, FIELD(unit_policy), "block", "", 0, 0, NULL,
     "how parameters are grouped in units: block, root, size:N, or Hugging Face names"},
    {"strategy.keep_gathered", SETTING_LOCAL, SETTING_CHOICE, FIELD(keep_gathered), "false", "", 0,
     0, "false|true", "keep gathered parameters from the forward to the backward pass"},
    {"strategy.overrides", SETTING_LOCAL, SETTING_TEXT, FIELD(unit_overrides), NULL, "", 0, 0, NULL,
     "settings of individual units: NAME=zero:1;keep_gathered:true, ..."},
    {"strategy.recompute", SETTING_LOCAL, SETTING_TEXT, FIELD(recompute), "none", "", 0, 0, NULL,
     "activations to recompute: none, selective, block, or a list with one per layer"},
    {"strategy.offload", SETTING_LOCAL, SETTING_TEXT, FIELD(offload), "none", "", 0, 0, NULL,
     "what to store in host memory between uses: none, or a list of activations, optimizer, "
     "params"},
    {"strategy.reduce_at", SETTING_SHARED, SETTING_CHOICE, FIELD(reduce_at), "microbatch", "", 0, 0,
     "microbatch|step", "when gradients are summed over ranks; step requires ZeRO 0 or 1"},
    {"generate.context", SETTING_LOCAL, SETTING_INTEGER, FIELD(context_tokens), "0", "tokens", 0,
     1 << 24, NULL, "capacity of the key-value cache; 0: batch.sequence"},
    {"eval.every", SETTING_SHARED, SETTING_INTEGER, FIELD(eval_every), "0", "steps", 0, 1e9, NULL,
     "steps between evaluations on data.validation; 0: only at the end"},
    {"eval.tokens", SETTING_LOCAL, SETTING_INTEGER, FIELD(eval_tokens), "262144", "tokens", 0, 1e15,
     NULL, "maximum number of tokens in an evaluation; 0: all of data.validation"},
    {"snapshot.folder", SETTING_LOCAL, SETTING_PATH, FIELD(snapshot_folder), NULL, "", 0, 0, NULL,
     "folder for snapshots; unset: RUN/snapshots for RUN.yaml"},
    {"snapshot.every", SETTING_LOCAL, SETTING_INTEGER, FIELD(snapshot_every), "0", "steps", 0, 1e9,
     NULL, "steps between snapshots; 0: only at the end and when stopped"},
    {"snapshot.keep", SETTING_LOCAL, SETTING_INTEGER, FIELD(snapshot_keep), "2", "", 1,
     SNAPSHOTS_MAX - 1, NULL, "number of newest snapshots to keep"},
    {"export", SETTING_LOCAL, SETTING_PATH, FIELD(export_folder), NULL, "", 0, 0, NULL,
     "folder of the Hugging Face model that is written at the end; unset: RUN/model for RUN.yaml"},
    {"export.dtype", SETTING_LOCAL, SETTING_DTYPE, FIELD(export_dtype), "auto", "", 0, 0,
     "auto|f32|bf16", "type of the exported weights; auto: precision.params"},
    {"metrics", SETTING_LOCAL, SETTING_PATH, FIELD(metrics_path), NULL, "", 0, 0, NULL,
     "file for metrics as JSON lines; unset: RUN/metrics.jsonl for RUN.yaml"},
    {"trace", SETTING_LOCAL, SETTING_PATH, FIELD(trace_path), NULL, "", 0, 0, NULL,
     "file for a Chrome trace of all ranks; unset: no trace"},
    {"trace_steps", SETTING_LOCAL, SETTING_TEXT, FIELD(trace_steps), "3:5", "steps", 0, 0, NULL,
     "first and last step to trace, counted from 1"},
    {"limits.device", SETTING_LOCAL, SETTING_BYTES, FIELD(limit_device), "0", "bytes", 0, BYTES_MAX,
     NULL, "limit on device memory below the target's capacity; 0: no limit"},
    {"limits.disk", SETTING_LOCAL, SETTING_BYTES, FIELD(limit_disk), "0", "bytes", 0, BYTES_MAX,
     NULL, "limit on disk space for snapshots and exports; 0: the free space"},
    {"limits.up", SETTING_LOCAL, SETTING_BYTES, FIELD(limit_up), "0", "bytes/s", 0, BYTES_MAX, NULL,
     "limit on the upload rate to the swarm; 0: no limit"},
    {"limits.down", SETTING_LOCAL, SETTING_BYTES, FIELD(limit_down), "0", "bytes/s", 0, BYTES_MAX,
     NULL, "limit on the rate received from the swarm; 0: no limit"},
    {"stop_within", SETTING_LOCAL, SETTING_SECONDS, FIELD(stop_within_s), "8", "s", 0, 86400, NULL,
     "time limit for saving and exiting after a signal to stop"},
    {"swarm.name", SETTING_SHARED, SETTING_TEXT, FIELD(swarm_name), NULL, "", 0, 0, NULL,
     "name of the swarm, and of its manifest file"},
    {"swarm.inner_steps", SETTING_SHARED, SETTING_INTEGER, FIELD(swarm_inner_steps), "100", "steps",
     1, 1e6, NULL, "inner steps of each member in a round"},
    {"swarm.outer_lr", SETTING_SHARED, SETTING_REAL, FIELD(swarm_outer_lr), "0.7", "", 0, 10, NULL,
     "outer learning rate"},
    {"swarm.outer_momentum", SETTING_SHARED, SETTING_REAL, FIELD(swarm_outer_momentum), "0.9", "",
     0, 1, NULL, "outer Nesterov momentum"},
    {"swarm.outer_gain", SETTING_SHARED, SETTING_REAL, FIELD(swarm_outer_gain), "0", "", 0, 1e3,
     NULL,
     "outer gain G of one member: with M members, the outer momentum is max(0, 1 - outer_lr / (G "
     "sqrt(M))); 0: it is swarm.outer_momentum"},
    {"swarm.member_betas", SETTING_SHARED, SETTING_CHOICE, FIELD(swarm_member_betas), "fixed", "",
     0, 0, "fixed|auto", "betas of a member; auto: with M members, 1 - beta is divided by M"},
    {"swarm.member_decay", SETTING_SHARED, SETTING_CHOICE, FIELD(swarm_member_decay), "fixed", "",
     0, 0, "fixed|auto", "weight decay of a member; auto: with M members, it is divided by M"},
    {"swarm.member_variance", SETTING_SHARED, SETTING_CHOICE, FIELD(swarm_member_variance), "fixed",
     "", 0, 0, "fixed|auto",
     "square of AdamW's divisor; fixed: v; auto: with M members, v / M + (1 - 1 / M) m^2; m and v "
     "are the moments"},
    {"swarm.codec", SETTING_SHARED, SETTING_CHOICE, FIELD(swarm_codec), "int8", "", 0, 0,
     "fp32|bf16|int8|int4|sparse", "encoding of pseudo-gradients"},
    {"swarm.sparse_values", SETTING_SHARED, SETTING_CHOICE, FIELD(swarm_sparse_values), "64", "", 0,
     0, "32|64|128|256", "with swarm.codec sparse: values sent of each 4,096"},
    {"swarm.sparse_bits", SETTING_SHARED, SETTING_CHOICE, FIELD(swarm_sparse_bits), "2", "", 0, 0,
     "1|2|4", "with swarm.codec sparse: bits of a value that is sent"},
    {"swarm.members_max", SETTING_SHARED, SETTING_INTEGER, FIELD(swarm_members_max), "16", "", 1,
     4096, NULL, "maximum number of members"},
    {"swarm.members_min", SETTING_SHARED, SETTING_INTEGER, FIELD(swarm_members_min), "1", "", 1,
     4096, NULL,
     "minimum number of ready members that may vote to open a round; guests do not count"},
    {"swarm.patience", SETTING_SHARED, SETTING_REAL, FIELD(swarm_patience), "1.1", "", 1, 1e6, NULL,
     "limit on a round's training, as a multiple of its typical time; slower members "
     "stop early"},
    {"swarm.quorum", SETTING_SHARED, SETTING_REAL, FIELD(swarm_quorum), "0.5", "", 0.5, 1, NULL,
     "share of the roster; a commit needs the votes of more than this share"},
    {"swarm.shrink_after", SETTING_SHARED, SETTING_SECONDS, FIELD(swarm_shrink_after_s), "60", "s",
     0, 1e6, NULL,
     "time after which a round with too few members for a quorum is reopened; 0: never"},
    {"swarm.forks", SETTING_SHARED, SETTING_CHOICE, FIELD(swarm_forks), "refused", "", 0, 0,
     "accepted|refused",
     "whether two copies of the tracker may both commit rounds, each with some of the members"},
    {"swarm.record", SETTING_LOCAL, SETTING_PATH, FIELD(swarm_record), NULL, "", 0, 0, NULL,
     "folder to which the contribution and the result of every round are written"},
};

_Static_assert(sizeof KEYS / sizeof KEYS[0] <= RUN_KEYS_MAX,
               "the table has at most RUN_KEYS_MAX keys");

int setting_key_count(void) {
    return (int)ARRAY_COUNT(KEYS);
}

const struct setting_key *setting_key_at(int index) {
    ASSERT(index >= 0 && index < setting_key_count());
    return &KEYS[index];
}

const struct setting_key *setting_key_find(const char *name) {
    for (int i = 0; i < setting_key_count(); i++) {
        if (strcmp(KEYS[i].name, name) == 0) {
            return &KEYS[i];
        }
    }
    return NULL;
}

const struct setting_key *setting_key_find_by_end(const char *end) {
    const struct setting_key *found = setting_key_find(end);
    int count = 0;
    if (found != NULL) {
        return found;
    }
    for (int i = 0; i < setting_key_count(); i++) {
        const char *dot = strrchr(KEYS[i].name, '.');
        if (dot != NULL && strcmp(dot + 1, end) == 0) {
            found = &KEYS[i];
            count++;
        }
    }
    return count == 1 ? found : NULL;
}

const char *const *setting_key_names(void) {
    static const char *names[RUN_KEYS_MAX];
    for (int i = 0; i < setting_key_count(); i++) {
        names[i] = KEYS[i].name;
    }
    return names;
}
