/* codec_check: validates received bytes before they are decoded. */
#include "kernels/items.h"
#include "kernels/loops/codec.h"

#include <stdio.h>

static const char REMEDY[] = "drop the message; its sender is faulty or malicious";
enum { SUBJECT_BYTES = 64 }; /* size of the subject of a fault */

static enum status set_fault(enum codec codec, const char *unit, int64_t index, const char *reason,
                             struct fault *fault) {
    char subject[SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "%s %s %lld", codec_name(codec), unit, (long long)index);
    return fault_set(fault, STATUS_INPUT, subject, REMEDY, "%s", reason);
}

/* ---- fp32 and bf16 ---- */

static bool is_element_finite(const uint8_t *bytes, enum codec codec, int64_t index) {
    if (codec == CODEC_FP32) {
        uint32_t bits;
        memcpy(&bits, bytes + 4 * index, sizeof bits);
        return (bits & CODEC_MAGNITUDE_MASK) < CODEC_INFINITY_BITS;
    }
    uint16_t bits;
    memcpy(&bits, bytes + 2 * index, sizeof bits);
    return ((uint32_t)bits << 16 & CODEC_MAGNITUDE_MASK) < CODEC_INFINITY_BITS;
}

static enum status check_elements(enum codec codec, int64_t count, const uint8_t *bytes,
                                  struct fault *fault) {
    for (int64_t i = 0; i < count; i++) {
        if (!is_element_finite(bytes, codec, i)) {
            return set_fault(codec, "element", i, "not finite", fault);
        }
    }
    return OK;
}

/* ---- int8 and int4 ---- */

/* The scale is compared as bits, which rejects NaN and -0 without special cases. */
static bool is_valid_scale(enum codec codec, const uint8_t *bytes) {
    float scale = codec_load_scale(codec, bytes);
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    return bits == 0 || (bits < CODEC_INFINITY_BITS && scale >= FLT_MIN &&
                         scale * codec_code_max(codec) <= FLT_MAX);
}

/* The codes that a block uses. */
struct code_range {
    bool has_invalid; /* a code is outside the range of the codec */
    int largest;      /* largest magnitude of a code */
};

static int max_int(int a, int b) {
    return a > b ? a : b;
}

/* The magnitude of a code of `bits` bits in two's complement. */
static int magnitude(int code, int bits) {
    return code < 1 << (bits - 1) ? code : (1 << bits) - code;
}

/* Scans all codes instead of stopping at the first invalid one, because the compiler only
 * vectorizes a loop without an early exit. */
static struct code_range find_code_range(enum codec codec, const uint8_t *codes, int64_t bytes) {
    int largest = 0;
    if (codec == CODEC_INT8) {
        for (int64_t i = 0; i < bytes; i++) {
            largest = max_int(largest, magnitude(codes[i], 8));
        }
    } else {
        for (int64_t i = 0; i < bytes; i++) {
            largest = max_int(largest, magnitude(codes[i] & 0x0f, 4));
            largest = max_int(largest, magnitude(codes[i] >> 4, 4));
        }
    }
    return (struct code_range){.has_invalid = largest > (int)codec_code_max(codec),
                               .largest = largest};
}

static enum status check_block(enum codec codec, int64_t index, int64_t count, const uint8_t *bytes,
                               struct fault *fault) {
    const uint8_t *codes = bytes + codec_scale_bytes(codec);
    int64_t code_bytes = codec == CODEC_INT8 ? count : (count + 1) / 2;
    if (!is_valid_scale(codec, bytes)) {
        return set_fault(
            codec, "block", index,
            "the scale is invalid: it must be 0, or a normal number of at most FLT_MAX "
            "/ the largest code",
            fault);
    }
    const struct code_range range = find_code_range(codec, codes, code_bytes);
    if (range.has_invalid) {
        return set_fault(codec, "block", index,
                         "a code is outside the range [-127, 127] of int8 or [-7, 7] of int4",
                         fault);
    }
    /* A scale that is too large would make the rounding error look larger than it is, so that a
     * wrong sum could be mistaken for it (runtime/swarm/replica/sum_check.h). */
    bool is_zero = codec_load_scale(codec, bytes) == 0;
    if (range.largest != (is_zero ? 0 : (int)codec_code_max(codec))) {
        return set_fault(codec, "block", index,
                         "the scale does not follow from the largest element: its code must be 127 "
                         "in int8 and 7 in int4, or all codes 0 with a scale of 0",
                         fault);
    }
    if (codec == CODEC_INT4 && count % 2 == 1 && codes[code_bytes - 1] >> 4 != 0) {
        return set_fault(codec, "block", index, "the unused high bits of its last byte are not 0",
                         fault);
    }
    return OK;
}

static enum status check_blocks(enum codec codec, int64_t count, const uint8_t *bytes,
                                struct fault *fault) {
    int64_t length = codec_block_elements(codec);
    uint64_t stride = codec_bytes(codec, length);
    int64_t blocks = items_count(count, length);
    for (int64_t i = 0; i < blocks; i++) {
        TRY(check_block(codec, i, item_length(count, length, i), bytes + (uint64_t)i * stride,
                        fault));
    }
    return OK;
}

enum status codec_check(enum codec codec, int64_t count, const uint8_t *bytes, uint64_t size,
                        struct fault *fault) {
    uint64_t expected = codec_bytes(codec, count);
    if (size != expected) {
        return fault_set(fault, STATUS_INPUT, codec_name(codec), REMEDY,
                         "received %llu bytes for %lld elements; expected %llu bytes",
                         (unsigned long long)size, (long long)count, (unsigned long long)expected);
    }
    if (codec == CODEC_FP32 || codec == CODEC_BF16) {
        return check_elements(codec, count, bytes, fault);
    }
    return check_blocks(codec, count, bytes, fault);
}
