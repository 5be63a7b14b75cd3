#include "kernels/head_loss_chunk.h"

#include "base/bytes.h"
#include "kernels/items.h"

/* chunks and rows are multiples of these lengths */
enum { CHUNK_TOKENS_STEP = 16, ROW_ALIGN_ELEMENTS = 16 };

int64_t head_loss_chunk_within(int64_t tokens, int64_t vocab, int64_t bytes) {
    int64_t row_bytes = round_up(vocab, ROW_ALIGN_ELEMENTS) * (int64_t)sizeof(float);
    int64_t chunk_max = bytes / row_bytes / CHUNK_TOKENS_STEP * CHUNK_TOKENS_STEP;
    chunk_max = chunk_max < CHUNK_TOKENS_STEP ? CHUNK_TOKENS_STEP : chunk_max;
    if (tokens <= chunk_max) {
        return tokens;
    }
    /* Choose chunks of equal size if they are at most a quarter smaller than the maximum. */
    for (int64_t chunk = chunk_max; chunk > chunk_max - chunk_max / 4; chunk -= CHUNK_TOKENS_STEP) {
        if (tokens % chunk == 0) {
            return chunk;
        }
    }
    int64_t even = items_count(tokens, items_count(tokens, chunk_max));
    return round_up(even, CHUNK_TOKENS_STEP);
}

int64_t head_loss_stride(const struct head_loss_args *args) {
    return round_up(args->vocab, ROW_ALIGN_ELEMENTS);
}

uint64_t head_loss_logits_bytes(const struct head_loss_args *args) {
    return (uint64_t)(args->chunk * head_loss_stride(args)) * sizeof(float);
}

static int64_t dlogits_stride(const struct head_loss_args *args) {
    return args->dtype == DTYPE_BF16 ? 2 * head_loss_stride(args) : head_loss_stride(args);
}

struct matmul_args head_loss_logits_product(const struct head_loss_args *args, int64_t tokens) {
    return (struct matmul_args){.m = tokens,
                                .n = args->vocab,
                                .k = args->dim,
                                .lda = args->dim,
                                .ldb = args->dim,
                                .ldc = head_loss_stride(args),
                                .dtype_in = args->dtype,
                                .dtype_out = DTYPE_F32,
                                .transpose_b = true};
}

struct matmul_args head_loss_dhidden_product(const struct head_loss_args *args, int64_t tokens) {
    return (struct matmul_args){.m = tokens,
                                .n = args->dim,
                                .k = args->vocab,
                                .lda = dlogits_stride(args),
                                .ldb = args->dim,
                                .ldc = args->dim,
                                .dtype_in = args->dtype,
                                .dtype_out = args->dtype};
}

struct matmul_args head_loss_dweight_product(const struct head_loss_args *args, int64_t tokens,
                                             bool accumulate) {
    return (struct matmul_args){.m = args->vocab,
                                .n = args->dim,
                                .k = tokens,
                                .lda = dlogits_stride(args),
                                .ldb = args->dim,
                                .ldc = args->dim,
                                .dtype_in = args->dtype,
                                .dtype_out = DTYPE_F32,
                                .transpose_a = true,
                                .accumulate = accumulate};
}
