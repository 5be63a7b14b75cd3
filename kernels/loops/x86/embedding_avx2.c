/* The embedding's sums for AVX2. */
#include "kernels/loops/embedding.h"
#include "kernels/loops/x86/lanes_avx2.h"

static void accumulate_row(enum dtype dtype, const void *x, float *sums, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) {
        lanes sum = lanes_load(DTYPE_F32, sums, i, count - i);
        lanes_store(DTYPE_F32, sums, i, count - i, sum + lanes_load(dtype, x, i, count - i));
    }
}

void embedding_kernels_init_avx2(struct embedding_kernels *kernels) {
    kernels->accumulate_row = accumulate_row;
}
