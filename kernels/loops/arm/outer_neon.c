/* The outer step for NEON. */
#include "kernels/loops/arm/lanes_neon.h"

#include "kernels/loops/outer_lanes.h"

void outer_kernels_init_neon(struct outer_kernels *kernels) {
    outer_lanes_init(kernels);
}
