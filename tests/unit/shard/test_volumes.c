/* Volumes of a step against sums by hand. */
#include "runtime/shard/volumes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ELEMENTS_A = 768, ELEMENTS_B = 1536 };

/* A is used in both passes, B in the forward pass alone; both divide among 12 ranks. */
static const struct unit UNITS[] = {{.elements = ELEMENTS_A}, {.elements = ELEMENTS_B}};
static const struct unit_table TABLE = {.units = UNITS, .unit_count = 2};

static struct step_volumes volumes(int zero, int shard, int replicate, enum reduce_at reduce_at,
                                   enum dtype wire) {
    struct gather_span gathers[] = {{.unit = 0, .first = 0, .last = 3},
                                    {.unit = 1, .first = 4, .last = 6},
                                    {.unit = 0, .first = 8, .last = 9}};
    struct reduce_span reduces[] = {{.unit = 1, .first = 7, .last = 7},
                                    {.unit = 0, .first = 8, .last = 9}};
    const struct spans spans = {.gathers = gathers,
                                .gather_count = zero == 3 && shard > 1 ? 3 : 0,
                                .reduces = reduces,
                                .reduce_count = 2};
    const struct unit_strategy strategies[] = {{.zero = zero}, {.zero = zero}};
    const struct sharding sharding = {.shard = shard,
                                      .replicate = replicate,
                                      .units = strategies,
                                      .reduce_at = reduce_at,
                                      .reduce = wire};
    const struct volume_args args = {.units = &TABLE,
                                     .sharding = &sharding,
                                     .spans = &spans,
                                     .forward_count = 7,
                                     .accumulation = 5,
                                     .compute = DTYPE_BF16};
    return volumes_of_step(&args);
}

static void expect(struct step_volumes got, struct step_volumes wanted) {
    assert_int_equal(got.gather_forward, wanted.gather_forward);
    assert_int_equal(got.gather_backward, wanted.gather_backward);
    assert_int_equal(got.reduce, wanted.reduce);
    assert_int_equal(got.gather_reduced_gradients, wanted.gather_reduced_gradients);
    assert_int_equal(got.between_replicas, wanted.between_replicas);
    assert_int_equal(got.gather_params, wanted.gather_params);
}

/* Three of four shards come from other ranks. A + B: 1536 + 3072 bytes in bf16, 3072 + 6144 in
 * f32. */
static void each_stage_moves_what_its_formula_says(void **state) {
    (void)state;
    const uint64_t f32 = 5 * (3072 + 6144) * 3 / 4;
    const uint64_t bf16 = (1536 + 3072) * 3 / 4;
    expect(volumes(0, 4, 1, REDUCE_AT_MICROBATCH, DTYPE_F32),
           (struct step_volumes){.reduce = f32, .gather_reduced_gradients = f32});
    for (int zero = 1; zero <= 2; zero++) {
        expect(volumes(zero, 4, 1, REDUCE_AT_MICROBATCH, DTYPE_F32),
               (struct step_volumes){.reduce = f32, .gather_params = bf16});
    }
    expect(volumes(3, 4, 1, REDUCE_AT_MICROBATCH, DTYPE_F32),
           (struct step_volumes){
               .gather_forward = 5 * bf16, .gather_backward = 5 * 1536 * 3 / 4, .reduce = f32});
}

static void a_bf16_wire_halves_the_reduction_alone(void **state) {
    (void)state;
    const uint64_t f32 = 5 * (3072 + 6144) * 3 / 4;
    expect(volumes(0, 4, 1, REDUCE_AT_MICROBATCH, DTYPE_BF16),
           (struct step_volumes){.reduce = f32 / 2, .gather_reduced_gradients = f32});
}

static void reducing_once_a_step_moves_one_microbatch(void **state) {
    (void)state;
    const uint64_t f32 = (3072 + 6144) * 3 / 4;
    expect(volumes(0, 4, 1, REDUCE_AT_STEP, DTYPE_F32),
           (struct step_volumes){.reduce = f32, .gather_reduced_gradients = f32});
}

/* A shard of A + B is 768 + 1536 bytes in f32; two thirds of it come from the other two groups,
 * twice. */
static void hybrids_all_reduce_their_shards_across(void **state) {
    (void)state;
    const uint64_t f32 = 5 * (3072 + 6144) * 3 / 4;
    const uint64_t across = 5 * (768 + 1536) * 2 / 3;
    expect(volumes(2, 4, 3, REDUCE_AT_MICROBATCH, DTYPE_F32),
           (struct step_volumes){.reduce = f32,
                                 .between_replicas = 2 * across,
                                 .gather_params = (1536 + 3072) * 3 / 4});
    expect(volumes(2, 4, 3, REDUCE_AT_MICROBATCH, DTYPE_BF16),
           (struct step_volumes){.reduce = f32 / 2,
                                 .between_replicas = across / 2 + across,
                                 .gather_params = (1536 + 3072) * 3 / 4});
}

static void replicas_without_shards_all_reduce_the_whole(void **state) {
    (void)state;
    const uint64_t across = 5 * (3072 + 6144) * 2 / 3;
    expect(volumes(3, 1, 3, REDUCE_AT_MICROBATCH, DTYPE_F32),
           (struct step_volumes){.between_replicas = 2 * across});
}

static void one_rank_alone_receives_nothing(void **state) {
    (void)state;
    expect(volumes(3, 1, 1, REDUCE_AT_MICROBATCH, DTYPE_F32), (struct step_volumes){0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stage_moves_what_its_formula_says),
        cmocka_unit_test(a_bf16_wire_halves_the_reduction_alone),
        cmocka_unit_test(reducing_once_a_step_moves_one_microbatch),
        cmocka_unit_test(hybrids_all_reduce_their_shards_across),
        cmocka_unit_test(replicas_without_shards_all_reduce_the_whole),
        cmocka_unit_test(one_rank_alone_receives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
