#include "tests/support/small_program.h"

#include "base/random.h"
#include "base/text.h"
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"
#include "targets/probe/detect.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FAMILY_KINDS = 5, POSITIONS = 48, HALF_HEAD_MAX = 64 };

/* A stream of choices: each draw takes the next value. */
struct draw {
    uint64_t key, index;
};

static int64_t between(struct draw *draw, int64_t low, int64_t high) {
    uint32_t words[4];
    random_block(draw->key, draw->index++, words);
    return low + (int64_t)(words[0] % (uint32_t)(high - low + 1));
}

static const char *either(struct draw *draw) {
    return between(draw, 0, 1) == 1 ? "true" : "false";
}

static void expect_ok(const struct small_program *small, enum status status,
                      const struct fault *fault) {
    if (status != OK) {
        fail_msg("%s: %s: %s; %s", small->title, fault->subject, fault->reason, fault->remedy);
    }
}

static void draw_gpt2(struct draw *draw, struct text *text) {
    int64_t heads = between(draw, 1, 4);
    text_add(text,
             "{\"model_type\": \"gpt2\", \"n_head\": %lld, \"n_embd\": %lld, \"n_layer\": %lld, "
             "\"vocab_size\": %lld, \"n_positions\": %d, \"initializer_range\": 0.2}",
             (long long)heads, (long long)(heads * 2 * between(draw, 2, 8)),
             (long long)between(draw, 1, 3), (long long)between(draw, 5, 131), POSITIONS);
}

static void draw_decoder(struct draw *draw, const char *family, struct text *text) {
    bool derived = strcmp(family, "qwen2") == 0; /* its head_dim follows from the sizes */
    int64_t kv_heads = between(draw, 1, 3);
    int64_t heads = kv_heads * between(draw, 1, 3);
    int64_t head_dim = 2 * between(draw, 2, 8);
    int64_t hidden = derived ? heads * head_dim : 4 * between(draw, 2, 14);
    text_add(text,
             "{\"model_type\": \"%s\", \"num_attention_heads\": %lld, "
             "\"num_key_value_heads\": %lld, \"head_dim\": %lld, \"hidden_size\": %lld, "
             "\"intermediate_size\": %lld, \"num_hidden_layers\": %lld, \"vocab_size\": %lld, "
             "\"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-5, "
             "\"initializer_range\": 0.2, \"tie_word_embeddings\": %s",
             family, (long long)heads, (long long)kv_heads, (long long)head_dim, (long long)hidden,
             (long long)between(draw, 5, 70), (long long)between(draw, 1, 3),
             (long long)between(draw, 5, 131), POSITIONS, either(draw));
    if (strcmp(family, "llama") == 0) {
        text_add(text, ", \"attention_bias\": %s, \"mlp_bias\": %s", either(draw), either(draw));
    } else if (strcmp(family, "mistral") == 0) {
        text_add(text, ", \"sliding_window\": %lld", (long long)between(draw, 1, POSITIONS));
    } else {
        text_add(text,
                 ", \"use_sliding_window\": %s, \"sliding_window\": %lld, "
                 "\"max_window_layers\": %lld",
                 either(draw), (long long)between(draw, 1, POSITIONS),
                 (long long)between(draw, 0, 3));
    }
    text_add(text, "}");
}

static void draw_config(struct small_program *small, struct draw *draw, uint64_t index) {
    static const char *const FAMILIES[FAMILY_KINDS] = {"gpt2", "llama", "mistral", "qwen2",
                                                       "qwen3"};
    const char *family = FAMILIES[index % FAMILY_KINDS];
    struct text text = text_over(small->config, sizeof small->config);
    if (index % FAMILY_KINDS == 0) {
        draw_gpt2(draw, &text);
    } else {
        draw_decoder(draw, family, &text);
    }
    assert_false(text.truncated);
}

static void draw_target(struct small_program *small, struct draw *draw) {
    small->target = *target_detect(&small->region);
    small->target.threads = (int)between(draw, 1, 2);
    if (between(draw, 0, 3) > 0) {
        return;
    }
    /* Every fourth has spaces of their own, with copies between them. */
    small->target.unified = false;
    for (int space = 0; space < SPACE_COUNT; space++) {
        small->target.spaces[space].capacity_bytes = small->target.spaces[0].capacity_bytes;
    }
}

