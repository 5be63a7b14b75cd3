/* Sketches for AVX2. */
#include "kernels/loops/sketch_lanes.h"

void sketch_kernels_init_avx2(struct sketch_kernels *kernels) {
    sketch_lanes_init(kernels);
}
