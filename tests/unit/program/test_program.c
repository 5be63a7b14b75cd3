/* Whole programs on small models: gradients against finite differences, and against themselves
 * under every rewrite that must not change a bit. */
#include "runtime/program/program.h"

#include "base/random.h"
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"
#include "targets/probe/detect.h"
#include "tests/unit/program/models.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 3, TIME = 13, SEED = 7, PROBES_PER_TENSOR = 3 };

struct rig {
    struct region region;
    struct blueprint blueprint;
    struct program program;
    struct bound_program bound;
    int64_t valid;
};

/* A parameter that this rank holds whole. */
static void *whole_param(const struct bound_program *bound, int index, enum param_view view) {
    struct param_part part = program_param_part(bound, index, view);
    ASSERT(part.count == param_elements(&bound->program->schedule.blueprint->params[index]));
    return part.address;
}

static void expect_ok(enum status status, const struct fault *fault) {
    if (status != OK) {
        fail_msg("%s: %s; %s", fault->subject, fault->reason, fault->remedy);
    }
}

static struct schedule_options options_for(enum dtype dtype, const enum recompute *recompute) {
    return (struct schedule_options){.sequence = TIME,
                                     .microbatch = ROWS,
                                     .accumulation = 1,
                                     .context = 32,
                                     .prefill = 8,
                                     .train = true,
                                     .evaluate = true,
                                     .compute = dtype,
                                     .moments = DTYPE_F32,
                                     .recompute = recompute,
                                     .clip_norm = 1,
                                     .epsilon = 1e-8f,
                                     .staging_bytes = 1 << 16};
}

static void fill_constants(struct rig *rig) {
    const struct cpu_extents *host = &rig->program.schedule.host;
    if (host->rope_table == EXTENT_NONE) {
        return;
    }
    float frequencies[128];
    int64_t half = rig->blueprint.head_dim / 2;
    float *table = program_extent_address(&rig->bound, host->rope_table);
    blueprint_rope_frequencies(&rig->blueprint, frequencies);
    for (int64_t p = 0; p < 32; p++) {
        for (int64_t i = 0; i < half; i++) {
            table[(2 * p) * half + i] = cosf((float)p * frequencies[i]);
            table[(2 * p + 1) * half + i] = sinf((float)p * frequencies[i]);
        }
    }
}

/* Random tokens, some labels ignored, and a second document from the middle of row 1 on. */
static void fill_batch(struct rig *rig) {
    const struct cpu_extents *host = &rig->program.schedule.host;
    int32_t *ids = program_extent_address(&rig->bound, host->ids);
    int32_t *labels = program_extent_address(&rig->bound, host->labels);
    int32_t *positions = program_extent_address(&rig->bound, host->positions);
    uint64_t vocab = (uint64_t)rig->blueprint.vocab;
    rig->valid = 0;
    for (int i = 0; i < ROWS * TIME; i++) {
        uint32_t words[4];
        random_block(SEED, (uint64_t)i, words);
        int t = i % TIME;
        ids[i] = (int32_t)(words[0] % vocab);
        labels[i] = words[2] % 5 == 0 ? -100 : (int32_t)(words[1] % vocab);
        positions[i] = i / TIME == 1 && t >= 6 ? t - 6 : t;
        rig->valid += labels[i] != -100;
    }
}

static void init_params(struct rig *rig) {
    for (int i = 0; i < rig->blueprint.param_count; i++) {
        const struct param *param = &rig->blueprint.params[i];
        int64_t count = param_elements(param);
        float *master = whole_param(&rig->bound, i, VIEW_MASTER);
        param_init_fill(param, SEED, 0, count, master);
        for (int64_t k = 0; k < count; k++) {
            master[k] +=
                0.1f * random_normal(random_key(SEED, "jitter"), (uint64_t)(i * 100000 + k));
        }
        uint16_t *params = whole_param(&rig->bound, i, VIEW_PARAMS);
        for (int64_t k = 0; (void *)params != (void *)master && k < count; k++) {
            params[k] = bf16_from_f32(master[k]);
        }
    }
}

static void rig_init(struct rig *rig, const struct test_model *model, enum dtype dtype,
                     enum recompute kind) {
    struct fault fault;
    memset(rig, 0, sizeof *rig);
    expect_ok(blueprint_read(model->config, strlen(model->config), model->name, &rig->region,
                             &rig->blueprint, &fault),
              &fault);
    enum recompute *kinds =
        region_alloc(&rig->region, (size_t)rig->blueprint.layers, sizeof *kinds);
    for (int64_t i = 0; i < rig->blueprint.layers; i++) {
        kinds[i] = kind;
    }
    struct target *target = region_alloc(&rig->region, 1, sizeof *target);
    *target = *target_detect(&rig->region);
    target->threads = 2;
    struct schedule_options options = options_for(dtype, kinds);
    expect_ok(
        program_compile(&rig->blueprint, target, &options, &rig->region, &rig->program, &fault),
        &fault);
    expect_ok(program_bind(&rig->program, NULL, &rig->region, &rig->bound, &fault), &fault);
    fill_constants(rig);
    fill_batch(rig);
    init_params(rig);
}

static void rig_finish(struct rig *rig) {
    program_release(&rig->bound);
    region_finish(&rig->region);
}

static void reset_scalars(struct rig *rig) {
    struct step_scalars *scalars = program_scalars(&rig->bound);
    memset(scalars, 0, sizeof *scalars);
    scalars->learning_rate = 1e-2f;
    scalars->beta1 = 0.9f;
    scalars->beta2 = 0.95f;
    scalars->weight_decay = 0.1f;
    scalars->bias_correction_1 = 0.1f;
    scalars->bias_correction_2 = 0.05f;
    scalars->loss_scale = (float)(1.0 / (double)rig->valid);
}

