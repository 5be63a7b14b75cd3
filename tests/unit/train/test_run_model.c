/* Tests of train/run_model: what a run's settings must be for a given model. */
#include "runtime/settings/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct region region;
static struct fault fault;
static const struct blueprint MODEL = {.layers = 3, .max_positions = 256, .vocab = 1000};
static const struct blueprint LONG_MODEL = {.layers = 3, .max_positions = 1 << 17, .vocab = 1000};

static int finish_region(void **state) {
    (void)state;
    region_finish(&region);
    return 0;
}

static enum status check(const char *const *overrides, int count, const struct blueprint *model,
                         struct settings *settings) {
    memset(&fault, 0, sizeof fault);
    assert_int_equal(settings_open(NULL, overrides, count, &region, settings, &fault), OK);
    return settings_check_model(settings, model, &region, &fault);
}

static void refused(const char *override, const char *why) {
    struct settings settings;
    assert_int_equal(check(&override, 1, &MODEL, &settings), STATUS_INPUT);
    assert_null(settings.layer_recompute);
    if (strstr(fault.reason, why) == NULL) {
        fail_msg("%s gives \"%s\"", override, fault.reason);
    }
}

/* The values that a run file gets which was given `text`, for a model stored in `dtype`. */
static struct settings run_of(const char *text, enum dtype dtype) {
    struct settings settings;
    const struct blueprint model = {
        .layers = 3, .max_positions = 256, .vocab = 1000, .checkpoint_dtype = dtype};
    assert_int_equal(settings_open_text(text, strlen(text), "run.yaml", &region, &settings, &fault),
                     OK);
    assert_int_equal(settings_check_model(&settings, &model, &region, &fault), OK);
    return settings;
}

static const char *source_of(const struct settings *settings, const char *key) {
    return settings_default_source(settings, setting_key_find(key));
}

static void fine_tuning_has_defaults_of_its_own(void **state) {
    (void)state;
    struct settings run = run_of("seed: 2\n", DTYPE_BF16);
    assert_int_equal(run.params_dtype, DTYPE_BF16);
    assert_int_equal(run.compute_dtype, DTYPE_BF16);
    assert_int_equal(run.export_dtype, DTYPE_BF16);
    assert_true(run.learning_rate == 2e-5);
    assert_int_equal(run.warmup_steps, 20);
    assert_string_equal(source_of(&run, "precision.params"), "type in the model's config.json");
    assert_string_equal(source_of(&run, "optimizer.lr"), "with init: weights (fine-tuning)");
    assert_string_equal(source_of(&run, "export.dtype"), "precision.params");
    assert_string_equal(source_of(&run, "optimizer.eps"), "built in");
    assert_null(source_of(&run, "seed"));
    assert_int_equal(run_of("seed: 2\n", DTYPE_F32).params_dtype, DTYPE_F32);
    assert_int_equal(run_of("seed: 2\n", DTYPE_F16).params_dtype, DTYPE_F32);
}

static void random_weights_and_models_without_a_run_have_none_of_them(void **state) {
    (void)state;
    struct settings run = run_of("init: random\n", DTYPE_BF16);
    assert_int_equal(run.params_dtype, DTYPE_F32);
    assert_int_equal(run.export_dtype, DTYPE_F32);
    assert_true(run.learning_rate == 3e-4);
    assert_int_equal(run.warmup_steps, 0);
    assert_string_equal(source_of(&run, "optimizer.lr"), "built in");
    struct blueprint model = MODEL;
    model.checkpoint_dtype = DTYPE_BF16;
    assert_int_equal(check(NULL, 0, &model, &run), OK);
    assert_int_equal(run.params_dtype, DTYPE_F32);
    assert_true(run.learning_rate == 3e-4);
}

static void values_that_are_given_stay(void **state) {
    (void)state;
    struct settings run = run_of("optimizer.lr: 3e-4\nschedule.warmup_steps: 0\n"
                                 "precision: f32\n",
                                 DTYPE_BF16);
    assert_int_equal(run.params_dtype, DTYPE_F32);
    assert_int_equal(run.export_dtype, DTYPE_F32);
    assert_true(run.learning_rate == 3e-4);
    assert_int_equal(run.warmup_steps, 0);
    assert_null(source_of(&run, "schedule.warmup_steps"));
    run = run_of("precision: f32\nexport.dtype: bf16\n", DTYPE_BF16);
    assert_int_equal(run.params_dtype, DTYPE_F32);
    assert_int_equal(run.export_dtype, DTYPE_BF16);
    run = run_of("optimizer.lr: null\n", DTYPE_F32); /* null selects the default */
    assert_true(run.learning_rate == 2e-5);
}

