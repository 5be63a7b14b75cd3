/* codec_check: validates received bytes before they are decoded. */
#include "base/check.h"
#include "kernels/codec.h"
#include "kernels/items.h"
#include "kernels/loops/codec.h"

#include <stdio.h>

static const char REMEDY[] = "drop the message; its sender is faulty or malicious";
enum { SUBJECT_BYTES = 64 };

static enum status refused(enum codec codec, const char *unit, int64_t index, const char *reason,
                           struct fault *fault) {
    char subject[SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "%s %s %lld", codec_name(codec), unit, (long long)index);
    return fault_set(fault, STATUS_INPUT, subject, REMEDY, "%s", reason);
}

/* ---- fp32 and bf16 ---- */

static bool is_finite(const uint8_t *bytes, enum codec codec, int64_t index) {
    if (codec == CODEC_FP32) {
        uint32_t bits;
        memcpy(&bits, bytes + 4 * index, sizeof bits);
        return (bits & CODEC_SIZE_MASK) < CODEC_INFINITY_BITS;
    }
    uint16_t bits;
    memcpy(&bits, bytes + 2 * index, sizeof bits);
    return ((uint32_t)bits << 16 & CODEC_SIZE_MASK) < CODEC_INFINITY_BITS;
}

static enum status elements_check(enum codec codec, int64_t count, const uint8_t *bytes,
                                  struct fault *fault) {
    for (int64_t i = 0; i < count; i++) {
        if (!is_finite(bytes, codec, i)) {
            return refused(codec, "element", i, "not finite", fault);
        }
    }
    return OK;
}

/* ---- int8 and int4 ---- */

/* Compared as bits, which covers NaN and -0 without special cases. */
static bool is_scale(enum codec codec, const uint8_t *bytes) {
    float scale = codec_scale_get(codec, bytes);
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    return bits == 0 || (bits < CODEC_INFINITY_BITS && scale >= FLT_MIN &&
                         scale * codec_largest_code(codec) <= FLT_MAX);
}

/* Counts instead of stopping at the first one: the compiler vectorizes a loop without an exit. */
static bool has_least_code(enum codec codec, const uint8_t *codes, int64_t bytes) {
    int found = 0;
    if (codec == CODEC_INT8) {
        for (int64_t i = 0; i < bytes; i++) {
            found |= codes[i] == 0x80;
        }
        return found != 0;
    }
    for (int64_t i = 0; i < bytes; i++) {
        found |= (codes[i] & 0xf0) == 0x80;
        found |= (codes[i] & 0x0f) == 0x08;
    }
    return found != 0;
}

static enum status block_check(enum codec codec, int64_t index, int64_t count, const uint8_t *bytes,
                               struct fault *fault) {
    const uint8_t *codes = bytes + codec_scale_bytes(codec);
    int64_t code_bytes = codec == CODEC_INT8 ? count : (count + 1) / 2;
    if (!is_scale(codec, bytes)) {
        return refused(codec, "block", index,
                       "the scale is invalid: it must be 0, or a normal number of at most FLT_MAX "
                       "/ the largest code",
                       fault);
    }
    if (has_least_code(codec, codes, code_bytes)) {
        return refused(codec, "block", index, "a code is outside its symmetric range", fault);
    }
    if (codec == CODEC_INT4 && count % 2 == 1 && codes[code_bytes - 1] >> 4 != 0) {
        return refused(codec, "block", index, "the unused bits at its end are not 0", fault);
    }
    return OK;
}

static enum status blocks_check(enum codec codec, int64_t count, const uint8_t *bytes,
                                struct fault *fault) {
    int64_t length = codec_block(codec);
    uint64_t stride = codec_bytes(codec, length);
    int64_t blocks = items_count(count, length);
    for (int64_t i = 0; i < blocks; i++) {
        TRY(block_check(codec, i, items_length(count, length, i), bytes + (uint64_t)i * stride,
                        fault));
    }
    return OK;
}

enum status codec_check(enum codec codec, int64_t count, const uint8_t *bytes, uint64_t size,
                        struct fault *fault) {
    uint64_t want = codec_bytes(codec, count);
    if (size != want) {
        return fault_set(fault, STATUS_INPUT, codec_name(codec), REMEDY,
                         "%llu bytes for %lld elements, expected %llu", (unsigned long long)size,
                         (long long)count, (unsigned long long)want);
    }
    if (codec == CODEC_FP32 || codec == CODEC_BF16) {
        return elements_check(codec, count, bytes, fault);
    }
    return blocks_check(codec, count, bytes, fault);
}
