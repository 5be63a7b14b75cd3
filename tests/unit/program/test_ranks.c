/* Ranks together: N ranks with different rows equal one rank with all of them; on one mesh no
 * strategy, prefetch, recomputation or delay changes a bit. */
#include "tests/unit/program/models.h"
#include "tests/unit/program/team.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES_MAX = 1 << 16 };

static struct team one;
static struct team many;

static const double LOSS_TOLERANCE = 1e-6;
static const double WEIGHT_TOLERANCE = 1e-5;
/* A key's bias shifts all scores of a query alike: its true gradient is zero, and AdamW makes steps
 * of whatever rounding leaves. Measured by the tensor that it is in: GPT-2's is a third of one. */
static const double KEY_BIAS_TOLERANCE = 1e-3;

static void compare_losses(const struct team *alone, const struct team *team) {
    for (int step = 0; step < TEAM_STEPS; step++) {
        double wanted = alone->members[0].loss[step];
        for (int rank = 0; rank < team->world; rank++) {
            double found = team->members[rank].loss[step];
            if (!(fabs(found - wanted) <= LOSS_TOLERANCE * wanted)) {
                fail_msg("%s: rank %d, step %d: loss %.9g, one rank has %.9g",
                         team_title(&team->of), rank, step, found, wanted);
            }
            assert_memory_equal(&team->members[rank].norm[step], &team->members[0].norm[step],
                                sizeof(double));
        }
    }
}

/* Elements [begin, end) of a parameter. */
struct replica_chunk {
    int64_t begin, end;
};

/* Where a parameter holds biases of keys: GPT-2 has them between those of queries and values. */
static struct replica_chunk key_biases(const struct param *param) {
    int64_t elements = param_elements(param);
    if (param->kind == PARAM_K_BIAS) {
        return (struct replica_chunk){0, elements};
    }
    if (param->kind == PARAM_QKV_BIAS) {
        return (struct replica_chunk){elements / 3, elements / 3 * 2};
    }
    return (struct replica_chunk){0, 0};
}

static double length(const float *values, struct replica_chunk of) {
    double squares = 0;
    for (int64_t k = of.begin; k < of.end; k++) {
        squares += (double)values[k] * (double)values[k];
    }
    return sqrt(squares);
}

static void compare_weights(const struct team *alone, const struct team *team) {
    static float wanted[VALUES_MAX];
    static float apart[VALUES_MAX];
    for (int i = 0; i < team->blueprint.param_count; i++) {
        const struct param *param = &team->blueprint.params[i];
        int64_t elements = param_elements(param);
        struct replica_chunk keys = key_biases(param);
        const struct replica_chunk parts[] = {{0, keys.begin}, keys, {keys.end, elements}};
        assert_true(elements <= VALUES_MAX);
        team_gather(alone, i, VIEW_MASTER, wanted);
        team_gather(team, i, VIEW_MASTER, apart);
        for (int64_t k = 0; k < elements; k++) {
            apart[k] -= wanted[k];
        }
        for (int part = 0; part < 3; part++) {
            const struct replica_chunk of =
                part == 1 ? (struct replica_chunk){0, elements} : parts[part];
            double tolerance = part == 1 ? KEY_BIAS_TOLERANCE : WEIGHT_TOLERANCE;
            double ratio = length(apart, parts[part]) / length(wanted, of);
            if (parts[part].begin < parts[part].end && !(ratio <= tolerance)) {
                fail_msg("%s: %s: elements %lld to %lld differ by %.3g from one rank's",
                         team_title(&team->of), param->name, (long long)parts[part].begin,
                         (long long)parts[part].end, ratio);
            }
        }
    }
}

static void expect_planned_peaks(const struct team *team) {
    for (int rank = 0; rank < team->world; rank++) {
        const struct bound_program *bound = &team->members[rank].bound;
        for (int space = 0; space < SPACE_COUNT; space++) {
            if (bound->high_water[space] != team->program.plan.peak_bytes[space]) {
                fail_msg("%s: rank %d used %llu bytes of %s, planned are %llu",
                         team_title(&team->of), rank, (unsigned long long)bound->high_water[space],
                         space_name((enum space)space),
                         (unsigned long long)team->program.plan.peak_bytes[space]);
            }
        }
    }
}

