/* The outer step for AVX2. */
#include "kernels/loops/x86/lanes_avx2.h"

#include "kernels/loops/outer_lanes.h"

void outer_kernels_init_avx2(struct outer_kernels *kernels) {
    outer_lanes_init(kernels);
}
