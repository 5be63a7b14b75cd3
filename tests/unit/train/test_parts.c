/* Tests of train/parts: over the ranks of a site every element of every copy is somebody's own
 * exactly once, and what lies on a rank has the values that one rank alone would have. */
#include "runtime/model/model.h"
#include "runtime/session/rank_parts.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OVERRIDES_MAX = 8 };

/* Tensors of odd sizes: shards cut them anywhere. */
static const char CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\", \"hidden_size\": 32, \"intermediate_size\": 24, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 97, "
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"initializer_range\": 0.3, "
    "\"tie_word_embeddings\": true, \"rope_theta\": 10000.0}";

/* How the ranks share. */
struct layout {
    int ranks, replicate;
    const char *zero, *dtype, *frozen;
    bool trains;
};

static const struct layout LAYOUTS[] = {
    {3, 1, "0", "f32", "", true},
    {3, 1, "1", "bf16", "", true},
    {4, 2, "2", "f32", "", true},
    {4, 2, "3", "bf16", "", true},
    {5, 1, "3", "f32", "", true},
    {8, 4, "3", "f32", "", true},
    {3, 1, "3", "bf16", "", false},
    {4, 4, "3", "bf16", "", true},
    {3, 1, "3", "bf16", "model.layers.0,model.norm", true},
};

static struct session session;
static struct fault fault;

static int write_model(void **state) {
    int failed = scratch_open(state);
    if (failed == 0) {
        scratch_write_text("m/config.json", CONFIG);
    }
    return failed;
}

