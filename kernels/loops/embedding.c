#include "kernels/loops/embedding.h"

#include "kernels/loops/element.h"

static void accumulate_row(enum dtype dtype, const void *x, float *sums, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        sums[i] += element_load(x, dtype, i);
    }
}

void embedding_kernels_init(struct embedding_kernels *kernels, enum cpu_level level) {
    *kernels = (struct embedding_kernels){.accumulate_row = accumulate_row};
    OVERLAY_X86(embedding, kernels, level);
}
