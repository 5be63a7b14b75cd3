/* The norms for AVX-512. */
#include "kernels/loops/x86/lanes_avx512.h"

#include "kernels/loops/norm_lanes.h"

void norm_kernels_init_avx512(struct norm_kernels *kernels) {
    *kernels = norm_lanes;
}
