/* fuzz_sparse: what is received as a sparse encoding, on arbitrary bytes. */
#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/sparse.h"

#include <math.h>
#include <string.h>

enum { HEADER_BYTES = 3, BLOCKS_MAX = 3, COUNT_MAX = BLOCKS_MAX * SPARSE_BLOCK, BLOCK_BYTES = 320 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Plain C alone: the overlays need switches of their own, and the kernels' tests hold them to the
 * same bits. */
void sparse_kernels_init_avx2(struct sparse_kernels *kernels) {
    (void)kernels;
}

void sparse_kernels_init_avx512(struct sparse_kernels *kernels) {
    (void)kernels;
}

static const struct compute *plain_compute(void) {
    static struct kernel_table table = {.level = CPU_SCALAR};
    static struct pool pool = {.thread_count = 1};
    static struct compute compute = {.table = &table, .pool = &pool};
    return &compute;
}

/* Accepted bytes decode to finite values, and no other bytes to the same ones: with 1 bit a value,
 * encoding them again gives the same bytes. */
static void check_accepted(struct sparse_shape shape, int64_t count, const uint8_t *bytes) {
    static float values[COUNT_MAX];
    static uint8_t again[BLOCKS_MAX * BLOCK_BYTES];
    sparse_decode(plain_compute(), shape, count, bytes, values);
    for (int64_t i = 0; i < count; i++) {
        ASSERT(isfinite(values[i]));
    }
    ASSERT(isfinite(sparse_energy(shape, count, bytes)));
    if (shape.value_bits == 1) {
        ASSERT(sparse_encode(plain_compute(), shape, count, values, again));
        ASSERT(memcmp(again, bytes, sparse_bytes(shape, count)) == 0);
    }
}

/* The first byte chooses the shape and whether a long input is cut; two more are the count. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (count < HEADER_BYTES) {
        return 0;
    }
    static float values[COUNT_MAX];
    const struct sparse_shape shape = {.keep = 32 << (bytes[0] & 3),
                                       .value_bits = 1 << (bytes[0] >> 2 & 3) % 3};
    const int64_t elements = (bytes[1] | bytes[2] << 8) % (COUNT_MAX + 1);
    const uint64_t expected = sparse_bytes(shape, elements);
    uint64_t size = count - HEADER_BYTES;
    if (bytes[0] >= 128 && size > expected) {
        size = expected;
    }
    struct fault fault = {.status = OK};
    enum status status = sparse_check(shape, elements, bytes + HEADER_BYTES, size, &fault);
    if (status == OK) {
        check_accepted(shape, elements, bytes + HEADER_BYTES);
        return 0;
    }
    ASSERT(status == STATUS_INPUT && fault.status == STATUS_INPUT);
    ASSERT(fault.subject[0] != '\0' && fault.reason[0] != '\0');
    if (size == expected) {
        sparse_decode(plain_compute(), shape, elements, bytes + HEADER_BYTES, values);
    }
    return 0;
}
