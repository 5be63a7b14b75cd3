#include "kernels/loops/random_normals.h"

#include "base/random.h"

void random_normals_portable(uint64_t key, uint64_t first, int64_t count, float deviation,
                             float *values) {
    for (int64_t i = 0; i < count; i++) {
        values[i] = deviation * random_normal(key, first + (uint64_t)i);
    }
}

void random_normals_kernels_init(struct random_normals_kernels *kernels, enum cpu_level level) {
    *kernels = (struct random_normals_kernels){.draw = random_normals_portable};
    OVERLAY_X86(random_normals, kernels, level);
}