static void ranks_with_rows_of_their_own_equal_one_rank_with_all(void **state) {
    (void)state;
    static const struct {
        int shard, replicate;
    } MESHES[] = {{2, 1}, {3, 1}, {4, 1}, {2, 2}, {1, 3}};
    for (size_t m = 0; m < ARRAY_COUNT(TEST_MODELS); m++) {
        struct team_case of = {
            .config = TEST_MODELS[m].config, .shard = 1, .replicate = 1, .microbatch = 2};
        team_init(&one, &of);
        team_train(&one);
        for (size_t mesh = m % 2; mesh < ARRAY_COUNT(MESHES); mesh += 2) {
            of.shard = MESHES[mesh].shard;
            of.replicate = MESHES[mesh].replicate;
            of.zero = (int)(m + mesh) % ZERO_STAGE_COUNT;
            of.prefetch = (int)mesh % 3;
            team_init(&many, &of);
            team_train(&many);
            compare_losses(&one, &many);
            compare_weights(&one, &many);
            expect_planned_peaks(&many);
            team_finish(&many);
        }
        team_finish(&one);
    }
}

/* What must not change a bit on the mesh of `of`. */
static void expect_same_bits(const struct team_case *of) {
    struct hash wanted = {0};
    for (int variant = 0; variant < 9; variant++) {
        struct team_case with = *of;
        with.zero = variant % ZERO_STAGE_COUNT;
        with.prefetch = variant / 2 % 4;
        with.live = variant % 5 == 4 ? 1 : 0;
        with.keep_gathered = variant % 3 == 2;
        with.recompute = (enum recompute)(variant % RECOMPUTE_COUNT);
        static const unsigned OFFLOADS[] = {0, 1, 2, 6, 3, 7, 7, 2, 6};
        with.offload = OFFLOADS[variant];
        with.separate = variant % 5 > 2;
        with.mixed = variant == 8;
        with.disturbance = variant % 4 == 3 ? (uint64_t)variant : 0;
        team_init(&many, &with);
        team_train(&many);
        struct hash found = team_hash(&many);
        if (variant > 0 && memcmp(&found, &wanted, sizeof found) != 0) {
            fail_msg("%s: other bits than ZeRO 0", team_title(&with));
        }
        wanted = found;
        team_finish(&many);
    }
}

static void strategies_and_delays_change_no_bit(void **state) {
    (void)state;
    static const struct team_case CASES[] = {
        {.shard = 3, .replicate = 1, .microbatch = 2},
        {.shard = 2, .replicate = 2, .microbatch = 1, .compute = DTYPE_BF16},
        {.shard = 2, .replicate = 1, .microbatch = 3, .reduce = DTYPE_BF16},
        {.shard = 3, .replicate = 1, .microbatch = 2, .noisy = true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct team_case of = CASES[i];
        of.config = TEST_MODELS[i % 2 == 0 ? 1 : 5].config;
        expect_same_bits(&of);
    }
}

/* One rank: no strategy is in the way. */
static void offload_changes_no_bit(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(TEST_MODELS); m += 2) {
        struct hash wanted = {0};
        for (unsigned variant = 0; variant < 16; variant++) {
            struct team_case of = {.config = TEST_MODELS[m].config,
                                   .shard = 1,
                                   .replicate = 1,
                                   .microbatch = 4,
                                   .compute = m == 2 ? DTYPE_BF16 : DTYPE_F32,
                                   .recompute = (enum recompute)(variant % RECOMPUTE_COUNT),
                                   .offload = variant % 4,
                                   .separate = variant / 4 % 2 == 1,
                                   .disturbance = variant / 8};
            team_init(&many, &of);
            team_train(&many);
            expect_planned_peaks(&many);
            struct hash found = team_hash(&many);
            if (variant > 0 && memcmp(&found, &wanted, sizeof found) != 0) {
                fail_msg("%s, %s: other bits than without", TEST_MODELS[m].name, team_title(&of));
            }
            wanted = found;
            team_finish(&many);
        }
    }
}

static void *run_alone(void *argument) {
    struct team_member *member = argument;
    for (int kind = SEGMENT_BEGIN; kind <= SEGMENT_FINISH; kind++) {
        program_execute_segment(&member->bound, (enum segment_kind)kind);
    }
    return NULL;
}

/* The other rank never comes: only the abort ends the calls, those to come too. */
static void lanes_run_through_once_the_communicator_is_aborted(void **state) {
    (void)state;
    const struct team_case of = {
        .config = TEST_MODELS[0].config, .shard = 2, .replicate = 1, .zero = 3, .microbatch = 1};
    pthread_t thread;
    team_init(&many, &of);
    assert_int_equal(pthread_create(&thread, NULL, run_alone, &many.members[0]), 0);
    communicator_abort(&many.members[0].communicator);
    pthread_join(thread, NULL);
    team_finish(&many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_with_rows_of_their_own_equal_one_rank_with_all),
        cmocka_unit_test(strategies_and_delays_change_no_bit),
        cmocka_unit_test(offload_changes_no_bit),
        cmocka_unit_test(lanes_run_through_once_the_communicator_is_aborted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
