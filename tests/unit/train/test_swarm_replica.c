/* Tests of train/swarm_replica, compute_copies and step_windows: a program with a replica beside it
 * trains, contributes and follows. */
#include "runtime/inner_training/member_replica.h"
#include "runtime/session/compute_copies.h"
#include "runtime/session/step.h"
#include "runtime/swarm_setup/genesis.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { OVERRIDES = 8, WINDOWS = 12 };

static const char CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\", \"hidden_size\": 32, \"intermediate_size\": 24, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 97, "
    "\"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-05, \"initializer_range\": 0.3, "
    "\"tie_word_embeddings\": true, \"rope_theta\": 10000.0}";

/* A member without its sockets. */
struct bench {
    struct session session;
    struct token_data data;
    struct replica replica;
    struct compute_copies copies;
    struct fault fault;
};

static void expect_ok(const struct bench *bench, enum status status) {
    if (status != OK) {
        fail_msg("%s: %s", bench->fault.subject, bench->fault.reason);
    }
}

static void open_bench(struct bench *bench, const char *compute, const char *params) {
    const char *overrides[OVERRIDES] = {
        "init=random",        "threads=2",       "seed=3", "batch.sequence=8",
        "batch.microbatch=2", "batch.tokens=48", compute,  params};
    static struct resident_extent lines[SWARM_EXTENT_COUNT];
    const char *path = "text.bytes";
    const struct path_list paths = {.paths = &path, .count = 1};
    memset(bench, 0, sizeof *bench);
    struct session *session = &bench->session;
    struct fault *fault = &bench->fault;
    expect_ok(bench, session_read(session, "m", overrides, OVERRIDES, fault));
    struct swarm_terms terms = {0};
    terms.shape = (struct replica_shape){.members_max = 3, .outer_rate = 1, .outer_momentum = 0};
    expect_ok(bench, slices_divide(blueprint_elements(&session->blueprint), CODEC_FP32, 3,
                                   &terms.shape.slices, fault));
    swarm_memory_list_extents(&terms, session->target, (struct swarm_member_kind){0}, lines);
    session->resident = lines;
    session->resident_count = SWARM_EXTENT_COUNT;
    expect_ok(bench, data_open_run(&session->settings, &paths, session->blueprint.vocab,
                                   &session->region, &bench->data, fault));
    expect_ok(bench, session_compile(session, PURPOSE_TRAIN, fault));
    expect_ok(bench, session_bind(session, fault));
    expect_ok(bench, session_init_weights(session, fault));
    expect_ok(bench, swarm_replica_bind(session, &terms.shape, &bench->replica, fault));
    compute_copies_plan(session, &bench->copies);
    replica_init_state(&bench->replica);
}

static void close_bench(struct bench *bench) {
    data_close(&bench->data);
    session_finish(&bench->session);
}

static int write_files(void **state) {
    static uint8_t text[1000];
    int failed = scratch_open(state);
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)(i * i % 97);
    }
    scratch_write_text("m/config.json", CONFIG);
    scratch_write("text.bytes", text, sizeof text);
    return failed;
}

static void the_first_state_is_the_genesis(void **state) {
    (void)state;
    static struct bench bench;
    struct hash genesis;
    open_bench(&bench, "precision.compute=f32", "precision.params=f32");
    expect_ok(&bench, genesis_root(&bench.session.settings, &bench.session.blueprint, "", &genesis,
                                   &bench.fault));
    assert_true(hash_equal(&bench.replica.root, &genesis));
    assert_non_null(swarm_extent_address(&bench.session, SWARM_EXTENT_CONTRIBUTION_SLOTS));
    assert_null(swarm_extent_address(&bench.session, SWARM_EXTENT_FEEDBACK));
    assert_null(swarm_extent_address(&bench.session, SWARM_EXTENT_RECORDED_CONTRIBUTION));
    close_bench(&bench);
}

/* The windows that the shuffled stream gives first. */
static void first_windows(const struct bench *bench, int64_t windows[static WINDOWS]) {
    int64_t cursor = 0;
    for (int i = 0; i < WINDOWS; i++) {
        windows[i] = data_next_window(&bench->data, 9, &cursor);
    }
}

