/* Sketches for NEON. */
#include "kernels/loops/sketch_lanes.h"

void sketch_kernels_init_neon(struct sketch_kernels *kernels) {
    sketch_lanes_init(kernels);
}