static void unset_sizes_come_from_the_model(void **state) {
    (void)state;
    struct settings settings;
    assert_int_equal(check(NULL, 0, &MODEL, &settings), OK);
    assert_int_equal(settings.sequence_tokens, 256);
    assert_int_equal(settings.context_tokens, 256);
    assert_int_equal(settings.batch_tokens, 256);
    const char *microbatch = "batch.microbatch=4";
    assert_int_equal(check(&microbatch, 1, &LONG_MODEL, &settings), OK);
    assert_int_equal(settings.sequence_tokens, 1024);
    assert_int_equal(settings.batch_tokens, 4096);
}

static void sizes_beyond_the_model_are_refused_with_both_figures(void **state) {
    (void)state;
    refused("batch.sequence=257", "batch.sequence is 257; the model has only 256 positions");
    refused("generate.context=300", "generate.context is 300; the model has only 256 positions");
    refused("batch.tokens=300", "batch.tokens is 300, not a multiple of batch.sequence, 256");
    refused("data.documents=1000",
            "data.documents is token 1000; the vocabulary of the model has 1000");
    struct settings settings;
    const char *last = "data.documents=999";
    assert_int_equal(check(&last, 1, &MODEL, &settings), OK);
}

static void recompute_is_one_kind_or_one_for_each_layer(void **state) {
    (void)state;
    struct settings settings;
    const char *one = "strategy.recompute=block";
    assert_int_equal(check(&one, 1, &MODEL, &settings), OK);
    for (int layer = 0; layer < 3; layer++) {
        assert_int_equal(settings.layer_recompute[layer], RECOMPUTE_BLOCK);
    }
    const char *each = "strategy.recompute=[none, selective , block]";
    assert_int_equal(check(&each, 1, &MODEL, &settings), OK);
    assert_int_equal(settings.layer_recompute[0], RECOMPUTE_NONE);
    assert_int_equal(settings.layer_recompute[1], RECOMPUTE_SELECTIVE);
    assert_int_equal(settings.layer_recompute[2], RECOMPUTE_BLOCK);
    refused("strategy.recompute=none,block",
            "lists 2 values, one for each layer, but the model has 3 layers");
    refused("strategy.recompute=all", "\"all\" is not one of none, selective and block");
    refused("strategy.recompute=none,blocks,block", "\"blocks\"");
    refused("strategy.recompute=none,,block", "\"\" is not one of");
}

static void an_evaluation_reads_whole_rows(void **state) {
    (void)state;
    struct settings settings;
    const char *overrides[] = {"eval.tokens=0"};
    assert_int_equal(check(overrides, 1, &MODEL, &settings), OK);
    assert_int_equal(settings_eval_rows(&settings), 0);
    overrides[0] = "eval.tokens=1";
    assert_int_equal(check(overrides, 1, &MODEL, &settings), OK);
    assert_int_equal(settings_eval_rows(&settings), 1);
    overrides[0] = "eval.tokens=513";
    assert_int_equal(check(overrides, 1, &MODEL, &settings), OK);
    assert_int_equal(settings_eval_rows(&settings), 3);
}

static void what_is_wrong_is_named_where_it_was_given(void **state) {
    (void)state;
    static const char TEXT[] = "model: m\nbatch:\n  sequence: 300\n";
    struct settings settings;
    assert_int_equal(settings_open_text(TEXT, strlen(TEXT), "r.yaml", &region, &settings, &fault),
                     OK);
    assert_int_equal(settings_check_model(&settings, &MODEL, &region, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "r.yaml:3:3");
    assert_string_equal(settings_location(&settings, "batch.sequence"), "r.yaml:3:3");
    assert_string_equal(settings_location(&settings, "batch.tokens"), "r.yaml");
    refused("batch.sequence=257", "batch.sequence is 257");
    assert_string_equal(fault.subject, "command line");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(fine_tuning_has_defaults_of_its_own, finish_region),
        cmocka_unit_test_teardown(random_weights_and_models_without_a_run_have_none_of_them,
                                  finish_region),
        cmocka_unit_test_teardown(values_that_are_given_stay, finish_region),
        cmocka_unit_test_teardown(unset_sizes_come_from_the_model, finish_region),
        cmocka_unit_test_teardown(sizes_beyond_the_model_are_refused_with_both_figures,
                                  finish_region),
        cmocka_unit_test_teardown(what_is_wrong_is_named_where_it_was_given, finish_region),
        cmocka_unit_test_teardown(recompute_is_one_kind_or_one_for_each_layer, finish_region),
        cmocka_unit_test_teardown(an_evaluation_reads_whole_rows, finish_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
