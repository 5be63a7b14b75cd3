/* The norms for AVX2. */
#include "kernels/loops/x86/lanes_avx2.h"

#include "kernels/loops/norm_lanes.h"

void norm_kernels_init_avx2(struct norm_kernels *kernels) {
    *kernels = norm_lanes;
}
