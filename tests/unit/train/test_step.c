/* Tests of train/step: losses and gradients of packed documents are those of the documents alone,
 * each label counted once, however rows and microbatches are cut. */
#include "runtime/session/step.h"
#include "scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OVERRIDES_MAX = 8, END = 9 };

static const char CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\", \"hidden_size\": 32, \"intermediate_size\": 24, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 97, "
    "\"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-05, \"initializer_range\": 0.3, "
    "\"tie_word_embeddings\": false, \"rope_theta\": 10000.0}";

/* A model that computes, on one file. */
struct bench {
    struct session session;
    struct token_data data;
    struct fault fault;
};

static void expect_ok(const struct bench *bench, enum status status) {
    if (status != OK) {
        fail_msg("%s: %s", bench->fault.subject, bench->fault.reason);
    }
}

static void open_bench(struct bench *bench, const char *path, const char *const *overrides,
                       int override_count) {
    const char *all[OVERRIDES_MAX] = {"init=random", "threads=1", "optimizer.clip_norm=0"};
    for (int i = 0; i < override_count; i++) {
        all[3 + i] = overrides[i];
    }
    memset(bench, 0, sizeof *bench);
    struct session *session = &bench->session;
    struct fault *fault = &bench->fault;
    expect_ok(bench, session_read(session, "m", all, 3 + override_count, fault));
    const struct path_list paths = {.paths = &path, .count = 1};
    expect_ok(bench, data_open_run(&session->settings, &paths, session->blueprint.vocab,
                                   &session->region, &bench->data, fault));
    expect_ok(bench, session_compile(session, PURPOSE_COMPARE, fault));
    expect_ok(bench, session_bind(session, fault));
    expect_ok(bench, session_init_weights(session, fault));
}

static void close_bench(struct bench *bench) {
    data_close(&bench->data);
    session_finish(&bench->session);
}

static struct evaluation_result evaluated(const char *path, const char *const *overrides,
                                          int override_count) {
    static struct bench bench;
    struct evaluation_result result = {0};
    open_bench(&bench, path, overrides, override_count);
    struct step_source source = {.data = &bench.data};
    expect_ok(&bench, evaluate_data(&bench.session, &source, 0, &result, &bench.fault));
    close_bench(&bench);
    return result;
}

static struct step_result stepped(const char *path, const char *const *overrides,
                                  int override_count) {
    static struct bench bench;
    struct step_result result = {0};
    open_bench(&bench, path, overrides, override_count);
    struct step_source source = {.data = &bench.data, .seed = 1};
    int64_t cursor = 0;
    expect_ok(&bench,
              step_execute_from_stream(&bench.session, &source, 0, &cursor, &result, &bench.fault));
    assert_int_equal(cursor, bench.data.window_count);
    close_bench(&bench);
    return result;
}

static void near(double got, double wanted) {
    if (!(fabs(got - wanted) <= 2e-6 * fabs(wanted))) {
        fail_msg("%.9g, not %.9g", got, wanted);
    }
}

static int write_files(void **state) {
    static const uint8_t FIRST[] = {5, 17, 3, 22, END};
    static const uint8_t SECOND[] = {8, 30, 2, END};
    static const uint8_t PACKED[] = {5, 17, 3, 22, END, 8, 30, 2, END};
    /* Four rows of 8 with 1, 0, 3 and 8 separators among their ids. */
    static const uint8_t UNEVEN[] = {1,  2,  3,   END, 4,   5,   6,   7,   11,  12,  13,
                                     14, 15, 16,  17,  18,  END, 19,  END, 20,  21,  END,
                                     22, 23, END, END, END, END, END, END, END, END, END};
    static const uint8_t ENDS[] = {END, END, END, END, END, END, END, END, END};
    int failed = scratch_open(state);
    if (failed == 0) {
        scratch_write_text("m/config.json", CONFIG);
        scratch_write("first.bytes", FIRST, sizeof FIRST);
        scratch_write("second.bytes", SECOND, sizeof SECOND);
        scratch_write("packed.bytes", PACKED, sizeof PACKED);
        scratch_write("uneven.bytes", UNEVEN, sizeof UNEVEN);
        scratch_write("uneven3.bytes", UNEVEN, 25);
        scratch_write("ends.bytes", ENDS, sizeof ENDS);
    }
    return failed;
}

