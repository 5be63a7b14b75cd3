#include "kernels/cpu/norm.h"

void norm_kernels_init(struct norm_kernels *kernels, enum cpu_level level) {
    (void)kernels;
    (void)level;
}
