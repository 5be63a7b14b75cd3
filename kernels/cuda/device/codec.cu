/* The codecs: encoding with error feedback, and decoding to values or into a sum. Same bits as on
 * the CPU. */
#include "kernels/cuda/device/codec_params.h"
#include "kernels/cuda/device/device.h"

enum { INT8_BLOCK = 256, INT4_BLOCK = 64, INT8_SCALE_BYTES = 4, INT4_SCALE_BYTES = 2 };
enum { INFINITY_BITS = 0x7f800000, LARGEST_BITS = 0x7f7fffff, SMALLEST_NORMAL_BITS = 0x00800000 };

template <bool INT4> struct layout {
    static constexpr int BLOCK = INT4 ? INT4_BLOCK : INT8_BLOCK;
    static constexpr int SCALE_BYTES = INT4 ? INT4_SCALE_BYTES : INT8_SCALE_BYTES;
    static constexpr int BYTES = SCALE_BYTES + (INT4 ? BLOCK / 2 : BLOCK);
    static constexpr int EACH = BLOCK / WARP; /* elements of a thread */
};

DEVICE float meant_at(const codec_encode_params &p, int64_t at) {
    return p.feedback == nullptr ? p.source[at] : add_exact(p.source[at], p.feedback[at]);
}

DEVICE uint32_t size_bits(float value) {
    return float_to_bits(value) & 0x7fffffffu;
}

/* ---- int8 and int4: one warp per block ---- */

/* As integers, the bits of infinities and NaN are larger than those of all finite numbers. */
DEVICE uint32_t warp_max_bits(uint32_t value) {
    for (int mask = WARP / 2; mask > 0; mask /= 2) {
        uint32_t other = shuffle_xor(value, mask);
        value = other > value ? other : value;
    }
    return value;
}

/* A block's scale from the bits of its largest absolute value. */
template <bool INT4> DEVICE float scale_of(uint32_t peak) {
    float exact = div_exact(bits_to_float(peak), INT4 ? 7.0f : 127.0f);
    if (INT4) {
        exact = to_float(from_float<bf16>(exact));
    }
    return exact < bits_to_float(SMALLEST_NORMAL_BITS) ? 0.0f : exact;
}

/* Adding this rounds to the nearest integer, ties to even, because the sum has no bits for
 * fractions. */
DEVICE float nearest(float value) {
    return sub_exact(add_exact(value, 12582912.0f), 12582912.0f);
}

template <bool INT4> DEVICE void put_scale(uint8_t *bytes, float scale) {
    int lane = (int)threadIdx.x % WARP;
    uint32_t bits = INT4 ? from_float<bf16>(scale).bits : float_to_bits(scale);
    if (lane < layout<INT4>::SCALE_BYTES) {
        bytes[lane] = (uint8_t)(bits >> 8 * lane);
    }
}

/* int8: a thread holds every 32nd element; int4: pairs of neighbours, which share a byte. */
template <bool INT4> DEVICE int unpack_element(int index) {
    int lane = (int)threadIdx.x % WARP;
    return INT4 ? lane * 2 + index : lane + index * WARP;
}

template <bool INT4>
DEVICE void put_codes(const codec_encode_params &p, int64_t first, int count, const float *meant,
                      float scale, uint8_t *bytes) {
    float inverse = scale == 0 ? 0 : div_exact(1, scale);
    unsigned pair = 0;
#pragma unroll
    for (int i = 0; i < layout<INT4>::EACH; i++) {
        int at = unpack_element<INT4>(i);
        float code = nearest(mul_exact(meant[i], inverse));
        if (at >= count) {
            continue;
        }
        if (INT4) {
            pair |= ((unsigned)(int)code & 0xf) << 4 * i;
        } else {
            bytes[at] = (uint8_t)(int)code;
        }
        if (p.residual != nullptr) {
            p.residual[first + at] = sub_exact(meant[i], mul_exact(code, scale));
        }
    }
    if (INT4 && unpack_element<INT4>(0) < count) {
        bytes[unpack_element<INT4>(0) / 2] = (uint8_t)pair;
    }
}

