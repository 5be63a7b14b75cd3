
#include "kernels/cuda/launch/optimizer.h"

#include "kernels/cuda/device/optimizer_params.h"
#include "kernels/cuda/launch/table.h"
#include "kernels/cuda/launch/workspace.h"

/* Number of AdamW blocks for each multiprocessor. Each block computes the factors that all elements
 * share, so the grid has only as many blocks as every device can run at once. */
enum { ADAMW_BLOCKS_PER_MULTIPROCESSOR = 4, ONE_WARP = 32 };

CUDA_FAMILY(optimizer, {"norm_sums", &kernels->norm_sums, 0},
            {"norm_merge", &kernels->norm_merge, 0}, {"clip_scalars", &kernels->clip, 0},
            {"tally_write", &kernels->tally_out, 0}, {"tally_take", &kernels->tally_in, 0},
            {"adamw", &kernels->adamw, 0})

void cuda_gradient_norm_run(const struct cuda_compute *compute, int64_t count,
                            const float *gradients, struct step_scalars *scalars, void *workspace) {
    ASSERT(count >= 0 && count % GRANULE_ELEMENTS == 0);
    int64_t granules = count / GRANULE_ELEMENTS;
    int64_t blocks = cuda_gradient_norm_blocks(count);
    struct norm_sums_params sums = {
        .gradients = gradients, .granules = granules, .partials = workspace};
    struct norm_merge_params merge = {.partials = workspace, .count = blocks, .scalars = scalars};
    struct cuda_shape wide = {.grid = {(unsigned)blocks, 1, 1}, .threads = NORM_THREADS};
    struct cuda_shape narrow = {.grid = {1, 1, 1}, .threads = NORM_MERGE_THREADS};
    cuda_launch(compute, compute->table->optimizer.norm_sums, &wide, &sums);
    cuda_launch(compute, compute->table->optimizer.norm_merge, &narrow, &merge);
}

static void launch_single_block(const struct cuda_compute *compute, CUfunction kernel,
                                const void *params) {
    struct cuda_shape shape = {.grid = {1, 1, 1}, .threads = ONE_WARP};
    cuda_launch(compute, kernel, &shape, params);
}

void cuda_clip_run(const struct cuda_compute *compute, float clip_norm,
                   struct step_scalars *scalars) {
    struct clip_params params = {.scalars = scalars, .clip_norm = clip_norm};
    launch_single_block(compute, compute->table->optimizer.clip, &params);
}

void cuda_tally_out(const struct cuda_compute *compute, const struct step_scalars *scalars,
                    struct rank_tally *own) {
    struct tally_out_params params = {.scalars = scalars, .own = own};
    launch_single_block(compute, compute->table->optimizer.tally_out, &params);
}

void cuda_tally_in(const struct cuda_compute *compute, const struct tally_args *args,
                   const struct rank_tally *tallies, struct step_scalars *scalars) {
    ASSERT(args->shard_size >= 1 && args->shard_size <= args->ranks);
    struct tally_in_params params = {
        .tallies = tallies,
        .scalars = scalars,
        .ranks = args->ranks,
        .shard = args->shard_size,
        .tokens = (args->parts & TALLY_TOKENS) != 0,
        .loss = (args->parts & TALLY_LOSS) != 0,
        .norm = (args->parts & TALLY_NORM) != 0,
    };
    launch_single_block(compute, compute->table->optimizer.tally_in, &params);
}

void cuda_adamw_run(const struct cuda_compute *compute, const struct adamw_args *args,
                    const struct step_scalars *scalars, const float *gradients, float *master,
                    void *m, void *v, void *params) {
    ASSERT(args->decayed >= 0 && args->decayed <= args->count);
    ASSERT(args->dtype_moments == DTYPE_F32 || args->dtype_moments == DTYPE_BF16);
    ASSERT(params == NULL || args->dtype_params == DTYPE_F32 || args->dtype_params == DTYPE_BF16);
    struct adamw_params launch = {
        .scalars = scalars,
        .gradients = gradients,
        .master = master,
        .m = m,
        .v = v,
        .params = params,
        .count = args->count,
        .decayed = args->decayed,
        .epsilon = args->epsilon,
        .position = args->position,
        .stream = args->stream,
        .stochastic = args->rounding == ROUNDING_STOCHASTIC && args->dtype_moments == DTYPE_BF16,
        .moments_bf16 = args->dtype_moments == DTYPE_BF16,
        .params_bf16 = args->dtype_params == DTYPE_BF16,
        .aligned = cuda_is_aligned(gradients) && cuda_is_aligned(master) && cuda_is_aligned(m) &&
                   cuda_is_aligned(v) && cuda_is_aligned(params),
    };
    int64_t rounds = items_count(args->count, ADAMW_THREADS * ADAMW_ELEMENTS_PER_THREAD);
    int64_t most = (int64_t)compute->multiprocessors * ADAMW_BLOCKS_PER_MULTIPROCESSOR;
    struct cuda_shape shape = {.grid = {(unsigned)(rounds < most ? rounds : most), 1, 1},
                               .threads = ADAMW_THREADS};
    cuda_launch(compute, compute->table->optimizer.adamw, &shape, &launch);
}
