/* The emulated device: right kernels give right values in every order of threads; each mistake that
 * it is there for is found. */
#include "base/check.h"
#include "base/dtype.h"
#include "tests/emulated/launch.h"
#include "tests/emulated/planted_params.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEEDS = 20, VALUES = 4096 };

static void launch(const char *name, unsigned blocks, unsigned threads, unsigned shared_bytes,
                   const void *params) {
    struct emulated_kernel *kernel = emulated_find(name);
    assert_non_null(kernel);
    emulated_launch(kernel, (const unsigned[3]){blocks, 1, 1}, threads, shared_bytes, params);
}

/* What the process says that launches this, and that must not live through it. */
static void assert_dies(const char *name, unsigned threads, unsigned shared_bytes,
                        const struct planted_params *params, const char *saying) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        launch(name, 1, threads, shared_bytes, params);
        _exit(0);
    }
    close(ends[1]);
    char text[1024] = "";
    size_t length = 0;
    ssize_t count;
    while (length < sizeof text - 1 &&
           (count = read(ends[0], text + length, sizeof text - 1 - length)) > 0) {
        length += (size_t)count;
    }
    text[length] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (strstr(text, name) == NULL || strstr(text, saying) == NULL) {
        fail_msg("%s says \"%s\", not \"%s\"", name, text, saying);
    }
}

/* ---- orders ---- */

static bool sums_right(const char *name, uint64_t seed) {
    static float in[VALUES];
    float out[3] = {0};
    float expected = 0;
    for (int i = 0; i < 1000; i++) {
        in[i] = (float)(i % 17);
        expected += in[i];
    }
    emulated_seed(seed);
    launch(name, 3, 256, 0, &(struct planted_params){in, out, 1000});
    return out[0] == expected && out[1] == expected && out[2] == expected;
}

static void block_sum_is_right_in_every_order(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_true(sums_right("planted_sum", seed));
    }
}

static bool passes_right(const char *name, uint64_t seed) {
    int out[128] = {0};
    bool right = true;
    emulated_seed(seed);
    launch(name, 1, 128, 0, &(struct planted_params){NULL, out, 0});
    for (int i = 0; i < 128; i++) {
        right = right && out[i] == (i + 2) % 128;
    }
    return right;
}

static void missing_barrier_gives_wrong_values(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_true(passes_right("planted_pass", seed));
        assert_false(passes_right("planted_pass_without_barrier", seed));
        assert_false(sums_right("planted_sum_without_barrier", seed));
    }
}

static void every_thread_of_every_block_runs_once(void **state) {
    (void)state;
    const unsigned grid[3] = {5, 3, 4};
    static int out[60 * 96];
    struct planted_params params = {.out = out};
    emulated_launch(emulated_find("planted_place"), grid, 96, 0, &params);
    for (int i = 0; i < 60 * 96; i++) {
        assert_int_equal(out[i], 1);
    }
}

static void orders_differ_by_seed_alone(void **state) {
    (void)state;
    int orders[3][1 + 6 * 64] = {{0}};
    const uint64_t seeds[3] = {1, 2, 1};
    for (int i = 0; i < 3; i++) {
        emulated_seed(seeds[i]);
        launch("planted_order", 6, 64, 0, &(struct planted_params){.out = orders[i]});
    }
    assert_memory_not_equal(orders[0], orders[1], sizeof orders[0]);
    assert_memory_equal(orders[0], orders[2], sizeof orders[0]);
}

static void shuffles_move_values_between_threads(void **state) {
    (void)state;
    uint32_t out[64] = {0};
    launch("planted_shuffle", 1, 64, 0, &(struct planted_params){.out = out});
    for (unsigned i = 0; i < 64; i++) {
        unsigned lane = i % 32;
        unsigned first = (lane + 5) % 32 * 3;
        unsigned second = ((lane ^ 9) + 5) % 32 * 3;
        assert_int_equal(out[i], first * 1000 + second);
    }
}

/* ---- tensor cores and copies ---- */

static void product_equals_plain_sums(void **state) {
    (void)state;
    uint16_t a[16 * 16];
    uint16_t b[8 * 16];
    for (int i = 0; i < 16 * 16; i++) {
        a[i] = bf16_from_f32((float)((i * 37 + i / 16) % 19 - 9));
        b[i % (8 * 16)] = bf16_from_f32((float)((i * 11 + i / 8) % 23 - 11));
    }
    const char *const names[2] = {"planted_product", "planted_product_transposed"};
    for (int form = 0; form < 2; form++) {
        float d[16 * 8];
        launch(names[form], 1, 32, 0, &(struct planted_product_params){a, b, d});
        for (int i = 0; i < 16 * 8; i++) {
            float sum = 0;
            for (int k = 0; k < 16; k++) {
                sum += bf16_to_f32(a[i / 8 * 16 + k]) * bf16_to_f32(b[i % 8 * 16 + k]);
            }
            assert_true(d[i] == sum);
        }
    }
}

