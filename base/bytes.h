/* bytes: alignment, rounding, minimum and maximum of integers, and the division of one block of
 * memory into aligned parts. */
#ifndef SKEP_BASE_BYTES_H
#define SKEP_BASE_BYTES_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

enum { CARVE_ALIGN = 64 }; /* size of a cache line in bytes, the alignment that vector loads need */

static inline int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* div_ceil: value / divisor, rounded up. limits: value >= 0, divisor > 0 */
static inline int64_t div_ceil(int64_t value, int64_t divisor) {
    return (value + divisor - 1) / divisor;
}

/* round_up: the first multiple of `multiple` at or above `value`. limits: value >= 0, multiple >
 * 0 */
static inline int64_t round_up(int64_t value, int64_t multiple) {
    return div_ceil(value, multiple) * multiple;
}

/* align_up: the first multiple of `align`, a power of two, at or above `value`. */
static inline uint64_t align_up(uint64_t value, uint64_t align) {
    return (value + align - 1) & ~(align - 1);
}

/* carve_padded_bytes: the size of a part of `bytes` bytes, rounded up to CARVE_ALIGN. */
static inline size_t carve_padded_bytes(size_t bytes) {
    return align_up(bytes, CARVE_ALIGN);
}

/* carve: divides a block of memory into parts: returns the address *memory, where the next `bytes`
 * bytes are the caller's, and advances *memory past them to an aligned address.
 * limits  the size of the whole block is a sum of carve_padded_bytes() */
static inline void *carve(char **memory, size_t bytes) {
    void *part = *memory;
    ASSERT((uintptr_t)part % CARVE_ALIGN == 0);
    *memory += carve_padded_bytes(bytes);
    return part;
}

#endif
