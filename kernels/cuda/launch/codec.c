
#include "kernels/cuda/launch/codec.h"

#include "kernels/cuda/device/codec_params.h"
#include "kernels/cuda/launch/table.h"

enum { WARPS = CODEC_THREADS / 32 };               /* warps of a block */
static const int64_t COUNT_MAX = (int64_t)1 << 38; /* 2^30 blocks of threads */

CUDA_FAMILY(codec, {"codec_encode_fp32", &kernels->encode[CODEC_FP32], 0},
            {"codec_encode_bf16", &kernels->encode[CODEC_BF16], 0},
            {"codec_encode_int8", &kernels->encode[CODEC_INT8], 0},
            {"codec_encode_int4", &kernels->encode[CODEC_INT4], 0},
            {"codec_decode_fp32", &kernels->decode[CODEC_FP32], 0},
            {"codec_decode_bf16", &kernels->decode[CODEC_BF16], 0},
            {"codec_decode_int8", &kernels->decode[CODEC_INT8], 0},
            {"codec_decode_int4", &kernels->decode[CODEC_INT4], 0})

static struct cuda_shape make_shape(int64_t count, int64_t per_block) {
    return (struct cuda_shape){.grid = {(unsigned)items_count(count, per_block), 1, 1},
                               .threads = CODEC_THREADS};
}

/* Each block of int8 or int4 uses one warp; each element of the other codecs uses one thread. */
void cuda_codec_encode(const struct cuda_compute *compute, const struct codec_encode_args *args,
                       uint8_t *bytes, int *nonfinite) {
    ASSERT(args->count >= 0 && args->count <= COUNT_MAX && args->codec < CODEC_COUNT);
    struct codec_encode_params params = {.source = args->source,
                                         .feedback = args->feedback,
                                         .residual = args->residual,
                                         .bytes = bytes,
                                         .nonfinite = nonfinite,
                                         .count = args->count};
    int64_t block = codec_block_elements(args->codec);
    struct cuda_shape shape = make_shape(args->count, block > 1 ? block * WARPS : CODEC_THREADS);
    cuda_launch(compute, compute->table->codec.encode[args->codec], &shape, &params);
}

void cuda_codec_decode(const struct cuda_compute *compute, enum codec codec, int64_t count,
                       const uint8_t *bytes, float *values) {
    ASSERT(count >= 0 && count <= COUNT_MAX && codec < CODEC_COUNT);
    struct codec_decode_params params = {.bytes = bytes, .values = values, .count = count};
    struct cuda_shape shape = make_shape(count, CODEC_THREADS);
    cuda_launch(compute, compute->table->codec.decode[codec], &shape, &params);
}

void cuda_codec_decode_add(const struct cuda_compute *compute, const struct codec_add_args *args,
                           const uint8_t *bytes, float *sums) {
    ASSERT(args->count >= 0 && args->count <= COUNT_MAX && args->codec < CODEC_COUNT);
    struct codec_decode_params params = {
        .bytes = bytes, .values = sums, .count = args->count, .weight = args->weight, .add = 1};
    struct cuda_shape shape = make_shape(args->count, CODEC_THREADS);
    cuda_launch(compute, compute->table->codec.decode[args->codec], &shape, &params);
}
