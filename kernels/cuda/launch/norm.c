#include "kernels/cuda/launch/norm.h"

#include "kernels/cuda/device/norm_params.h"
#include "kernels/cuda/launch/table.h"
#include "kernels/cuda/launch/workspace.h"

/* Maximum dynamic shared memory of a block in the backward pass: three blocks fit in a
 * multiprocessor with 228 KiB, and one block fits in the smallest, with 100 KiB. Blocks for short
 * rows stay within 48 KiB, which need no special request. */
enum { SHARED_BYTES_MAX = 72 * 1024, SHORT_ROW_SHARED_BYTES_MAX = 48 * 1024 };

#define BACKWARD_ENTRY(kernel, slot)                                                               \
    { #kernel, &(slot), SHARED_BYTES_MAX }
#define BACKWARD_PAIR(kernel, slots)                                                               \
    BACKWARD_ENTRY(kernel##_f32, (slots)[DTYPE_F32]),                                              \
        BACKWARD_ENTRY(kernel##_bf16, (slots)[DTYPE_BF16])

CUDA_FAMILY(norm, CUDA_ENTRY_PAIR(norm_forward, kernels->forward.any_length),
            CUDA_ENTRY_PAIR(norm_forward_short, kernels->forward.short_rows),
            CUDA_ENTRY_PAIR(norm_forward_wide, kernels->forward_wide.any_length),
            CUDA_ENTRY_PAIR(norm_forward_wide_short, kernels->forward_wide.short_rows),
            BACKWARD_PAIR(norm_backward, kernels->backward.any_length),
            CUDA_ENTRY_PAIR(norm_backward_short, kernels->backward.short_rows),
            BACKWARD_PAIR(norm_backward_wide, kernels->backward_wide.any_length),
            CUDA_ENTRY_PAIR(norm_backward_wide_short, kernels->backward_wide.short_rows),
            CUDA_ENTRY(norm_add, kernels->add))

static void check_args(const struct norm_args *args) {
    ASSERT(args->rows >= 0 && args->dim > 0 && args->dim <= INT32_MAX / 2);
    ASSERT(cuda_is_float(args->dtype));
}

static bool are_rows_aligned(const struct norm_args *args) {
    return args->dim % cuda_elements_per_access(args->dtype) == 0;
}

/* The number of teams in a block: a team is one warp for short rows, else the whole block. */
static int64_t teams_per_block(const struct norm_args *args) {
    return args->dim <= CUDA_NORM_SHORT_ROW_MAX ? CUDA_NORM_WARPS : 1;
}

static CUfunction select_kernel(const struct cuda_norm_pair *pair, const struct norm_args *args) {
    return args->dim <= CUDA_NORM_SHORT_ROW_MAX ? pair->short_rows[args->dtype]
                                                : pair->any_length[args->dtype];
}

/* ---- forward ---- */

static void run_forward(const struct cuda_compute *compute, const struct norm_args *args,
                        const struct cuda_norm_forward_params *tensors) {
    check_args(args);
    struct cuda_norm_forward_params params = *tensors;
    params.rows = args->rows;
    params.dim = args->dim;
    params.epsilon = args->epsilon;
    bool wide = are_rows_aligned(args) && cuda_is_aligned(params.x) &&
                cuda_is_aligned(params.weight) && cuda_is_aligned(params.bias) &&
                cuda_is_aligned(params.out);
    const struct cuda_norm_kernels *kernels = &compute->table->norm;
    struct cuda_shape shape = {
        .grid = {(unsigned)items_count(args->rows, teams_per_block(args)), 1, 1},
        .threads = CUDA_NORM_THREADS,
    };
    cuda_launch(compute, select_kernel(wide ? &kernels->forward_wide : &kernels->forward, args),
                &shape, &params);
}

void cuda_rmsnorm_forward(const struct cuda_compute *compute, const struct norm_args *args,
                          const void *x, const void *weight, void *out, float *rms_inv) {
    run_forward(compute, args,
                &(struct cuda_norm_forward_params){
                    .x = x, .weight = weight, .out = out, .inverse = rms_inv});
}

void cuda_layernorm_forward(const struct cuda_compute *compute, const struct norm_args *args,
                            const void *x, const void *weight, const void *bias, void *out,
                            float *mean, float *std_inv) {
    run_forward(
        compute, args,
        &(struct cuda_norm_forward_params){
            .x = x, .weight = weight, .bias = bias, .out = out, .mean = mean, .inverse = std_inv});
}

/* ---- backward ---- */

static bool is_backward_wide(const struct norm_args *args,
                             const struct cuda_norm_backward_params *params) {
    return are_rows_aligned(args) && cuda_is_aligned(params->dout) && cuda_is_aligned(params->x) &&
           cuda_is_aligned(params->weight) && cuda_is_aligned(params->dadd) &&
           cuda_is_aligned(params->dx);
}

/* Set params->shared_columns for teams that compute `sums` sums each, and return the bytes of
 * shared memory that a block needs for them. Both are 0 if the sums do not fit. */
static unsigned reserve_shared_sums(const struct norm_args *args, bool wide, int64_t sums,
                                    struct cuda_norm_backward_params *params) {
    int64_t teams = teams_per_block(args);
    int64_t step = CUDA_NORM_THREADS / teams * (wide ? cuda_elements_per_access(args->dtype) : 1);
    int64_t columns = items_count(args->dim, step) * step;
    int64_t bytes = teams * sums * columns * (int64_t)sizeof(float);
    ASSERT(teams == 1 || bytes <= SHORT_ROW_SHARED_BYTES_MAX);
    bool fits = bytes <= SHARED_BYTES_MAX;
    params->shared_columns = fits ? (int)columns : 0;
    return fits ? (unsigned)bytes : 0;
}

/* Compute dx, and add the gradients of weight and bias to dweight[dim] and dbias[dim], unless
 * NULL. */
static void run_backward(const struct cuda_compute *compute, const struct norm_args *args,
                         const struct cuda_norm_backward_params *tensors, float *dweight,
                         float *dbias, float *partials) {
    check_args(args);
    ASSERT(tensors->dx != NULL || dweight != NULL || dbias != NULL);
    const struct cuda_norm_kernels *kernels = &compute->table->norm;
    int64_t teams = teams_per_block(args);
    int64_t chunks = items_count(args->rows, teams * CUDA_NORM_ROWS_PER_TEAM);
    struct cuda_norm_backward_params params = *tensors;
    params.rows = args->rows;
    params.dim = args->dim;
    params.dweight = dweight != NULL ? partials : NULL;
    params.dbias = dbias != NULL ? partials + chunks * args->dim : NULL;
    bool wide = is_backward_wide(args, &params);
    struct cuda_shape shape = {
        .grid = {(unsigned)chunks, 1, 1},
        .threads = CUDA_NORM_THREADS,
        .shared_bytes =
            reserve_shared_sums(args, wide, (dweight != NULL) + (dbias != NULL), &params),
    };
    cuda_launch(compute, select_kernel(wide ? &kernels->backward_wide : &kernels->backward, args),
                &shape, &params);
    if (dweight != NULL) {
        cuda_partials_add(
            compute, kernels->add,
            &(struct cuda_partials_params){params.dweight, dweight, chunks, args->dim});
    }
    if (dbias != NULL) {
        cuda_partials_add(compute, kernels->add,
                          &(struct cuda_partials_params){params.dbias, dbias, chunks, args->dim});
    }
}

void cuda_rmsnorm_backward(const struct cuda_compute *compute, const struct norm_args *args,
                           const void *dout, const void *x, const void *weight,
                           const float *rms_inv, const void *dadd, void *dx, float *dweight,
                           void *workspace) {
    struct cuda_norm_backward_params tensors = {
        .dout = dout, .x = x, .weight = weight, .inverse = rms_inv, .dadd = dadd, .dx = dx};
    run_backward(compute, args, &tensors, dweight, NULL, workspace);
}

void cuda_layernorm_backward(const struct cuda_compute *compute, const struct norm_args *args,
                             const void *dout, const void *x, const void *weight, const float *mean,
                             const float *std_inv, const void *dadd, void *dx, float *dweight,
                             float *dbias, void *workspace) {
    struct cuda_norm_backward_params tensors = {.dout = dout,
                                                .x = x,
                                                .weight = weight,
                                                .mean = mean,
                                                .inverse = std_inv,
                                                .dadd = dadd,
                                                .dx = dx};
    run_backward(compute, args, &tensors, dweight, dbias, workspace);
}
