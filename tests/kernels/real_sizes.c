#include "tests/kernels/real_sizes.h"

#include "base/check.h"
#include "kernels/cuda/launch/attention.h"
#include "kernels/cuda/launch/workspace.h"
#include "tests/kernels/device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    BUFFERS_MAX = 32, /* device buffers of one test */
    UNWRITTEN = 0xFF, /* bytes of a new buffer: NaN in f32 and in bf16 */
};

static const struct cuda_compute *compute;

/* The device buffers since the last call of release_buffers. */
static struct {
    CUdeviceptr address[BUFFERS_MAX];
    int count;
} buffers;

void real_sizes_open(void) {
    compute = device_compute();
}

const struct cuda_compute *real_sizes_compute(void) {
    return compute;
}

struct target real_sizes_target(void) {
    struct target target = {.kind = TARGET_CUDA, .name = "this device"};
    CUdevice ordinal;
    must(compute->driver->cuDeviceGet(&ordinal, 0), "find the device");
    must(compute->driver->cuDeviceGetAttribute(
             &target.compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal),
         "read its compute capability");
    target.multiprocessor_count = compute->multiprocessors;
    return target;
}

/* ---- memory ---- */

void must(CUresult result, const char *action) {
    if (result != CUDA_SUCCESS) {
        fail_msg("cannot %s: error %d", action, (int)result);
    }
}

void wait_for_device(const char *action) {
    must(compute->failure->result, action);
    must(compute->driver->cuStreamSynchronize(compute->stream), action);
}

void *new_buffer(uint64_t bytes) {
    ASSERT(buffers.count < BUFFERS_MAX);
    CUdeviceptr *address = &buffers.address[buffers.count];
    must(compute->driver->cuMemAlloc(address, bytes > 0 ? bytes : 1), "allocate device memory");
    must(compute->driver->cuMemsetD8Async(*address, UNWRITTEN, bytes, compute->stream),
         "fill device memory");
    buffers.count++;
    return (void *)*address;
}

void release_buffers(void) {
    wait_for_device("run kernels");
    for (int i = 0; i < buffers.count; i++) {
        must(compute->driver->cuMemFree(buffers.address[i]), "free device memory");
    }
    buffers.count = 0;
}

void copy(void *to, const void *from, uint64_t bytes) {
    must(compute->driver->cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, compute->stream),
         "copy");
    wait_for_device("copy");
}

void *new_array(int64_t count, size_t size) {
    void *array = malloc((size_t)count * size);
    assert_non_null(array);
    return array;
}

/* ---- values ---- */

uint64_t mix(uint64_t state) {
    state += 0x9e3779b97f4a7c15u;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
    return state ^ (state >> 31);
}

struct values new_values(int64_t count, float deviation, uint64_t seed, bool keep) {
    uint16_t *narrow = new_array(count, sizeof *narrow);
    float *wide = new_array(count, sizeof *wide);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = mix(seed + (uint64_t)i);
        int64_t sum = (int64_t)(bits & 0xffff) + (int64_t)(bits >> 16 & 0xffff) +
                      (int64_t)(bits >> 32 & 0xffff) + (int64_t)(bits >> 48) - 2 * 0xffff;
        narrow[i] = bf16_from_f32((float)sum * (deviation / (0.57735f * 0xffff)));
        wide[i] = bf16_to_f32(narrow[i]);
    }
    struct values values = {.bf16 = new_buffer(2 * (uint64_t)count),
                            .f32 = new_buffer(4 * (uint64_t)count)};
    copy(values.bf16, narrow, 2 * (uint64_t)count);
    copy(values.f32, wide, 4 * (uint64_t)count);
    free(wide);
    if (keep) {
        values.host = narrow;
    } else {
        free(narrow);
    }
    return values;
}

float *fetch_f32(const void *at, int64_t count) {
    float *values = new_array(count, sizeof *values);
    copy(values, at, 4 * (uint64_t)count);
    return values;
}

