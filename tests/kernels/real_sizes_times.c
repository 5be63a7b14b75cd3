#include "tests/kernels/real_sizes.h"

#include "base/check.h"
#include "kernels/cuda/launch/matmul.h"
#include "kernels/cuda/launch/workspace.h"
#include "tests/kernels/harness.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 12 };

static int compare_times(const void *a, const void *b) {
    float left = *(const float *)a;
    float right = *(const float *)b;
    return (left > right) - (left < right);
}

/* Prints the median time of `run`, and the rate of `flops` operations in that time. */
static void time_run(const char *name, void (*run)(void *context), void *context, double flops) {
    const struct cuda_driver *driver = real_sizes_compute()->driver;
    CUstream stream = real_sizes_compute()->stream;
    float times[REPEATS];
    CUevent events[2];
    for (int i = 0; i < 2; i++) {
        must(driver->cuEventCreate(&events[i], CU_EVENT_DEFAULT), "create an event");
    }
    run(context);
    for (int i = 0; i < REPEATS; i++) {
        must(driver->cuEventRecord(events[0], stream), "record an event");
        run(context);
        must(driver->cuEventRecord(events[1], stream), "record an event");
        wait_for_device("run what is timed");
        must(driver->cuEventElapsedTime(&times[i], events[0], events[1]), "read a time");
    }
    qsort(times, REPEATS, sizeof times[0], compare_times);
    double ms = (double)times[REPEATS / 2];
    printf("%-56s %9.3f ms  %7.1f TFLOP/s\n", name, ms, flops / ms * 1e-9);
    for (int i = 0; i < 2; i++) {
        must(driver->cuEventDestroy(events[i]), "destroy an event");
    }
}

struct timed_attention {
    struct attention_args args;
    struct attention_buffers buffers;
};

static void run_timed_forward(void *context) {
    const struct timed_attention *timed = context;
    attention_run_forward(&timed->args, &timed->buffers);
}

static void run_timed_backward(void *context) {
    const struct timed_attention *timed = context;
    attention_run_backward(&timed->args, &timed->buffers);
}

/* The operations of the causal half: 2 products forward, 5 backward. */
static void time_attention(const struct attention_case *c) {
    struct timed_attention timed = {.args = attention_args_of(c, DTYPE_BF16)};
    const struct attention_args *args = &timed.args;
    struct values qkv = new_values(c->time * args->q_stride, 1, harness_seed(), false);
    struct values dout = new_values(c->time * args->out_stride, 1, harness_seed() + 1, false);
    double pairs = 0.5 * (double)c->time * (double)(c->time + 1);
    double product = 2 * pairs * (double)(c->heads * c->head_dim);
    char name[80];
    timed.buffers = new_attention_buffers(c, args, qkv.bf16, dout.bf16);
    snprintf(name, sizeof name, "attention %lld tokens, heads %lld/%lld of %lld",
             (long long)c->time, (long long)c->heads, (long long)c->kv_heads,
             (long long)c->head_dim);
    printf("%s\n", name);
    time_run("  forward", run_timed_forward, &timed, 2 * product);
    time_run("  backward", run_timed_backward, &timed, 5 * product);
    release_buffers();
}

struct timed_product {
    struct matmul_args args;
    struct cuda_compute compute;
    void *a, *b, *c, *workspace;
};

static void run_timed_product(void *context) {
    const struct timed_product *timed = context;
    cuda_matmul_run(&timed->compute, &timed->args, timed->a, timed->b, NULL, timed->c,
                    timed->workspace);
}

static void time_product(int form, const struct target *target) {
    struct region region = {0};
    struct timed_product timed = {.args = product_args(form), .compute = *real_sizes_compute()};
    const struct matmul_args *args = &timed.args;
    struct cuda_products *products = open_products(target, &region);
    double flops = 2 * (double)args->m * (double)args->n * (double)args->k;
    timed.a = new_values(args->m * args->k, 1, harness_seed(), false).bf16;
    timed.b = new_values(args->k * args->n, 1, harness_seed() + 1, false).bf16;
    timed.c = new_buffer(4 * (uint64_t)(args->m * args->n));
    timed.workspace = new_buffer(cuda_matmul_workspace_bytes(args, target));
    printf("product %lld x %lld x %lld%s%s\n", (long long)args->m, (long long)args->n,
           (long long)args->k, args->transpose_a ? ", a transposed" : "",
           args->transpose_b ? ", b transposed" : "");
    time_run("  built-in", run_timed_product, &timed, flops);
    if (products != NULL) {
        struct cuda_product_operands operands = {.a = timed.a, .b = timed.b, .c = timed.c};
        cuda_products_choose(products, args, &operands);
        timed.compute.products = products;
        time_run("  cuBLASLt", run_timed_product, &timed, flops);
        release_buffers();
        cuda_products_finish(products);
    } else {
        release_buffers();
    }
    region_finish(&region);
}

void real_sizes_bench(void) {
    static const struct attention_case CASES[] = {
        {4096, 32, 8, 64, 0, 0},
        {8192, 32, 8, 128, 0, 0},
    };
    const struct target target = real_sizes_target();
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        time_attention(&CASES[i]);
    }
    for (int form = 0; form < PRODUCT_FORMS; form++) {
        time_product(form, &target);
    }
}
