#include "runtime/settings/keys.h"

#include "base/check.h"
#include "base/limits.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/settings/run.h"

#include <string.h>

#define AT(field) offsetof(struct run, field)

#define MANY 1e15

/* name, class, type, field, default, unit, minimum, maximum, choices, meaning */
static const struct key KEYS[] = {
    {"model", SETTING_SHARED, SETTING_MODEL, AT(model), NULL, "", 0, 0, NULL,
     "folder, config.json, or org/name in the Hub cache"},
    {"init", SETTING_SHARED, SETTING_CHOICE, AT(init), "weights", "", 0, 0, "weights|random",
     "begin from the folder's weights, or from random ones"},
    {"seed", SETTING_SHARED, SETTING_INTEGER, AT(seed), "1", "", 0, 9e15, NULL,
     "of random weights and of the order of samples"},
    {"steps", SETTING_SHARED, SETTING_INTEGER, AT(steps), "1000", "steps", 1, 1e9, NULL,
     "optimizer steps in all"},
    {"pause_at", SETTING_LOCAL, SETTING_INTEGER, AT(pause_at), "0", "steps", 0, 1e9, NULL,
     "save and end when so many are done, to go on another time; 0: at the end"},
    {"threads", SETTING_LOCAL, SETTING_INTEGER, AT(threads), "0", "", 0, THREADS_MAX, NULL,
     "compute threads; 0: as many as the target has"},
    {"target", SETTING_LOCAL, SETTING_PROFILE, AT(target), NULL, "", 0, 0, NULL,
     "device profile: a name or a path; unset: this machine"},
    {"frozen", SETTING_SHARED, SETTING_TEXT, AT(frozen), NULL, "", 0, 0, NULL,
     "Hugging Face names, or beginnings of names, that do not train"},
    {"data.train", SETTING_SHARED, SETTING_PATHS, AT(train), NULL, "", 0, 0, NULL,
     "token files: a path, a pattern or a list"},
    {"data.validation", SETTING_SHARED, SETTING_PATHS, AT(validation), NULL, "", 0, 0, NULL,
     "held-out token files"},
    {"data.format", SETTING_SHARED, SETTING_TEXT, AT(data_format), NULL, "", 0, 0, "u16|u32|bytes",
     "where neither magic nor suffix tells"},
    {"data.documents", SETTING_SHARED, SETTING_INTEGER, AT(documents), "-1", "", -1, VOCAB_MAX - 1,
     NULL, "token that ends a document; -1: rows are plain text"},
    {"batch.sequence", SETTING_SHARED, SETTING_INTEGER, AT(sequence), "0", "tokens", 0, 1 << 24,
     NULL, "length of a row; 0: the model's positions, at most 1024"},
    {"batch.microbatch", SETTING_LOCAL, SETTING_INTEGER, AT(microbatch), "1", "rows", 1, 1 << 20,
     NULL, "rows computed at a time"},
    {"batch.tokens", SETTING_SHARED, SETTING_INTEGER, AT(batch_tokens), "0", "tokens", 0, 1e12,
     NULL, "tokens of a step, over all ranks; 0: one microbatch of each rank"},
    {"optimizer.lr", SETTING_SHARED, SETTING_REAL, AT(lr), "3e-4", "", 0, 1e3, NULL,
     "peak learning rate"},
    {"optimizer.betas", SETTING_SHARED, SETTING_PAIR, AT(betas), "0.9,0.95", "", 0, 0.99999999,
     NULL, "AdamW's two decay rates"},
    {"optimizer.eps", SETTING_SHARED, SETTING_REAL, AT(epsilon), "1e-8", "", 0, 1, NULL,
     "AdamW's epsilon, outside the root"},
    {"optimizer.weight_decay", SETTING_SHARED, SETTING_REAL, AT(weight_decay), "0.1", "", 0, 1e3,
     NULL, "decoupled, on tensors of two or more dimensions"},
    {"optimizer.clip_norm", SETTING_SHARED, SETTING_REAL, AT(clip_norm), "1.0", "", 0, 1e9, NULL,
     "largest global gradient norm; 0: no clipping"},
    {"schedule.kind", SETTING_SHARED, SETTING_CHOICE, AT(schedule), "cosine", "", 0, 0,
     "constant|cosine|wsd", "how the learning rate falls"},
    {"schedule.warmup_steps", SETTING_SHARED, SETTING_INTEGER, AT(warmup_steps), "0", "steps", 0,
     1e9, NULL, "linear rise at the beginning"},
    {"precision.params", SETTING_SHARED, SETTING_DTYPE, AT(params), "f32", "", 0, 0, NULL,
     "parameters as the kernels read them"},
    {"precision.compute", SETTING_SHARED, SETTING_DTYPE, AT(compute), "f32", "", 0, 0, NULL,
     "activations; equal to precision.params"},
    {"precision.master", SETTING_SHARED, SETTING_DTYPE, AT(master), "f32", "", 0, 0, NULL,
     "the copy that the optimizer updates; f32"},
    {"precision.moments", SETTING_SHARED, SETTING_DTYPE, AT(moments), "f32", "", 0, 0, NULL,
     "AdamW's moments"},
    {"precision.rounding", SETTING_SHARED, SETTING_CHOICE, AT(rounding), "nearest", "", 0, 0,
     "nearest|stochastic", "of bf16 moments; stochastic: right in the mean, also where they stand"},
    {"precision.reduce", SETTING_SHARED, SETTING_DTYPE, AT(reduce), "f32", "", 0, 0, NULL,
     "gradients on the wire between ranks"},
    {"precision.wire_sum", SETTING_SHARED, SETTING_CHOICE, AT(wire_sum), "exact", "", 0, 0,
     "exact|ring", "sums over ranks: in rank order, or, between GPUs, as NCCL's ring meets them"},
    {"strategy.zero", SETTING_LOCAL, SETTING_INTEGER, AT(zero), "3", "", 0, 3, NULL,
     "ZeRO stage between the ranks of a site; one rank splits nothing"},
    {"strategy.replicate", SETTING_LOCAL, SETTING_INTEGER, AT(replicate), "1", "", 1, 1 << 20, NULL,
     "replicas inside a site (hybrid sharding)"},
    {"strategy.prefetch", SETTING_LOCAL, SETTING_INTEGER, AT(prefetch), "1", "units", 0, 64, NULL,
     "units gathered ahead"},
    {"strategy.live", SETTING_LOCAL, SETTING_INTEGER, AT(live), "0", "units", 0, 1 << 20, NULL,
     "most units gathered at a time; 0: no bound"},
    {"strategy.units", SETTING_LOCAL, SETTING_TEXT, AT(units), "block", "", 0, 0, NULL,
     "gathered together: block, root, size:N, or Hugging Face names"},
    {"strategy.keep_gathered", SETTING_LOCAL, SETTING_CHOICE, AT(keep_gathered), "false", "", 0, 0,
     "false|true", "keep gathered parameters from forward to backward"},
    {"strategy.overrides", SETTING_LOCAL, SETTING_TEXT, AT(overrides), NULL, "", 0, 0, NULL,
     "of single units: NAME=zero:1;keep_gathered:true, ..."},
    {"strategy.recompute", SETTING_LOCAL, SETTING_TEXT, AT(recompute), "none", "", 0, 0, NULL,
     "none, selective or block; or a list, one for each layer"},
    {"strategy.offload", SETTING_LOCAL, SETTING_TEXT, AT(offload), "none", "", 0, 0, NULL,
     "what lies in host memory between uses: none, or a list of activations, optimizer, "
     "params"},
    {"strategy.reduce_at", SETTING_SHARED, SETTING_CHOICE, AT(reduce_at), "microbatch", "", 0, 0,
     "microbatch|step", "when gradients are summed over ranks; step: with ZeRO 0 and 1"},
    {"generate.context", SETTING_LOCAL, SETTING_INTEGER, AT(context), "0", "tokens", 0, 1 << 24,
     NULL, "capacity of the key-value cache; 0: the sequence"},
    {"eval.every", SETTING_LOCAL, SETTING_INTEGER, AT(eval_every), "0", "steps", 0, 1e9, NULL,
     "evaluate on data.validation; 0: only at the end"},
    {"eval.tokens", SETTING_LOCAL, SETTING_INTEGER, AT(eval_tokens), "262144", "tokens", 0, 1e15,
     NULL, "most of data.validation that an evaluation reads; 0: all of it"},
    {"snapshot.folder", SETTING_LOCAL, SETTING_PATH, AT(snapshot_folder), NULL, "", 0, 0, NULL,
     "where snapshots go; unset: STEM/snapshots"},
    {"snapshot.every", SETTING_LOCAL, SETTING_INTEGER, AT(snapshot_every), "0", "steps", 0, 1e9,
     NULL, "0: only at the end and when stopped"},
    {"snapshot.keep", SETTING_LOCAL, SETTING_INTEGER, AT(snapshot_keep), "2", "", 1,
     SNAPSHOTS_MAX - 1, NULL, "how many of the newest stay"},
    {"export", SETTING_LOCAL, SETTING_PATH, AT(export), NULL, "", 0, 0, NULL,
     "Hugging Face folder written at the end; unset: STEM/model"},
    {"metrics", SETTING_LOCAL, SETTING_PATH, AT(metrics), NULL, "", 0, 0, NULL,
     "JSON lines; unset: STEM/metrics.jsonl"},
    {"trace", SETTING_LOCAL, SETTING_PATH, AT(trace), NULL, "", 0, 0, NULL,
     "Chrome trace of some steps, all ranks in one file; unset: none"},
    {"trace_steps", SETTING_LOCAL, SETTING_TEXT, AT(trace_steps), "3:5", "steps", 0, 0, NULL,
     "FIRST:LAST, counted from 1: the steps that are traced"},
    {"limits.device", SETTING_LOCAL, SETTING_BYTES, AT(limit_device), "0", "bytes", 0, MANY, NULL,
     "lowers the target's capacity; 0: no limit"},
    {"limits.disk", SETTING_LOCAL, SETTING_BYTES, AT(limit_disk), "0", "bytes", 0, MANY, NULL,
     "most that snapshots and exports may take; 0: what is free"},
    {"limits.up", SETTING_LOCAL, SETTING_BYTES, AT(limit_up), "0", "bytes/s", 0, MANY, NULL,
     "to the swarm; 0: no limit"},
    {"limits.down", SETTING_LOCAL, SETTING_BYTES, AT(limit_down), "0", "bytes/s", 0, MANY, NULL,
     "from the swarm; 0: no limit"},
    {"stop_within", SETTING_LOCAL, SETTING_SECONDS, AT(stop_within_s), "8", "s", 0, 86400, NULL,
     "time to save and end when asked to stop"},
    {"swarm.name", SETTING_SHARED, SETTING_TEXT, AT(swarm_name), NULL, "", 0, 0, NULL,
     "names the swarm and its manifest"},
    {"swarm.inner_steps", SETTING_SHARED, SETTING_INTEGER, AT(swarm_inner_steps), "100", "steps", 1,
     1e6, NULL, "steps between exchanges"},
    {"swarm.outer_lr", SETTING_SHARED, SETTING_REAL, AT(swarm_outer_lr), "0.7", "", 0, 10, NULL,
     "outer learning rate"},
    {"swarm.outer_momentum", SETTING_SHARED, SETTING_REAL, AT(swarm_outer_momentum), "0.9", "", 0,
     1, NULL, "outer Nesterov momentum"},
    {"swarm.codec", SETTING_SHARED, SETTING_CHOICE, AT(swarm_codec), "int8", "", 0, 0,
     "fp32|bf16|int8|int4|sparse", "encoding of pseudo-gradients"},
    {"swarm.members_max", SETTING_SHARED, SETTING_INTEGER, AT(swarm_members_max), "16", "", 1, 4096,
     NULL, "most members at a time"},
    {"swarm.members_min", SETTING_SHARED, SETTING_INTEGER, AT(swarm_members_min), "1", "", 1, 4096,
     NULL, "ready members without whom no round opens"},
    {"swarm.patience", SETTING_SHARED, SETTING_REAL, AT(swarm_patience), "2", "", 1, 1e6, NULL,
     "times what a round's steps take, its training may last: slower members stop short"},
    {"swarm.quorum", SETTING_SHARED, SETTING_REAL, AT(swarm_quorum), "0.5", "", 0.5, 1, NULL,
     "share of the roster that must be exceeded"},
    {"swarm.shrink_after", SETTING_SHARED, SETTING_SECONDS, AT(swarm_shrink_after_s), "60", "s", 0,
     1e6, NULL, "before a round below quorum opens anew; 0: never"},
    {"swarm.record", SETTING_LOCAL, SETTING_PATH, AT(swarm_record), NULL, "", 0, 0, NULL,
     "folder for every round's contribution and result"},
};

_Static_assert(sizeof KEYS / sizeof KEYS[0] <= RUN_KEYS_MAX, "the table outgrew its limit");

int setting_key_count(void) {
    return (int)ARRAY_COUNT(KEYS);
}

const struct key *setting_key_at(int index) {
    ASSERT(index >= 0 && index < setting_key_count());
    return &KEYS[index];
}

const struct key *setting_key_find(const char *name) {
    for (int i = 0; i < setting_key_count(); i++) {
        if (strcmp(KEYS[i].name, name) == 0) {
            return &KEYS[i];
        }
    }
    return NULL;
}

const char *const *setting_key_names(void) {
    static const char *names[RUN_KEYS_MAX];
    for (int i = 0; i < setting_key_count(); i++) {
        names[i] = KEYS[i].name;
    }
    return names;
}
