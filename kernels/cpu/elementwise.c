#include "kernels/cpu/elementwise.h"

void elementwise_kernels_init(struct elementwise_kernels *kernels, enum cpu_level level) {
    (void)kernels;
    (void)level;
}
