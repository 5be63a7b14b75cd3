/* fuzz_sparse: what is received as a sparse encoding, and what is encoded, on arbitrary bytes. The
 * encoder runs at every CPU level of this machine; there is only one check and one decoder. */
#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/sparse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 4,
    BLOCKS_MAX = 3,
    COUNT_MAX = BLOCKS_MAX * SPARSE_BLOCK,
    BLOCK_BYTES = 320,
    IS_NOISE = 32,  /* bits of the first byte: with IS_VALUES, noise to encode */
    IS_VALUES = 64, /* the rest is values to encode */
    IS_CUT = 128,   /* a long input is cut to the size of the encoding */
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const struct compute *compute_at(enum cpu_level level) {
    static struct kernel_table table;
    static struct pool pool = {.thread_count = 1};
    static struct compute compute = {.table = &table, .pool = &pool};
    table.level = level;
    return &compute;
}

/* Encodes at every level: all return the same, and the same bytes. */
static bool encode_everywhere(struct sparse_shape shape, int64_t count, const float *values,
                              uint8_t *bytes) {
    static uint8_t other[BLOCKS_MAX * BLOCK_BYTES];
    const uint64_t size = sparse_bytes(shape, count);
    const bool has_encoding = sparse_encode(compute_at(CPU_SCALAR), shape, count, values, bytes);
    for (int level = CPU_SCALAR + 1; level < CPU_LEVEL_COUNT; level++) {
        if (cpu_supports_level((enum cpu_level)level)) {
            ASSERT(sparse_encode(compute_at((enum cpu_level)level), shape, count, values, other) ==
                   has_encoding);
            ASSERT(!has_encoding || memcmp(other, bytes, size) == 0);
        }
    }
    return has_encoding;
}

/* Accepted bytes decode to finite values, and no other bytes to the same ones: encoding them again
 * gives the same bytes. */
static void check_accepted(struct sparse_shape shape, int64_t count, const uint8_t *bytes) {
    static float values[COUNT_MAX];
    static uint8_t again[BLOCKS_MAX * BLOCK_BYTES];
    double energy = 0;
    sparse_decode(compute_at(CPU_SCALAR), shape, count, bytes, values);
    for (int64_t i = 0; i < count; i++) {
        ASSERT(isfinite(values[i]));
        energy += (double)values[i] * (double)values[i];
    }
    ASSERT(fabs(sparse_energy(shape, count, bytes) - energy) <= 1e-9 * energy);
    ASSERT(encode_everywhere(shape, count, values, again));
    ASSERT(memcmp(again, bytes, sparse_bytes(shape, count)) == 0);
}

/* Received bytes lie in memory of exactly their size, so that the sanitizer sees each read past
 * their end. */
static void check_received(struct sparse_shape shape, int64_t count, const uint8_t *bytes,
                           uint64_t size) {
    uint8_t *received = malloc(size > 0 ? size : 1);
    struct fault fault = {.status = OK};
    memcpy(received, bytes, size);
    const enum status status = sparse_check(shape, count, received, size, &fault);
    if (status == OK) {
        check_accepted(shape, count, received);
    } else {
        ASSERT(status == STATUS_INPUT && fault.status == STATUS_INPUT);
        ASSERT(fault.subject[0] != '\0' && fault.reason[0] != '\0');
    }
    if (status != OK && size == sparse_bytes(shape, count)) {
        float *values = malloc((size_t)count * sizeof *values + 1);
        sparse_decode(compute_at(CPU_SCALAR), shape, count, received, values);
        free(values);
    }
    free(received);
}

/* Fills with the input's fp32 numbers, which are repeated or lie `stride` elements apart. */
static void fill_with_input(float *values, int64_t count, int stride, const uint8_t *bytes,
                            size_t byte_count) {
    const int64_t given = (int64_t)(byte_count / sizeof *values);
    for (int64_t i = 0; i < (stride == 0 ? count : given) && given > 0 && count > 0; i++) {
        const int64_t at = stride == 0 ? i : i * stride % count;
        memcpy(&values[at], bytes + i % given * (int64_t)sizeof *values, sizeof *values);
    }
}

/* Fills with noise in [-1, 1), times a power of two, of which one in `rarity` + 1 is not 0. */
static void fill_with_noise(float *values, int64_t count, int rarity, uint64_t seed) {
    const int exponent = (int)(seed % 250) - 124;
    for (int64_t i = 0; i < count; i++) {
        seed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
        seed ^= seed >> 29;
        values[i] = seed % ((uint64_t)rarity + 1) == 0
                        ? ldexpf((float)(seed >> 40) * 0x1p-23F - 1, exponent)
                        : 0;
    }
}

/* An encoding is accepted. One of it with a changed bit is like received bytes. */
static void check_values(struct sparse_shape shape, int64_t count, const float *values,
                         const uint8_t *bytes, size_t byte_count) {
    uint8_t encoded[BLOCKS_MAX * BLOCK_BYTES];
    const uint64_t size = sparse_bytes(shape, count);
    struct fault fault;
    if (encode_everywhere(shape, count, values, encoded)) {
        ASSERT(sparse_check(shape, count, encoded, size, &fault) == OK);
        check_accepted(shape, count, encoded);
        if (size > 0 && byte_count >= 2) {
            encoded[(bytes[0] | bytes[1] << 8) % size] ^= (uint8_t)(1 << (byte_count & 7));
            check_received(shape, count, encoded, size);
        }
    }
}

/* The first byte chooses the shape and what the rest is; two more are the count, one the distance
 * of values. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (count < HEADER_BYTES) {
        return 0;
    }
    const struct sparse_shape shape = {.keep = 32 << (bytes[0] & 3),
                                       .value_bits = 1 << (bytes[0] >> 2 & 3) % 3};
    const int64_t elements = (bytes[1] | bytes[2] << 8) % (COUNT_MAX + 1);
    const uint64_t expected = sparse_bytes(shape, elements);
    const uint8_t *rest = bytes + HEADER_BYTES;
    uint64_t size = count - HEADER_BYTES;
    if ((bytes[0] & IS_VALUES) != 0) {
        float *values = calloc((size_t)elements + 1, sizeof *values);
        if ((bytes[0] & IS_NOISE) != 0) {
            fill_with_noise(values, elements, bytes[3], size == 0 ? 0 : rest[0]);
        } else {
            fill_with_input(values, elements, bytes[3], rest, size);
        }
        check_values(shape, elements, values, rest, size);
        free(values);
    } else {
        check_received(shape, elements, rest,
                       (bytes[0] & IS_CUT) != 0 && size > expected ? expected : size);
    }
    return 0;
}