static bool copies_right(const char *name) {
    _Alignas(16) float in[64 * 4];
    _Alignas(16) float out[64 * 4];
    bool right = true;
    for (int i = 0; i < 64 * 4; i++) {
        in[i] = (float)i;
    }
    launch(name, 1, 32, 0, &(struct planted_params){in, out, 20});
    for (int i = 0; i < 64 * 4; i++) {
        float expected = i / 4 >= 20 && i / 4 < 32 ? 0 : (float)i;
        right = right && out[i] == expected;
    }
    return right;
}

static void copies_land_when_waited_for(void **state) {
    (void)state;
    assert_true(copies_right("planted_copies"));
    assert_false(copies_right("planted_copies_too_early"));
}

static void numbers_round_as_on_the_device(void **state) {
    (void)state;
    float in[32];
    float out[6][32];
    for (int i = 0; i < 32; i++) {
        in[i] = (float)i * 0.37f;
    }
    in[31] = NAN;
    launch("planted_numbers", 1, 32, 0, &(struct planted_params){in, out, 32});
    assert_true(isnan(out[0][31]));
    assert_true(out[2][0] == 1);
    for (int i = 0; i < 31; i++) {
        float x = in[i];
        assert_true(out[0][i] == bf16_to_f32(bf16_from_f32(x)));
        assert_true(out[1][i] == 0);
        assert_true(fabs((double)out[2][i] - exp2((double)x)) <= 3e-7 * exp2((double)x));
        assert_true(out[3][i] == fmaf(x, x, 1 - x * x));
        assert_true(out[4][i] == sqrtf(x));
        assert_true(out[5][i] == rintf(x));
    }
}

/* ---- mistakes ---- */

static void mistakes_end_the_process(void **state) {
    (void)state;
    float in[64 * 4 + 4] = {0};
    float out[64 * 4] = {0};
    struct planted_params params = {in, out, 8};
    assert_dies("planted_lone_shuffle", 32, 0, &params, "has ended while thread");
    assert_dies("planted_two_barriers", 64, 0, &params, "waits at the barrier of line");
    assert_dies("planted_static_overrun", 32, 0, &params, "beyond its static shared memory");
    assert_dies("planted_index_overrun", 32, 0, &params, "beyond its array");
    assert_dies("planted_unaligned", 32, 0, &params, "not aligned");
    assert_dies("planted_store", 32, 0, &params, "gives shared memory");
    params.count = 100;
    assert_dies("planted_dynamic_write", 32, 100, &params, "beyond its dynamic shared memory");
    params.count = 128;
    assert_dies("planted_dynamic_write", 32, 100, &params, "outside of memory");
    params.count = 99;
    launch("planted_dynamic_write", 1, 32, 100, &params);
}

static void launches_stay_within_limits(void **state) {
    (void)state;
    float out[96] = {0};
    struct planted_params params = {NULL, out, 60000};
    launch("planted_bounded", 1, 64, 0, &params);
    assert_dies("planted_bounded", 96, 0, &params, "launched with 96 threads");
    assert_dies("planted_place", 1056, 0, &params, "at most 1024");
    assert_dies("planted_dynamic_write", 32, 61000, &params, "it may have 49152");
    emulated_allow_shared(emulated_find("planted_dynamic_write"), 61000);
    launch("planted_dynamic_write", 1, 32, 61000, &params);
    const char *sum = "32 bytes of static and 49152 of dynamic shared memory";
    assert_dies("planted_index_overrun", 32, EMULATED_SHARED_DEFAULT, &params, sum);
    assert_null(emulated_find("planted_nothing"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_sum_is_right_in_every_order),
        cmocka_unit_test(missing_barrier_gives_wrong_values),
        cmocka_unit_test(every_thread_of_every_block_runs_once),
        cmocka_unit_test(orders_differ_by_seed_alone),
        cmocka_unit_test(shuffles_move_values_between_threads),
        cmocka_unit_test(product_equals_plain_sums),
        cmocka_unit_test(copies_land_when_waited_for),
        cmocka_unit_test(numbers_round_as_on_the_device),
        cmocka_unit_test(mistakes_end_the_process),
        cmocka_unit_test(launches_stay_within_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
