#include "runtime/settings/other_trainers.h"

#include "base/check.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>

static const char PRECISION[] =
    "write precision: bf16 or precision: f32, which sets precision.params";
static const char MICROBATCH[] = "use batch.microbatch, the rows of one forward pass";
static const char BATCH[] = "use batch.tokens, the tokens of a step: rows x batch.sequence";
static const char RATE[] = "use optimizer.lr";
static const char SCHEDULE[] = "use schedule.kind";
static const char WARMUP[] = "use schedule.warmup_steps, a number of steps";
static const char STEPS[] = "use steps";
static const char PASSES[] = "use epochs";
static const char SEQUENCE[] = "use batch.sequence";
static const char CLIP[] = "use optimizer.clip_norm";
static const char BETAS[] = "use optimizer.betas, for example [0.9, 0.95]";
static const char OUTPUTS[] = "use export for the model and snapshot.folder for snapshots";
static const char TRAIN[] = "use data.train";
static const char VALIDATION[] = "use data.validation";
static const char MODEL[] = "use model";
static const char RECOMPUTE[] = "use strategy.recompute";
static const char ADAPTERS[] =
    "remove it: there is no LoRA; all parameters are trained, except those in frozen";

static const struct {
    const char *name, *remedy;
} ROWS[] = {
    {"learning_rate", RATE},
    {"lr", RATE},
    {"peak_lr", RATE},
    {"lr_scheduler", SCHEDULE},
    {"lr_scheduler_type", SCHEDULE},
    {"lr_decay_style", SCHEDULE},
    {"scheduler", SCHEDULE},
    {"warmup", WARMUP},
    {"warmup_steps", WARMUP},
    {"warmup_iters", WARMUP},
    {"num_warmup_steps", WARMUP},
    {"lr_warmup_steps", WARMUP},
    {"warmup_ratio", WARMUP},
    {"epoch", PASSES},
    {"num_epochs", PASSES},
    {"num_train_epochs", PASSES},
    {"max_steps", STEPS},
    {"max_iters", STEPS},
    {"train_iters", STEPS},
    {"train_steps", STEPS},
    {"num_steps", STEPS},
    {"num_train_steps", STEPS},
    {"total_steps", STEPS},
    {"training_steps", STEPS},
    {"per_device_train_batch_size", MICROBATCH},
    {"micro_batch_size", MICROBATCH},
    {"microbatch_size", MICROBATCH},
    {"train_micro_batch_size_per_gpu", MICROBATCH},
    {"local_batch_size", MICROBATCH},
    {"gradient_accumulation_steps",
     "use batch.tokens: batch.sequence x batch.microbatch x ranks x microbatches to accumulate"},
    {"gradient_accumulation",
     "use batch.tokens: batch.sequence x batch.microbatch x ranks x microbatches to accumulate"},
    {"grad_accum",
     "use batch.tokens: batch.sequence x batch.microbatch x ranks x microbatches to accumulate"},
    {"batch_size", BATCH},
    {"train_batch_size", BATCH},
    {"global_batch_size", BATCH},
    {"bf16", PRECISION},
    {"fp16", PRECISION},
    {"fp32", PRECISION},
    {"tf32", PRECISION},
    {"amp", PRECISION},
    {"dtype", PRECISION},
    {"torch_dtype", PRECISION},
    {"mixed_precision", PRECISION},
    {"mixed_precision_param", PRECISION},
    {"max_length", SEQUENCE},
    {"max_seq_length", SEQUENCE},
    {"max_seq_len", SEQUENCE},
    {"model_max_length", SEQUENCE},
    {"seq_len", SEQUENCE},
    {"seq_length", SEQUENCE},
    {"sequence_len", SEQUENCE},
    {"sequence_length", SEQUENCE},
    {"context_length", SEQUENCE},
    {"block_size", SEQUENCE},
    {"weight_decay", "use optimizer.weight_decay"},
    {"max_grad_norm", CLIP},
    {"max_norm", CLIP},
    {"grad_clip", CLIP},
    {"clip_grad", CLIP},
    {"gradient_clip_val", CLIP},
    {"gradient_clipping", CLIP},
    {"beta1", BETAS},
    {"beta2", BETAS},
    {"adam_beta1", BETAS},
    {"adam_beta2", BETAS},
    {"adam_epsilon", "use optimizer.eps"},
    {"optim", "remove it: the optimizer is AdamW"},
    {"save_steps", "use snapshot.every"},
    {"save_interval", "use snapshot.every"},
    {"save_strategy", "use snapshot.every"},
    {"checkpoint_interval", "use snapshot.every"},
    {"save_total_limit", "use snapshot.keep"},
    {"eval_steps", "use eval.every"},
    {"eval_interval", "use eval.every"},
    {"eval_strategy", "use eval.every"},
    {"evaluation_strategy", "use eval.every"},
    {"logging_steps", "remove it: the metrics file contains every step"},
    {"log_interval", "remove it: the metrics file contains every step"},
    {"output_dir", OUTPUTS},
    {"out_dir", OUTPUTS},
    {"dump_folder", OUTPUTS},
    {"train_file", TRAIN},
    {"train_data", TRAIN},
    {"dataset", TRAIN},
    {"datasets", TRAIN},
    {"dataset_path", TRAIN},
    {"data_path", TRAIN},
    {"validation_file", VALIDATION},
    {"eval_file", VALIDATION},
    {"eval_data", VALIDATION},
    {"val_data", VALIDATION},
    {"model_name", MODEL},
    {"base_model", MODEL},
    {"model_path", MODEL},
    {"model_name_or_path", MODEL},
    {"pretrained_model_name_or_path", MODEL},
    {"gradient_checkpointing", RECOMPUTE},
    {"activation_checkpointing", RECOMPUTE},
    {"activation_checkpoint", RECOMPUTE},
    {"recompute_activations", RECOMPUTE},
    {"deepspeed", "use --ranks N and strategy.zero"},
    {"fsdp", "use --ranks N and strategy.zero"},
    {"zero_stage", "use strategy.zero"},
    {"nproc_per_node", "use --ranks N"},
    {"num_gpus", "use --ranks N"},
    {"num_processes", "use --ranks N"},
    {"device", "use target"},
    {"gpu", "use target"},
    {"resume_from_checkpoint", "remove it: training resumes from the newest snapshot"},
    {"init_from", "use init"},
    {"use_peft", ADAPTERS},
    {"adapter", ADAPTERS},
    {"lora", ADAPTERS},
    {"lora_r", ADAPTERS},
    {"lora_rank", ADAPTERS},
    {"lora_alpha", ADAPTERS},
    {"lora_dropout", ADAPTERS},
    {"lora_config", ADAPTERS},
    {"qlora", ADAPTERS},
    {"peft", ADAPTERS},
    {"peft_config", ADAPTERS},
    {"load_in_4bit", ADAPTERS},
    {"load_in_8bit", ADAPTERS},
};

static int normalized_letter(char letter) {
    return letter == '-' ? '_' : tolower((unsigned char)letter);
}

/* Whether the names are equal, ignoring case and "-" or "_". If `b` is a path such as "lora.r",
 * only its part before the dot is compared. */
static bool is_same_name(const char *a, const char *b) {
    size_t i = 0;
    while (a[i] != '\0' && normalized_letter(a[i]) == normalized_letter(b[i])) {
        i++;
    }
    return a[i] == '\0' && (b[i] == '\0' || b[i] == '.');
}

const char *other_trainers_remedy(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (is_same_name(ROWS[i].name, name)) {
            return ROWS[i].remedy;
        }
    }
    return NULL;
}