static void a_step_on_windows_is_the_step_from_data(void **state) {
    (void)state;
    static struct bench stream;
    static struct bench chosen;
    struct step_result one;
    struct step_result other;
    int64_t windows[WINDOWS];
    int64_t cursor = 0;
    open_bench(&stream, "precision.compute=f32", "precision.params=f32");
    open_bench(&chosen, "precision.compute=f32", "precision.params=f32");
    first_windows(&stream, windows);
    struct step_source source = {.data = &stream.data, .seed = 9};
    for (int step = 0; step < 2; step++) {
        struct step_windows mine = {.data = &chosen.data,
                                    .windows = windows + 6 * step,
                                    .count = 6,
                                    .schedule = step_schedule_at(&stream.session, step)};
        expect_ok(&stream, step_execute_from_stream(&stream.session, &source, step, &cursor, &one,
                                                    &stream.fault));
        expect_ok(&chosen, step_execute_on_windows(&chosen.session, &mine, &other, &chosen.fault));
        assert_true(one.loss == other.loss && one.gradient_norm == other.gradient_norm);
        assert_true(one.learning_rate == other.learning_rate);
        assert_int_equal(one.tokens, other.tokens);
    }
    replica_init_state(&stream.replica);
    replica_init_state(&chosen.replica);
    assert_true(hash_equal(&stream.replica.root, &chosen.replica.root));
    close_bench(&stream);
    close_bench(&chosen);
}

static bool never(void *context) {
    (void)context;
    return false;
}

static void a_step_that_is_given_up_changes_nothing(void **state) {
    (void)state;
    static struct bench bench;
    struct step_result result;
    int64_t windows[WINDOWS];
    open_bench(&bench, "precision.compute=f32", "precision.params=f32");
    first_windows(&bench, windows);
    struct hash before = bench.replica.root;
    struct step_limits limits = {.should_continue = never};
    struct step_windows step = {
        .data = &bench.data, .windows = windows, .count = 5, .limits = &limits};
    assert_int_equal(step_execute_on_windows(&bench.session, &step, &result, &bench.fault),
                     STATUS_STOPPED);
    replica_init_state(&bench.replica);
    assert_true(hash_equal(&bench.replica.root, &before));
    close_bench(&bench);
}

/* A round of one member, uncompressed, outer rate 1: the outer state becomes the inner weights. */
static void a_round_alone_ends_where_training_did(const char *compute, const char *params,
                                                  int copies) {
    static struct bench bench;
    static struct entry_slice lines[SLICES_PER_MEMBER * 3];
    static struct entry entry;
    struct step_result result;
    int64_t windows[WINDOWS];
    open_bench(&bench, compute, params);
    first_windows(&bench, windows);
    assert_int_equal(bench.copies.count > 0, copies);
    struct step_windows step = {
        .data = &bench.data, .windows = windows, .count = 5, .schedule = {.learning_rate = 0.01}};
    expect_ok(&bench, step_execute_on_windows(&bench.session, &step, &result, &bench.fault));
    struct replica *replica = &bench.replica;
    float moved = replica->parts[0].values[1];
    assert_true(replica->params[1] != moved);
    assert_true(replica_encode_contribution(replica));
    entry.kind = ENTRY_COMMIT;
    entry.round = 1;
    entry.seat_count = 1;
    entry.members[0].weight = 40;
    entry.slice_count = replica->shape.slices.count;
    entry.slices = lines;
    for (uint32_t s = 0; s < entry.slice_count; s++) {
        struct addend addend = {replica_own_contribution(replica, s), 40, 1, true};
        lines[s].hash = replica_sum(replica, 1, s, &addend, 1);
        const struct hash hash =
            hash_of(addend.bytes, slices_range(&replica->shape.slices, s).bytes);
        assert_true(hash_equal(&lines[s].hash, &hash));
    }
    (void)replica_apply(replica, &entry, 0);
    assert_true(replica->parts[0].values[1] == replica->params[1]);
    assert_float_equal(replica->params[1], moved, 1e-6F);
    double before = result.loss;
    compute_copies_refresh(&bench.session, &bench.copies);
    expect_ok(&bench, step_execute_on_windows(&bench.session, &step, &result, &bench.fault));
    assert_true(result.loss < before);
    close_bench(&bench);
}

static void the_outer_state_becomes_the_inner_weights(void **state) {
    (void)state;
    a_round_alone_ends_where_training_did("precision.compute=f32", "precision.params=f32", 0);
    a_round_alone_ends_where_training_did("precision.compute=bf16", "precision.params=bf16", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_state_is_the_genesis),
        cmocka_unit_test(a_step_on_windows_is_the_step_from_data),
        cmocka_unit_test(a_step_that_is_given_up_changes_nothing),
        cmocka_unit_test(the_outer_state_becomes_the_inner_weights),
    };
    return cmocka_run_group_tests(tests, write_files, scratch_close);
}
