/* Tests of train/step_windows on several ranks: a step on windows is the step from data that takes
 * the same ones, to the bit, and stops on all ranks when one of them says so. */
#include "runtime/session/step.h"
#include "scratch.h"
#include "tests/unit/transport/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { RANKS_MOST = 3, STEPS = 3, ROWS = 7, SEED = 9, MEET_MS = 10000, TIMEOUT_MS = 60000 };

static const char CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\", \"hidden_size\": 32, \"intermediate_size\": 24, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 97, "
    "\"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-05, \"initializer_range\": 0.3, "
    "\"tie_word_embeddings\": true, \"rope_theta\": 10000.0}";

/* What the ranks of the case under test do; what they came to, which the test can read. */
static int world;
static bool by_windows;
static int stops_at; /* question that rank 0 answers with no; 0: none */
static struct step_result (*results)[STEPS];

static int write_files(void **state) {
    static uint8_t text[1000];
    int failed = scratch_open(state);
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)(i * i % 37);
    }
    scratch_write_text("m/config.json", CONFIG);
    scratch_write("text.bytes", text, sizeof text);
    results = mmap(NULL, RANKS_MOST * sizeof *results, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return failed != 0 || results == MAP_FAILED;
}

/* One rank's, with a separator among the tokens, so that rows have unlike numbers of labels. */
struct bench {
    struct session session;
    struct token_data data;
};

static enum status open_rank(struct bench *bench, const struct launch_info *place,
                             struct fault *fault) {
    const char *overrides[] = {"init=random",        "threads=1",       "batch.sequence=8",
                               "batch.microbatch=1", "batch.tokens=56", "data.documents=9"};
    const char *path = "text.bytes";
    const struct path_list paths = {.paths = &path, .count = 1};
    struct session *session = &bench->session;
    session->ranks = world;
    enum status status = session_read(session, "m", overrides, ARRAY_COUNT(overrides), fault);
    if (status == OK) {
        status = data_open_run(&session->settings, &paths, session->blueprint.vocab,
                               &session->region, &bench->data, fault);
    }
    if (status == OK) {
        status = session_compile(session, PURPOSE_TRAIN, fault);
    }
    if (status == OK) {
        status = site_open(place, &session->region, &session->site, fault);
    }
    if (status == OK) {
        status = session_bind(session, fault);
    }
    if (status == OK) {
        status = session_connect(session, fault);
    }
    return status == OK ? session_init_weights(session, fault) : status;
}

static bool refuse_at(void *context) {
    int *asked = context;
    return ++*asked != stops_at;
}

static enum status take_windows(struct bench *bench, int64_t step, int64_t *cursor,
                                struct step_result *result, struct fault *fault) {
    int64_t windows[ROWS];
    int64_t next = *cursor;
    int asked = 0;
    for (int i = 0; i < ROWS; i++) {
        windows[i] = data_next_window(&bench->data, SEED, &next);
    }
    struct step_limits limits = {.should_continue = refuse_at, .context = &asked};
    struct step_windows wanted = {
        .data = &bench->data,
        .windows = windows,
        .count = ROWS,
        .schedule = step_schedule_at(&bench->session, step),
        .limits = bench->session.bound.ranks.index[AXIS_WORLD] == 0 && step == 1 ? &limits : NULL};
    enum status status = step_execute_on_windows(&bench->session, &wanted, result, fault);
    if (status == STATUS_STOPPED && stops_at > 0) { /* once more, as if nothing had been */
        wanted.limits = NULL;
        status = step_execute_on_windows(&bench->session, &wanted, result, fault);
    } else if (status == OK && stops_at > 0 && step == 1) {
        status = fault_set(fault, STATUS_FAILED, "step", NULL, "was not given up");
    }
    *cursor = next;
    return status;
}

static void take_steps(const struct launch_info *place, struct record *record) {
    static struct bench bench;
    struct step_source source = {.data = &bench.data, .seed = SEED};
    int64_t cursor = 0;
    enum status status = open_rank(&bench, place, &record->fault);
    for (int step = 0; step < STEPS && status == OK; step++) {
        struct step_result *result = &results[place->rank][step];
        status = by_windows ? take_windows(&bench, step, &cursor, result, &record->fault)
                            : step_execute_from_stream(&bench.session, &source, step, &cursor,
                                                       result, &record->fault);
    }
    site_leave(bench.session.site);
    atomic_store(&record->status, (int)status);
}

static void run_ranks(void) {
    struct ranks ranks;
    memset(results, 0, RANKS_MOST * sizeof *results);
    ranks_init(&ranks, world, MEET_MS);
    ranks_start_all(&ranks, take_steps);
    assert_true(ranks_await(&ranks, ranks_have_ended, -1, TIMEOUT_MS));
    for (int rank = 0; rank < world; rank++) {
        const struct record *record = &ranks.records[rank];
        if (atomic_load(&record->status) != OK) {
            fail_msg("rank %d of %d: %s: %s", rank, world, record->fault.subject,
                     record->fault.reason);
        }
    }
    ranks_finish(&ranks);
}

static void expect_same(const struct step_result *a, const struct step_result *b) {
    assert_true(a->loss == b->loss);
    assert_true(a->gradient_norm == b->gradient_norm);
    assert_int_equal(a->tokens, b->tokens);
    assert_in_range(a->tokens, 1, ROWS * 8 - 1);
}

static void a_step_on_windows_is_the_step_from_data_on_every_rank(void **state) {
    (void)state;
    for (world = 2; world <= RANKS_MOST; world++) {
        struct step_result expected[STEPS];
        stops_at = 0;
        by_windows = false;
        run_ranks();
        memcpy(expected, results[0], sizeof expected);
        by_windows = true;
        run_ranks();
        for (int rank = 0; rank < world; rank++) {
            for (int step = 0; step < STEPS; step++) {
                expect_same(&results[rank][step], &expected[step]);
            }
        }
    }
}

static void a_step_that_rank_0_gives_up_changes_nothing_on_any(void **state) {
    (void)state;
    struct step_result expected[STEPS];
    world = 2;
    by_windows = true;
    stops_at = 0;
    run_ranks();
    memcpy(expected, results[0], sizeof expected);
    stops_at = 3;
    run_ranks();
    for (int step = 0; step < STEPS; step++) {
        expect_same(&results[1][step], &expected[step]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_on_windows_is_the_step_from_data_on_every_rank),
        cmocka_unit_test(a_step_that_rank_0_gives_up_changes_nothing_on_any),
    };
    return cmocka_run_group_tests(tests, write_files, scratch_close);
}
