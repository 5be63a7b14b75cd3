/* Rows into a cache and out of a piece, by lengths that only the scalars know. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/generation.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/generation.h"
#include "tests/kernels/device.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS = 7, CONTEXT = 12, GAP = 3 };

struct generation_context {
    struct generation_args args;
    struct tensor scalars; /* a struct step_scalars, as words */
    struct tensor rows, cache, out;
};

static void run_append(const struct compute *compute, void *context) {
    (void)compute;
    struct generation_context *g = context;
    cache_append(&g->args, g->scalars.data, g->rows.data, g->cache.data);
}

static void run_select(const struct compute *compute, void *context) {
    (void)compute;
    struct generation_context *g = context;
    select_last(&g->args, g->scalars.data, g->rows.data, g->out.data);
}

#if SKEP_CUDA
static void run_append_cuda(const struct cuda_compute *compute, struct device_run *device,
                            void *context) {
    struct generation_context *g = context;
    cuda_cache_append(compute, &g->args, device_of(device, &g->scalars),
                      device_of(device, &g->rows), device_of(device, &g->cache));
}

static void run_select_cuda(const struct cuda_compute *compute, struct device_run *device,
                            void *context) {
    struct generation_context *g = context;
    cuda_select_last(compute, &g->args, device_of(device, &g->scalars), device_of(device, &g->rows),
                     device_of(device, &g->out));
}
#endif

static void check(int64_t width, enum dtype dtype, int32_t held, int32_t valid) {
    uint64_t seed = harness_seed();
    struct generation_context g = {
        .args = {TOKENS, width, width + GAP, CONTEXT, dtype},
        .scalars = tensor_integers(sizeof(struct step_scalars) / sizeof(int32_t), 1, seed),
        .rows = tensor_random(dtype, TOKENS * (width + GAP), PATTERN_NORMAL, seed),
        .cache = tensor_random(dtype, CONTEXT * width, PATTERN_NORMAL, seed + 1),
        .out = tensor_unset(dtype, width)};
    struct step_scalars *scalars = g.scalars.data;
    scalars->cache_length = held;
    scalars->token_count = valid;
    for (int64_t i = 0; i < valid * width; i++) {
        g.cache.exact[held * width + i] = g.rows.exact[i / width * (width + GAP) + i % width];
    }
    for (int64_t i = 0; i < width; i++) {
        g.out.exact[i] = g.rows.exact[(valid - 1) * (width + GAP) + i];
    }
    struct operation append = {.name = "fill",
                               .run = run_append,
                               .run_cuda = ON_CUDA(run_append_cuda),
                               .context = &g,
                               .cuda_align = _Alignof(struct step_scalars),
                               .output_count = 1,
                               .outputs = {{"cache", &g.cache, g.cache.exact}}};
    struct operation select = {.name = "fill",
                               .run = run_select,
                               .run_cuda = ON_CUDA(run_select_cuda),
                               .context = &g,
                               .cuda_align = _Alignof(struct step_scalars),
                               .output_count = 1,
                               .outputs = {{"out", &g.out, g.out.exact}}};
    operation_describe(&append, "append %s width %lld: %d behind %d", dtype_name(dtype),
                       (long long)width, valid, held);
    operation_describe(&select, "select %s width %lld: %d", dtype_name(dtype), (long long)width,
                       valid);
    operation_check(&append);
    operation_check(&select);
    struct tensor *tensors[] = {&g.scalars, &g.rows, &g.cache, &g.out};
    for (size_t i = 0; i < ARRAY_COUNT(tensors); i++) {
        tensor_free(tensors[i]);
    }
}

static void valid_rows_go_behind_those_that_are_held(void **state) {
    (void)state;
    static const int32_t LENGTHS[][2] = {{0, 1}, {0, TOKENS}, {CONTEXT - 3, 3}, {4, 2}};
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        for (size_t i = 0; i < ARRAY_COUNT(LENGTHS); i++) {
            check(1 + 37 * (int64_t)i, (enum dtype)dtype, LENGTHS[i][0], LENGTHS[i][1]);
        }
    }
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_rows_go_behind_those_that_are_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
