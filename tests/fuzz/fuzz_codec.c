/* fuzz_codec: what is received as an encoded vector, on arbitrary bytes. */
#include "base/check.h"
#include "kernels/codec.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { HEADER_BYTES = 3, COUNT_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Plain C alone: the overlays need switches of their own, and the kernels' tests hold them to the
 * same bits. */
void codec_kernels_init_avx2(struct codec_kernels *kernels) {
    (void)kernels;
}

void codec_kernels_init_avx512(struct codec_kernels *kernels) {
    (void)kernels;
}

static const struct compute *plain_compute(void) {
    static struct kernel_table table;
    static struct pool pool = {.thread_count = 1};
    static struct compute compute = {.table = &table, .pool = &pool};
    codec_kernels_init(&table.codec, CPU_SCALAR);
    return &compute;
}

/* What is accepted stands for finite values; where nothing is quantised, for these alone. */
static void check_accepted(enum codec codec, int64_t count, const uint8_t *bytes) {
    static float values[COUNT_MAX];
    static uint8_t again[4 * COUNT_MAX];
    struct codec_encode_args args = {.codec = codec, .count = count, .source = values};
    codec_decode(plain_compute(), codec, count, bytes, values);
    for (int64_t i = 0; i < count; i++) {
        ASSERT(isfinite(values[i]));
    }
    if (codec == CODEC_FP32 || codec == CODEC_BF16) {
        ASSERT(codec_encode(plain_compute(), &args, again));
        ASSERT(memcmp(again, bytes, codec_bytes(codec, count)) == 0);
    }
}

/* The first byte chooses the codec and whether what is too long is cut; two more are the count. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (count < HEADER_BYTES) {
        return 0;
    }
    enum codec codec = (enum codec)(bytes[0] % CODEC_COUNT);
    int64_t elements = bytes[1] | bytes[2] << 8;
    uint64_t size = count - HEADER_BYTES;
    uint64_t want = codec_bytes(codec, elements);
    if (bytes[0] >= 128 && size > want) {
        size = want;
    }
    struct fault fault = {.status = OK};
    enum status status = codec_check(codec, elements, bytes + HEADER_BYTES, size, &fault);
    if (status == OK) {
        check_accepted(codec, elements, bytes + HEADER_BYTES);
    } else {
        ASSERT(status == STATUS_INPUT && fault.status == STATUS_INPUT);
        ASSERT(fault.subject[0] != '\0' && fault.reason[0] != '\0');
    }
    return 0;
}