static void expect_ok(enum status status) {
    if (status != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
}

/* The program as rank `rank` of the layout holds it. */
static void open_rank(const struct layout *of, int rank) {
    char texts[OVERRIDES_MAX][64];
    const char *overrides[OVERRIDES_MAX];
    int count = 0;
    snprintf(texts[count++], 64, "init=random");
    snprintf(texts[count++], 64, "threads=1");
    snprintf(texts[count++], 64, "strategy.zero=%s", of->zero);
    snprintf(texts[count++], 64, "strategy.replicate=%d", of->replicate);
    snprintf(texts[count++], 64, "precision.params=%s", of->dtype);
    snprintf(texts[count++], 64, "precision.compute=%s", of->dtype);
    snprintf(texts[count++], 64, "frozen=%s", of->frozen);
    for (int i = 0; i < count; i++) {
        overrides[i] = texts[i];
    }
    memset(&session, 0, sizeof session);
    session.ranks = of->ranks;
    expect_ok(session_read(&session, "m", overrides, count, &fault));
    expect_ok(session_compile(&session, of->trains ? PURPOSE_COMPARE : PURPOSE_LOGITS, &fault));
    int shard = of->ranks / of->replicate;
    const struct rank_indices ranks = {.index = {rank % shard, rank / shard, rank},
                                       .size = {shard, of->replicate, of->ranks}};
    expect_ok(program_bind(&session.program, &ranks, &session.region, &session.bound, &fault));
}

/* How often each element of each parameter was named. */
struct coverage {
    int times[1 << 16];
    int64_t first_of[64]; /* of each parameter */
};

static void lay_out_coverage(struct coverage *coverage) {
    int64_t next = 0;
    for (int i = 0; i < session.blueprint.param_count; i++) {
        coverage->first_of[i] = next;
        next += param_elements(&session.blueprint.params[i]);
    }
    assert_in_range(next, 1, ARRAY_COUNT(coverage->times));
}

static void cover(struct coverage *coverage, enum param_view view) {
    lay_out_coverage(coverage);
    for (int i = 0; i < session.blueprint.param_count; i++) {
        struct tensor_piece piece;
        if (!rank_parts_has_view(&session, i, view) ||
            !rank_parts_find_piece(&session, i, view, PART_SAVED, &piece)) {
            continue;
        }
        for (int64_t k = 0; k < piece.count; k++) {
            coverage->times[coverage->first_of[i] + piece.first + k]++;
        }
    }
}

static void expect_each_once(const struct coverage *coverage, enum param_view view) {
    for (int i = 0; i < session.blueprint.param_count; i++) {
        int wanted = rank_parts_has_view(&session, i, view) ? 1 : 0;
        for (int64_t k = 0; k < param_elements(&session.blueprint.params[i]); k++) {
            assert_int_equal(coverage->times[coverage->first_of[i] + k], wanted);
        }
    }
}

static void ranks_own_every_element_once(void **state) {
    (void)state;
    static const enum param_view VIEWS[] = {VIEW_MASTER, VIEW_MOMENT1, VIEW_MOMENT2, VIEW_GRADIENT};
    static struct coverage coverage;
    for (size_t l = 0; l < ARRAY_COUNT(LAYOUTS); l++) {
        for (size_t v = 0; v < (LAYOUTS[l].trains ? ARRAY_COUNT(VIEWS) : 1); v++) {
            memset(&coverage, 0, sizeof coverage);
            for (int rank = 0; rank < LAYOUTS[l].ranks; rank++) {
                open_rank(&LAYOUTS[l], rank);
                cover(&coverage, VIEWS[v]);
                if (rank == LAYOUTS[l].ranks - 1) {
                    expect_each_once(&coverage, VIEWS[v]);
                }
                session_finish(&session);
            }
        }
    }
}

static const struct param *param_of(const struct tensor_piece *piece) {
    int index = 0;
    while (strcmp(session.blueprint.params[index].name, piece->name) != 0) {
        index++;
    }
    return &session.blueprint.params[index];
}

static void expect_values(const struct tensor_piece *piece) {
    static float whole[1 << 14];
    const struct param *param = param_of(piece);
    int64_t elements = param_elements(param);
    assert_in_range(elements, 1, ARRAY_COUNT(whole));
    param_init_fill(param, (uint64_t)session.settings.seed, 0, elements, whole);
    for (int64_t k = 0; k < piece->count; k++) {
        float value = whole[piece->first + k];
        if (piece->dtype == DTYPE_BF16) {
            assert_int_equal(((const uint16_t *)piece->memory)[k], bf16_from_f32(value));
        } else {
            assert_true(((const float *)piece->memory)[k] == value);
        }
    }
}

static void random_weights_are_the_same_on_every_rank(void **state) {
    (void)state;
    for (size_t l = 0; l < ARRAY_COUNT(LAYOUTS); l++) {
        for (int rank = 0; rank < LAYOUTS[l].ranks; rank++) {
            struct tensor_piece *pieces;
            open_rank(&LAYOUTS[l], rank);
            expect_ok(session_init_weights(&session, &fault));
            int count = rank_parts_of_weights(&session, &pieces);
            for (int i = 0; i < count; i++) {
                expect_values(&pieces[i]);
            }
            assert_true(count > 0);
            session_finish(&session);
        }
    }
}

static int64_t held_elements(enum param_view view) {
    int64_t sum = 0;
    struct tensor_set set = rank_parts_of_view(&session, view, PART_STORED);
    for (int i = 0; i < set.piece_count; i++) {
        sum += set.pieces[i].count;
    }
    return sum;
}

static void a_strategy_decides_what_a_rank_holds(void **state) {
    (void)state;
    int64_t whole[4];
    for (int zero = 0; zero < 4; zero++) {
        const char texts[4][2] = {"0", "1", "2", "3"};
        const struct layout of = {4, 1, texts[zero], "bf16", "", true};
        int64_t masters = 0;
        open_rank(&of, 0);
        int64_t elements = blueprint_elements(&session.blueprint);
        whole[zero] = held_elements(VIEW_PARAMS);
        session_finish(&session);
        for (int rank = 0; rank < 4; rank++) {
            open_rank(&of, rank);
            masters += held_elements(VIEW_MASTER);
            session_finish(&session);
        }
        assert_int_equal(whole[zero], zero < 3 ? elements : 0);
        assert_int_equal(masters, zero == 0 ? 4 * elements : elements);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_own_every_element_once),
        cmocka_unit_test(random_weights_are_the_same_on_every_rank),
        cmocka_unit_test(a_strategy_decides_what_a_rank_holds),
    };
    return cmocka_run_group_tests(tests, write_model, scratch_close);
}
