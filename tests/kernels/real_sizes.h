/* real sizes: device buffers, values and calls at the sizes of real models, which the checks of
 * test_real_sizes.c and the timings of real_sizes_times.c share. A failed call of the driver fails
 * the test. */
#ifndef SKEP_TESTS_KERNELS_REAL_SIZES_H
#define SKEP_TESTS_KERNELS_REAL_SIZES_H

#include "base/region.h"
#include "kernels/attention.h"
#include "kernels/cuda/launch/products.h"
#include "kernels/matmul.h"

/* real_sizes_open: use the device that device_open() opened for everything below. */
void real_sizes_open(void);
const struct cuda_compute *real_sizes_compute(void);
struct target real_sizes_target(void);

/* ---- memory ---- */

/* must: fail the test unless the result is CUDA_SUCCESS. */
void must(CUresult result, const char *action);
void wait_for_device(const char *action);

/* new_buffer: device memory full of NaN. release_buffers waits for the device and frees all. */
void *new_buffer(uint64_t bytes);
void release_buffers(void);
void copy(void *to, const void *from, uint64_t bytes);
void *new_array(int64_t count, size_t size); /* on the CPU; the caller frees it */

/* ---- values ---- */

/* Random values in bf16 and the same values in f32, both on the device. */
struct values {
    void *bf16, *f32;
    uint16_t *host; /* a copy that the caller frees; NULL unless kept */
};

/* new_values: sums of four uniform values, with a mean of 0 and the given standard deviation. */
struct values new_values(int64_t count, float deviation, uint64_t seed, bool keep);

/* mix: a hash of `state` (SplitMix64), fast enough for hundreds of millions of values. */
uint64_t mix(uint64_t state);

/* fetch_f32, fetch_bf16: a copy of device memory on the CPU, in f32; the caller frees it. */
float *fetch_f32(const void *at, int64_t count);
float *fetch_bf16(const void *at, int64_t count);

/* ---- calls ---- */

enum { PRODUCT_FORMS = 4 }; /* each of the operands transposed or not */

/* product_args: 8192 x 4096 x 14336 in bf16 with an f32 result; small on an emulated device. */
struct matmul_args product_args(int form);

/* open_products: cuBLASLt; NULL, with a note on standard output, when it is not on this machine or
 * the device is emulated. */
struct cuda_products *open_products(const struct target *target, struct region *region);

struct attention_case {
    int64_t time, heads, kv_heads, head_dim; /* of one row */
    int64_t window;
    int64_t document; /* tokens of each document; 0: the row is one document */
};

/* The tensors of one call; q, k and v are interleaved in `qkv`, their gradients in `dqkv`. */
struct attention_buffers {
    void *qkv, *out, *lse, *dout, *dqkv;
    const int32_t *positions;
    void *workspace;
};

struct attention_args attention_args_of(const struct attention_case *c, enum dtype dtype);
struct attention_buffers new_attention_buffers(const struct attention_case *c,
                                               const struct attention_args *args, void *qkv,
                                               void *dout);
void attention_run_forward(const struct attention_args *args, const struct attention_buffers *with);
void attention_run_backward(const struct attention_args *args,
                            const struct attention_buffers *with);

/* real_sizes_bench: print the times of attention and of products for Llama 1B and 8B. */
void real_sizes_bench(void);

#endif