static void draw_options(struct small_program *small, struct draw *draw) {
    int64_t layers = small->blueprint.layers;
    enum recompute *recompute = region_alloc(&small->region, (size_t)layers, sizeof *recompute);
    for (int64_t i = 0; i < layers; i++) {
        recompute[i] = (enum recompute)between(draw, 0, RECOMPUTE_COUNT - 1);
    }
    small->options =
        (struct schedule_options){.sequence = between(draw, 2, 17),
                                  .microbatch = between(draw, 1, 4),
                                  .accumulation = between(draw, 1, 3),
                                  .context = between(draw, 2, POSITIONS),
                                  .train = true,
                                  .evaluate = true,
                                  .stores_logits = between(draw, 0, 3) == 0,
                                  .compute = between(draw, 0, 1) == 0 ? DTYPE_F32 : DTYPE_BF16,
                                  .moments = between(draw, 0, 2) > 0 ? DTYPE_F32 : DTYPE_BF16,
                                  .recompute = recompute,
                                  .offload = (unsigned)between(draw, 0, 3), /* enum offload */
                                  .clip_norm = 1,
                                  .epsilon = 1e-8f,
                                  .staging_bytes = (uint64_t)between(draw, 1, 64) * 256};
    small->options.prefill = between(draw, 1, small->options.context);
    small->options.rounding = (enum rounding)between(draw, 0, 1);
}

static void title(struct small_program *small, uint64_t seed, uint64_t index) {
    const struct schedule_options *options = &small->options;
    snprintf(small->title, sizeof small->title,
             "seed %llu configuration %llu: %s, %lld layers, %lld x %lld x %lld, compute %s, "
             "moments %s%s, context %lld, prefill %lld, %d threads, %s memory",
             (unsigned long long)seed, (unsigned long long)index,
             small->blueprint.rope.kind == ROPE_NONE ? "gpt2" : "decoder",
             (long long)small->blueprint.layers, (long long)options->accumulation,
             (long long)options->microbatch, (long long)options->sequence,
             dtype_name(options->compute), dtype_name(options->moments),
             options->rounding == ROUNDING_STOCHASTIC ? " by noise" : "",
             (long long)options->context, (long long)options->prefill, small->target.threads,
             small->target.unified ? "unified" : "separate");
}

static void fill_rope(struct small_program *small) {
    int extent = small->program.schedule.host.rope_table;
    if (extent == EXTENT_NONE) {
        return;
    }
    float frequencies[HALF_HEAD_MAX];
    int64_t half = small->blueprint.head_dim / 2;
    int64_t rows = (int64_t)(small->program.schedule.extents[extent].bytes / sizeof(float)) / half;
    float *table = program_extent_address(&small->bound, extent);
    blueprint_rope_frequencies(&small->blueprint, frequencies);
    for (int64_t i = 0; i < rows * half; i++) {
        float angle = (float)(i / half / 2) * frequencies[i % half];
        table[i] = i / half % 2 == 0 ? cosf(angle) : sinf(angle);
    }
}

static void put_values(struct small_program *small, const struct param_part *part,
                       const float *values) {
    size_t bytes = (size_t)(part->count * dtype_bytes(part->dtype));
    uint16_t *rounded = region_alloc(&small->region, (size_t)part->count, sizeof *rounded);
    struct fault fault;
    for (int64_t k = 0; part->dtype != DTYPE_F32 && k < part->count; k++) {
        rounded[k] = bf16_from_f32(values[k]);
    }
    const void *from = part->dtype == DTYPE_F32 ? (const void *)values : rounded;
    expect_ok(small, device_write(part->device_memory, part->address, from, bytes, &fault), &fault);
}

static void fill_params(struct small_program *small) {
    for (int i = 0; i < small->blueprint.param_count; i++) {
        const struct param *param = &small->blueprint.params[i];
        struct param_part master = program_param_part(&small->bound, i, VIEW_MASTER);
        struct param_part params = program_param_part(&small->bound, i, VIEW_PARAMS);
        float *values = region_alloc(&small->region, (size_t)master.count, sizeof *values);
        param_init_fill(param, 1, 0, master.count, values);
        put_values(small, &master, values);
        if (params.address != master.address) {
            put_values(small, &params, values);
        }
    }
}

void small_program_init(struct small_program *small, uint64_t seed, uint64_t index) {
    small_program_init_on(small, seed, index, NULL);
}

void small_program_init_on(struct small_program *small, uint64_t seed, uint64_t index,
                           const struct target *device) {
    struct fault fault;
    memset(small, 0, sizeof *small);
    struct draw draw = {.key = random_key(seed + index, "small program")};
    draw_config(small, &draw, index);
    snprintf(small->title, sizeof small->title, "seed %llu configuration %llu",
             (unsigned long long)seed, (unsigned long long)index);
    expect_ok(small,
              blueprint_read(small->config, strlen(small->config), "config.json", &small->region,
                             &small->blueprint, &fault),
              &fault);
    draw_target(small, &draw);
    if (device != NULL) {
        small->target = *device;
    }
    draw_options(small, &draw);
    title(small, seed, index);
    expect_ok(small,
              program_compile(&small->blueprint, &small->target, &small->options, &small->region,
                              &small->program, &fault),
              &fault);
    expect_ok(small, program_bind(&small->program, NULL, &small->region, &small->bound, &fault),
              &fault);
    fill_rope(small);
    fill_params(small);
}

