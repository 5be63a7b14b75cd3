/* The elementwise kernels for AVX-512. */
#include "kernels/loops/x86/lanes_avx512.h"

#include "kernels/loops/elementwise_lanes.h"

void elementwise_kernels_init_avx512(struct elementwise_kernels *kernels) {
    elementwise_lanes_init(kernels);
}
