/* Sketches for AVX-512. */
#include "kernels/loops/sketch_lanes.h"

void sketch_kernels_init_avx512(struct sketch_kernels *kernels) {
    sketch_lanes_init(kernels);
}