static void run_gradients(struct rig *rig) {
    reset_scalars(rig);
    program_execute_segment(&rig->bound, SEGMENT_BEGIN);
    program_execute_segment(&rig->bound, SEGMENT_MICROBATCH);
}

static double loss_now(struct rig *rig) {
    reset_scalars(rig);
    program_execute_segment(&rig->bound, SEGMENT_EVALUATE);
    return program_scalars(&rig->bound)->loss_sum / (double)rig->valid;
}

static double difference_at(struct rig *rig, float *value) {
    const float step = 0.02f;
    float kept = *value;
    double loss[4];
    static const float AT[4] = {-2, -1, 1, 2};
    for (int i = 0; i < 4; i++) {
        *value = kept + AT[i] * step;
        loss[i] = loss_now(rig);
    }
    *value = kept;
    return (loss[0] - 8 * loss[1] + 8 * loss[2] - loss[3]) / (12.0 * (double)step);
}

static void gradients_agree_with_finite_differences(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(TEST_MODELS); m++) {
        static struct rig rig;
        rig_init(&rig, &TEST_MODELS[m], DTYPE_F32, RECOMPUTE_NONE);
        run_gradients(&rig);
        for (int i = 0; i < rig.blueprint.param_count; i++) {
            const struct param *param = &rig.blueprint.params[i];
            int64_t count = param_elements(param);
            float *weights = whole_param(&rig.bound, i, VIEW_PARAMS);
            for (int probe = 0; probe < PROBES_PER_TENSOR; probe++) {
                run_gradients(&rig);
                int64_t k = (int64_t)random_permute(SEED, (uint64_t)probe, (uint64_t)count);
                double exact =
                    (double)((const float *)whole_param(&rig.bound, i, VIEW_GRADIENT))[k];
                double measured = difference_at(&rig, &weights[k]);
                /* fp32 losses of about 5 carry 3e-7 of noise; divided by the step, 2e-5. */
                if (fabs(exact - measured) > 1e-4 + 0.02 * fabs(exact)) {
                    fail_msg("%s: %s[%lld]: gradient %.6g, difference quotient %.6g",
                             TEST_MODELS[m].name, param->name, (long long)k, exact, measured);
                }
            }
        }
        rig_finish(&rig);
    }
}

static void take_step(struct rig *rig) {
    run_gradients(rig);
    program_execute_segment(&rig->bound, SEGMENT_FINISH);
}

static void recompute_changes_no_bit(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(TEST_MODELS) * 2; m++) {
        const struct test_model *model = &TEST_MODELS[m / 2];
        enum dtype dtype = m % 2 == 0 ? DTYPE_F32 : DTYPE_BF16;
        static struct rig plain;
        rig_init(&plain, model, dtype, RECOMPUTE_NONE);
        take_step(&plain);
        take_step(&plain);
        for (int kind = RECOMPUTE_SELECTIVE; kind < RECOMPUTE_COUNT; kind++) {
            static struct rig other;
            rig_init(&other, model, dtype, (enum recompute)kind);
            assert_true(other.program.plan.bound_bytes[SPACE_DEVICE] <=
                        plain.program.plan.bound_bytes[SPACE_DEVICE]);
            take_step(&other);
            take_step(&other);
            for (int i = 0; i < plain.blueprint.param_count; i++) {
                size_t bytes = (size_t)param_elements(&plain.blueprint.params[i]) * sizeof(float);
                assert_memory_equal(whole_param(&plain.bound, i, VIEW_MASTER),
                                    whole_param(&other.bound, i, VIEW_MASTER), bytes);
                assert_memory_equal(whole_param(&plain.bound, i, VIEW_MOMENT2),
                                    whole_param(&other.bound, i, VIEW_MOMENT2), bytes);
            }
            rig_finish(&other);
        }
        rig_finish(&plain);
    }
}

static void steps_lower_the_loss_of_their_batch(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(TEST_MODELS); m++) {
        static struct rig rig;
        rig_init(&rig, &TEST_MODELS[m], DTYPE_BF16, RECOMPUTE_NONE);
        double before = loss_now(&rig);
        for (int i = 0; i < 10; i++) {
            take_step(&rig);
        }
        double after = loss_now(&rig);
        if (!(after < 0.8 * before)) {
            fail_msg("%s: loss %.4f, after ten steps %.4f", TEST_MODELS[m].name, before, after);
        }
        rig_finish(&rig);
    }
}

static void high_water_is_the_planned_peak(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(TEST_MODELS); m++) {
        static struct rig rig;
        rig_init(&rig, &TEST_MODELS[m], DTYPE_F32, RECOMPUTE_SELECTIVE);
        take_step(&rig);
        loss_now(&rig);
        program_execute_segment(&rig.bound, SEGMENT_LOAD);
        program_execute_segment(&rig.bound, SEGMENT_SNAPSHOT);
        struct step_scalars *scalars = program_scalars(&rig.bound);
        scalars->cache_length = 0;
        scalars->token_count = 1;
        program_execute_segment(&rig.bound, SEGMENT_PREFILL);
        scalars->cache_length = 1;
        program_execute_segment(&rig.bound, SEGMENT_DECODE);
        for (int space = 0; space < SPACE_COUNT; space++) {
            assert_int_equal(rig.bound.high_water[space], rig.program.plan.peak_bytes[space]);
        }
        rig_finish(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_finite_differences),
        cmocka_unit_test(recompute_changes_no_bit),
        cmocka_unit_test(steps_lower_the_loss_of_their_batch),
        cmocka_unit_test(high_water_is_the_planned_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
