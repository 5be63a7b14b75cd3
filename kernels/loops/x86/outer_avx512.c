/* The outer step for AVX-512. */
#include "kernels/loops/x86/lanes_avx512.h"

#include "kernels/loops/outer_lanes.h"

void outer_kernels_init_avx512(struct outer_kernels *kernels) {
    outer_lanes_init(kernels);
}
