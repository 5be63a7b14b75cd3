/* Sharded schedules: what every way to split a model over ranks must keep to. */
#include "rig.h"

#include "base/random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 400 };

static uint64_t seed(void) {
    const char *wanted = getenv("SKEP_TEST_SEED");
    return wanted == NULL ? 4 : strtoull(wanted, NULL, 10);
}

/* Some case of them all: what it is follows from the seed and its number. */
static struct rig_case draw_case(uint64_t index) {
    static const int WORLDS[][2] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {8, 1},
                                    {1, 2}, {1, 3}, {2, 2}, {2, 3}, {4, 2}};
    uint32_t words[4];
    uint32_t more[4];
    random_block(random_key(seed(), "sharded schedules"), 2 * index, words);
    random_block(random_key(seed(), "sharded schedules"), 2 * index + 1, more);
    const int *world = WORLDS[words[0] % ARRAY_COUNT(WORLDS)];
    struct rig_case of = {.family = (int)(words[1] % RIG_FAMILIES),
                          .zero = (int)(words[2] % ZERO_STAGES),
                          .shard = world[0],
                          .replicate = world[1],
                          .prefetch = (int)(words[3] % 4),
                          .live = (int)(more[0] % 4),
                          .keep_gathered = more[0] >> 8 & 1,
                          .recompute = (enum recompute)(more[1] % RECOMPUTE_COUNT),
                          .compute = more[2] & 1 ? DTYPE_BF16 : DTYPE_F32,
                          .reduce = more[2] & 2 ? DTYPE_BF16 : DTYPE_F32,
                          .separate = (more[2] & 12) == 0,
                          .mixed = more[3] % 5 == 0,
                          .no_training = more[3] >> 8 & 1 && more[3] >> 9 & 1};
    if (of.zero <= 1 && !of.mixed && (more[3] >> 16 & 1)) {
        of.reduce_at = REDUCE_AT_STEP;
    }
    return of;
}

static void plan_and_order_are_sound_in_every_case(void **state) {
    (void)state;
    for (uint64_t i = 0; i < CASES; i++) {
        static struct rig rig;
        struct rig_case of = draw_case(i);
        rig_init(&rig, &of);
        rig_prove(&rig);
        rig_finish(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_and_order_are_sound_in_every_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