static void fill_batch(struct small_program *small, uint64_t key, int64_t tokens) {
    const struct cpu_extents *host = &small->program.schedule.host;
    int32_t *ids = program_extent_address(&small->bound, host->ids);
    int32_t *labels = program_extent_address(&small->bound, host->labels);
    int32_t *positions = program_extent_address(&small->bound, host->positions);
    for (int64_t i = 0; i < tokens; i++) {
        uint32_t words[4];
        random_block(key, (uint64_t)i, words);
        ids[i] = (int32_t)(words[0] % (uint32_t)small->blueprint.vocab);
        labels[i] =
            words[2] % 5 == 0 ? -100 : (int32_t)(words[1] % (uint32_t)small->blueprint.vocab);
        positions[i] = (int32_t)(i % small->options.sequence);
    }
}

/* What a segment runs with. */
struct runner {
    struct small_program *small;
    small_step *step;
    void *context;
};

static void run_segment(const struct runner *runner, enum segment_kind kind) {
    const struct segment *segment = &runner->small->program.schedule.segments[kind];
    assert_true(segment->first < segment->end);
    if (runner->step == NULL && runner->small->bound.device != NULL) {
        program_execute_segment(&runner->small->bound, kind);
        return;
    }
    for (uint32_t i = segment->first; i < segment->end; i++) {
        if (runner->step != NULL) {
            runner->step(runner->context, &runner->small->bound, i);
        } else {
            program_execute_instruction(&runner->small->bound, i);
        }
    }
}

static void run_step(const struct runner *runner, uint64_t number) {
    struct small_program *small = runner->small;
    struct step_scalars *scalars = program_scalars(&small->bound);
    int64_t tokens = small->options.microbatch * small->options.sequence;
    memset(scalars, 0, sizeof *scalars);
    scalars->learning_rate = 1e-2f;
    scalars->beta1 = 0.9f;
    scalars->beta2 = 0.95f;
    scalars->weight_decay = 0.1f;
    scalars->bias_correction_1 = 1 - powf(0.9f, (float)(number + 1));
    scalars->bias_correction_2 = 1 - powf(0.95f, (float)(number + 1));
    scalars->loss_scale = 1 / (float)(tokens * small->options.accumulation);
    scalars->noise = (uint32_t)number;
    run_segment(runner, SEGMENT_BEGIN);
    for (int64_t m = 0; m < small->options.accumulation; m++) {
        fill_batch(small, number * 100 + (uint64_t)m, tokens);
        run_segment(runner, SEGMENT_MICROBATCH);
    }
    run_segment(runner, SEGMENT_FINISH);
    small->losses[number] = scalars->loss_sum;
    small->norms[number] = scalars->gradient_norm;
}

static void run_generation(const struct runner *runner) {
    struct small_program *small = runner->small;
    struct step_scalars *scalars = program_scalars(&small->bound);
    int64_t room = small->options.context - 1;
    int64_t prompt = small->options.prefill < room ? small->options.prefill : room;
    int32_t *positions =
        program_extent_address(&small->bound, small->program.schedule.host.positions);
    memset(scalars, 0, sizeof *scalars);
    fill_batch(small, 1000, small->options.prefill);
    for (int64_t i = 0; i < small->options.prefill; i++) {
        positions[i] = (int32_t)i;
    }
    scalars->token_count = (int32_t)prompt;
    run_segment(runner, SEGMENT_PREFILL);
    scalars->cache_length = (int32_t)prompt;
    scalars->token_count = 1;
    positions[0] = (int32_t)prompt;
    run_segment(runner, SEGMENT_DECODE);
}

void small_program_run(struct small_program *small, small_step *step, void *context) {
    const struct runner runner = {.small = small, .step = step, .context = context};
    run_segment(&runner, SEGMENT_LOAD);
    run_step(&runner, 0);
    run_step(&runner, 1);
    memset(program_scalars(&small->bound), 0, sizeof(struct step_scalars));
    run_segment(&runner, SEGMENT_EVALUATE);
    small->losses[SMALL_LOSSES - 1] = program_scalars(&small->bound)->loss_sum;
    run_generation(&runner);
    run_segment(&runner, SEGMENT_SNAPSHOT);
}

struct hash small_program_result(const struct small_program *small) {
    static const enum param_view VIEWS[] = {VIEW_PARAMS, VIEW_MASTER, VIEW_MOMENT1, VIEW_MOMENT2};
    struct hash_state state;
    hash_begin(&state);
    for (int i = 0; i < small->blueprint.param_count; i++) {
        for (size_t v = 0; v < ARRAY_COUNT(VIEWS); v++) {
            struct param_part part = program_param_part(&small->bound, i, VIEWS[v]);
            size_t bytes = (size_t)(part.count * dtype_bytes(part.dtype));
            void *values = malloc(bytes + 1);
            struct fault fault;
            assert_non_null(values);
            expect_ok(small, device_read(part.device_memory, part.address, values, bytes, &fault),
                      &fault);
            hash_add(&state, values, bytes);
            free(values);
        }
    }
    return hash_end(&state);
}

void small_program_finish(struct small_program *small) {
    program_release(&small->bound);
    region_finish(&small->region);
}
