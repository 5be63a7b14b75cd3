#include "kernels/loops/sketch.h"

#include "kernels/loops/sketch_lanes.h"

void sketch_kernels_init(struct sketch_kernels *kernels, enum cpu_level level) {
    sketch_lanes_init(kernels);
    OVERLAY_X86(sketch, kernels, level);
    OVERLAY_NEON(sketch, kernels, level);
}