template <bool INT4> DEVICE void encode_block(const codec_encode_params &p) {
    typedef layout<INT4> shape;
    int64_t block = (int64_t)blockIdx.x * (CODEC_THREADS / WARP) + (int)threadIdx.x / WARP;
    int64_t first = block * shape::BLOCK;
    int64_t left = p.count - first;
    if (left <= 0) {
        return;
    }
    int count = left < shape::BLOCK ? (int)left : shape::BLOCK;
    float meant[shape::EACH];
    uint32_t peak = 0;
#pragma unroll
    for (int i = 0; i < shape::EACH; i++) {
        int at = unpack_element<INT4>(i);
        meant[i] = at < count ? meant_at(p, first + at) : 0.0f;
        uint32_t size = size_bits(meant[i]);
        peak = size > peak ? size : peak;
    }
    float scale = scale_of<INT4>(warp_max_bits(peak));
    bool finite = mul_exact(scale, INT4 ? 7.0f : 127.0f) <= bits_to_float(LARGEST_BITS);
    if (!finite) {
        if (threadIdx.x % WARP == 0) {
            atomic_add(p.nonfinite, 1);
        }
        return;
    }
    uint8_t *bytes = p.bytes + block * shape::BYTES;
    put_scale<INT4>(bytes, scale);
    put_codes<INT4>(p, first, count, meant, scale, bytes + shape::SCALE_BYTES);
}

BOUNDED_KERNEL(codec_encode_int8, codec_encode_params, CODEC_THREADS, 4) {
    encode_block<false>(p);
}
BOUNDED_KERNEL(codec_encode_int4, codec_encode_params, CODEC_THREADS, 4) {
    encode_block<true>(p);
}

template <bool INT4> DEVICE float decoded_code(const uint8_t *bytes, int64_t index) {
    typedef layout<INT4> shape;
    int within = (int)(index % shape::BLOCK);
    bytes += index / shape::BLOCK * shape::BYTES;
    uint32_t low = bytes[0] | (uint32_t)bytes[1] << 8;
    if (INT4) {
        int nibble = bytes[shape::SCALE_BYTES + within / 2] >> (within % 2 * 4) & 0xf;
        return mul_exact((float)((nibble ^ 8) - 8), bits_to_float(low << 16));
    }
    uint32_t scale = low | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    return mul_exact((float)(int8_t)bytes[shape::SCALE_BYTES + within], bits_to_float(scale));
}

/* ---- fp32 and bf16: one thread per element ---- */

template <int BYTES> DEVICE void encode_element(const codec_encode_params &p) {
    int64_t at = (int64_t)blockIdx.x * CODEC_THREADS + (int)threadIdx.x;
    if (at >= p.count) {
        return;
    }
    float meant = meant_at(p, at);
    float decoded = BYTES == 2 ? to_float(from_float<bf16>(meant)) : meant;
    uint32_t bits = float_to_bits(decoded) >> (BYTES == 2 ? 16 : 0);
    if (size_bits(decoded) >= INFINITY_BITS) {
        atomic_add(p.nonfinite, 1);
    }
#pragma unroll
    for (int i = 0; i < BYTES; i++) {
        p.bytes[at * BYTES + i] = (uint8_t)(bits >> 8 * i);
    }
    if (p.residual != nullptr) {
        p.residual[at] = sub_exact(meant, decoded);
    }
}

BOUNDED_KERNEL(codec_encode_fp32, codec_encode_params, CODEC_THREADS, 4) {
    encode_element<4>(p);
}
BOUNDED_KERNEL(codec_encode_bf16, codec_encode_params, CODEC_THREADS, 4) {
    encode_element<2>(p);
}

template <int BYTES> DEVICE float decoded_float(const uint8_t *bytes, int64_t index) {
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < BYTES; i++) {
        bits |= (uint32_t)bytes[index * BYTES + i] << 8 * (i + 4 - BYTES);
    }
    return bits_to_float(bits);
}

/* ---- decoding ---- */

DEVICE int64_t decoded_index() {
    return (int64_t)blockIdx.x * CODEC_THREADS + (int)threadIdx.x;
}

DEVICE void take_decoded(const codec_decode_params &p, int64_t at, float decoded) {
    p.values[at] = p.add ? add_exact(p.values[at], mul_exact(p.weight, decoded)) : decoded;
}

#define DECODE_KERNEL(name, decoded)                                                               \
    BOUNDED_KERNEL(codec_decode_##name, codec_decode_params, CODEC_THREADS, 4) {                   \
        int64_t at = decoded_index();                                                              \
        if (at < p.count) {                                                                        \
            take_decoded(p, at, decoded(p.bytes, at));                                             \
        }                                                                                          \
    }

DECODE_KERNEL(fp32, decoded_float<4>)
DECODE_KERNEL(bf16, decoded_float<2>)
DECODE_KERNEL(int8, decoded_code<false>)
DECODE_KERNEL(int4, decoded_code<true>)
