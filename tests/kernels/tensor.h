/* tensor: buffers of a test, with the exact value of each element. */
#ifndef SKEP_TESTS_KERNELS_TENSOR_H
#define SKEP_TESTS_KERNELS_TENSOR_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* What the values of an input are like. All but the first look for arithmetic that only holds near
 * one. */
enum pattern {
    PATTERN_NORMAL,   /* standard normal */
    PATTERN_ZERO,     /* zeros of both signs */
    PATTERN_DENORMAL, /* below the smallest normal number */
    PATTERN_LARGE,    /* up to 2^20 */
    PATTERN_MIXED,    /* normal, times a power of two from 2^-30 to 2^10 */
    PATTERN_COUNT
};
const char *pattern_name(enum pattern pattern);

/* A buffer that kernels see, and the exact value of each element as it was filled. Starts on 64
 * bytes; bytes before and after are guarded. */
struct tensor {
    enum dtype dtype;
    int64_t count;
    void *data;
    double *exact;
};

struct tensor tensor_random(enum dtype dtype, int64_t count, enum pattern pattern, uint64_t seed);
struct tensor tensor_integers(int64_t count, int32_t below, uint64_t seed); /* i32, [0, below) */
struct tensor tensor_zeros(enum dtype dtype, int64_t count);
/* tensor_unset: for outputs that are overwritten and for workspaces; filled with NaN. */
struct tensor tensor_unset(enum dtype dtype, int64_t count);
struct tensor workspace_of(uint64_t bytes);
double tensor_value(const struct tensor *tensor, int64_t index); /* as it stands now */
bool tensor_guards_stand(const struct tensor *tensor);
void tensor_free(struct tensor *tensor); /* fails the test when a guard was overwritten */

#endif
