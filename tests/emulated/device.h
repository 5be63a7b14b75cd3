/* device: the kernels of kernels/cuda, on the emulated driver. */
#ifndef SKEP_TESTS_EMULATED_DEVICE_H
#define SKEP_TESTS_EMULATED_DEVICE_H

#include "tests/emulated/driver.h"

/* emulated_device_find: what emulated_options.find is in a program that is linked with the kernels
 * (tests/emulated/launch.h). */
bool emulated_device_find(const char *name, struct emulated_code *code);

/* The cuBLASLt that programs find on the emulated device; NULL: none. */
struct cublas_lt;
extern const struct cublas_lt *emulated_cublas_lt;

#endif
