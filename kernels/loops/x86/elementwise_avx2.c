/* The elementwise kernels for AVX2. */
#include "kernels/loops/x86/lanes_avx2.h"

#include "kernels/loops/elementwise_lanes.h"

void elementwise_kernels_init_avx2(struct elementwise_kernels *kernels) {
    elementwise_lanes_init(kernels);
}