static void packed_documents_lose_what_they_lose_alone(void **state) {
    (void)state;
    const char *packed[] = {"batch.sequence=8", "data.documents=9"};
    struct evaluation_result both = evaluated("packed.bytes", packed, 2);
    struct evaluation_result first =
        evaluated("first.bytes", (const char *[]){"batch.sequence=4"}, 1);
    struct evaluation_result second =
        evaluated("second.bytes", (const char *[]){"batch.sequence=3"}, 1);
    assert_int_equal(both.tokens, 7);
    assert_int_equal(first.tokens, 4);
    assert_int_equal(second.tokens, 3);
    near(both.loss, (4 * first.loss + 3 * second.loss) / 7);
    assert_int_equal(evaluated("packed.bytes", packed, 1).tokens, 8);
}

static void a_step_divides_by_the_labels_of_all_its_microbatches(void **state) {
    (void)state;
    const char *overrides[] = {"batch.sequence=8", "data.documents=9", "batch.tokens=32",
                               "batch.microbatch=4"};
    struct evaluation_result whole = evaluated("uneven.bytes", overrides, 4);
    struct step_result together = stepped("uneven.bytes", overrides, 4);
    overrides[3] = "batch.microbatch=1";
    struct step_result apart = stepped("uneven.bytes", overrides, 4);
    assert_int_equal(whole.tokens, 7 + 8 + 5 + 0);
    assert_int_equal(together.tokens, 20);
    assert_int_equal(apart.tokens, 20);
    near(together.loss, whole.loss);
    near(apart.loss, whole.loss);
    near(apart.gradient_norm, together.gradient_norm);
    assert_true(together.gradient_norm > 0);
    /* The last row has no labels: without it nothing is lost. */
    overrides[2] = "batch.tokens=24";
    struct step_result without = stepped("uneven3.bytes", overrides, 4);
    assert_int_equal(without.tokens, 20);
    near(without.gradient_norm, together.gradient_norm);
}

static void text_of_nothing_but_separators_is_refused(void **state) {
    (void)state;
    static struct bench bench;
    struct step_result step;
    struct evaluation_result evaluation;
    const char *overrides[] = {"batch.sequence=8", "data.documents=9"};
    open_bench(&bench, "ends.bytes", overrides, 2);
    struct step_source source = {.data = &bench.data, .seed = 1};
    int64_t cursor = 0;
    assert_int_equal(
        step_execute_from_stream(&bench.session, &source, 0, &cursor, &step, &bench.fault),
        STATUS_INPUT);
    assert_int_equal(cursor, 0);
    assert_non_null(strstr(bench.fault.reason, "separator"));
    assert_int_equal(evaluate_data(&bench.session, &source, 0, &evaluation, &bench.fault),
                     STATUS_INPUT);
    close_bench(&bench);
}

static bool refuse_second_question(void *context) {
    int *asked = context;
    return ++*asked < 2;
}

static void a_step_that_is_dropped_changes_nothing(void **state) {
    (void)state;
    static struct bench bench;
    const char *overrides[] = {"batch.sequence=8", "batch.tokens=32"};
    struct evaluation_result before, after;
    struct step_result result;
    open_bench(&bench, "uneven.bytes", overrides, 2);
    int asked = 0;
    int64_t cursor = 0;
    struct step_source source = {.data = &bench.data, .seed = 1};
    expect_ok(&bench, evaluate_data(&bench.session, &source, 0, &before, &bench.fault));
    struct step_limits limits = {.should_continue = refuse_second_question, .context = &asked};
    source.limits = &limits;
    assert_int_equal(
        step_execute_from_stream(&bench.session, &source, 0, &cursor, &result, &bench.fault),
        STATUS_STOPPED);
    assert_int_equal(cursor, 0);
    source.limits = NULL;
    expect_ok(&bench, evaluate_data(&bench.session, &source, 0, &after, &bench.fault));
    assert_true(before.loss == after.loss);
    close_bench(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_documents_lose_what_they_lose_alone),
        cmocka_unit_test(a_step_divides_by_the_labels_of_all_its_microbatches),
        cmocka_unit_test(text_of_nothing_but_separators_is_refused),
        cmocka_unit_test(a_step_that_is_dropped_changes_nothing),
    };
    return cmocka_run_group_tests(tests, write_files, scratch_close);
}