float *fetch_bf16(const void *at, int64_t count) {
    uint16_t *narrow = new_array(count, sizeof *narrow);
    float *values = new_array(count, sizeof *values);
    copy(narrow, at, 2 * (uint64_t)count);
    for (int64_t i = 0; i < count; i++) {
        values[i] = bf16_to_f32(narrow[i]);
    }
    free(narrow);
    return values;
}

/* ---- calls ---- */

struct matmul_args product_args(int form) {
    bool small = device_is_emulated();
    struct matmul_args args = {.m = small ? 260 : 8192, .n = small ? 136 : 4096};
    args.k = small ? 80 : 14336;
    args.transpose_a = form & 1;
    args.transpose_b = form & 2;
    args.lda = args.transpose_a ? args.m : args.k;
    args.ldb = args.transpose_b ? args.k : args.n;
    args.ldc = args.n;
    args.dtype_in = DTYPE_BF16;
    args.dtype_out = DTYPE_F32;
    return args;
}

struct cuda_products *open_products(const struct target *target, struct region *region) {
    struct fault fault;
    struct cuda_products *products = region_alloc(region, 1, sizeof *products);
    if (device_is_emulated() || cuda_products_open(target, region, products, &fault) != OK) {
        printf("cuBLASLt is not checked: %s\n",
               device_is_emulated() ? "the device is emulated" : fault.reason);
        return NULL;
    }
    return products;
}

struct attention_args attention_args_of(const struct attention_case *c, enum dtype dtype) {
    int64_t stride = (c->heads + 2 * c->kv_heads) * c->head_dim;
    return (struct attention_args){.rows = 1,
                                   .time = c->time,
                                   .heads = c->heads,
                                   .kv_heads = c->kv_heads,
                                   .head_dim = c->head_dim,
                                   .q_stride = stride,
                                   .kv_stride = stride,
                                   .out_stride = c->heads * c->head_dim,
                                   .window = c->window,
                                   .scale = 1.0f / sqrtf((float)c->head_dim),
                                   .dtype = dtype};
}

static const int32_t *new_positions(const struct attention_case *c) {
    int32_t *positions = new_array(c->time, sizeof *positions);
    void *on_device = new_buffer(4 * (uint64_t)c->time);
    for (int64_t t = 0; t < c->time; t++) {
        positions[t] = (int32_t)(c->document > 0 ? t % c->document : t);
    }
    copy(on_device, positions, 4 * (uint64_t)c->time);
    free(positions);
    return on_device;
}

struct attention_buffers new_attention_buffers(const struct attention_case *c,
                                               const struct attention_args *args, void *qkv,
                                               void *dout) {
    uint64_t size = (uint64_t)dtype_bytes(args->dtype);
    return (struct attention_buffers){
        .qkv = qkv,
        .dout = dout,
        .out = new_buffer((uint64_t)(args->time * args->out_stride) * size),
        .lse = new_buffer(4 * (uint64_t)(args->time * args->heads)),
        .dqkv = new_buffer((uint64_t)(args->time * args->q_stride) * size),
        .positions = new_positions(c),
        .workspace = new_buffer(cuda_attention_backward_workspace_bytes(args, NULL))};
}

/* The tensor of a row's heads from `head` on: of queries, then keys, then values. */
static void *heads_from(void *qkv, const struct attention_args *args, int64_t head) {
    return (char *)qkv + head * args->head_dim * dtype_bytes(args->dtype);
}

void attention_run_forward(const struct attention_args *args,
                           const struct attention_buffers *with) {
    int64_t k = args->heads;
    int64_t v = k + args->kv_heads;
    cuda_attention_forward(compute, args, with->qkv, heads_from(with->qkv, args, k),
                           heads_from(with->qkv, args, v), with->positions, with->out, with->lse);
}

void attention_run_backward(const struct attention_args *args,
                            const struct attention_buffers *with) {
    int64_t k = args->heads;
    int64_t v = k + args->kv_heads;
    cuda_attention_backward(compute, args, with->qkv, heads_from(with->qkv, args, k),
                            heads_from(with->qkv, args, v), with->out, with->lse, with->dout,
                            with->positions, with->dqkv, heads_from(with->dqkv, args, k),
                            heads_from(with->dqkv, args, v), with->workspace);
}
