/* The gradient norm, the clip factor, the tallies of ranks and AdamW. Same bits as on the CPU. */
#include "kernels/cuda/device/element_spans.h"
#include "kernels/cuda/device/optimizer_params.h"

/* Constants of the accumulator and of fp64. */
enum { GRANULE = 64, SUM_LANES = 8, ACCUMULATOR_WORDS = NORM_DIGITS + 1 };
enum { DIGIT_BITS = 32, LOWEST_BIT = -320, FRACTION_BITS = 52, EXPONENT_MASK = 0x7ff };
enum { EXPONENT_BIAS = 1023 };

union double_bits {
    double value;
    uint64_t bits;
};

DEVICE uint64_t shuffle_bits(uint64_t bits, int lane) {
    uint32_t low = shuffle((uint32_t)bits, lane);
    uint32_t high = shuffle((uint32_t)(bits >> 32), lane);
    return (uint64_t)high << 32 | low;
}

/* ---- the norm ---- */

/* Eight threads sum a granule: each adds every eighth square in order; then lanes 4 apart, 2 apart
 * and neighbours are added. All eight return the sum. Squares of floats are exact in fp64, so fused
 * operations give the same bits. */
DEVICE uint64_t granule_sum(const norm_sums_params &p, int64_t granule) {
    int lane = (int)threadIdx.x % WARP;
    double_bits sum = {0};
    if (granule < p.granules) {
        const float *at = p.gradients + granule * GRANULE + lane % SUM_LANES;
#pragma unroll
        for (int i = 0; i < GRANULE / SUM_LANES; i++) {
            double value = (double)at[i * SUM_LANES];
            sum.value += value * value;
        }
    }
    for (int apart = SUM_LANES / 2; apart > 0; apart /= 2) {
        double_bits other;
        other.bits = shuffle_bits(sum.bits, lane ^ apart);
        sum.value += other.value;
    }
    return sum.bits;
}

/* The part of a granule's sum that belongs to word `word` of the accumulator. Its 53 bits span at
 * most three digits. */
DEVICE uint64_t accumulator_part(uint64_t sum, int word) {
    int exponent = (int)(sum >> FRACTION_BITS & EXPONENT_MASK);
    if (exponent == EXPONENT_MASK) {
        return word == NORM_DIGITS;
    }
    if (exponent == 0) {
        return 0;
    }
    uint64_t one = 1ull << FRACTION_BITS;
    uint64_t whole = (sum & (one - 1)) | one;
    int bit = exponent - EXPONENT_BIAS - FRACTION_BITS - LOWEST_BIT;
    if (bit < 0) {
        whole >>= -bit;
        bit = 0;
    }
    int shift = bit % DIGIT_BITS;
    uint64_t low = whole << shift;
    uint64_t high = shift > 0 ? whole >> (64 - shift) : 0;
    int digit = word < NORM_DIGITS ? word - bit / DIGIT_BITS : -1;
    return digit == 0 ? (uint32_t)low : digit == 1 ? low >> DIGIT_BITS : digit == 2 ? high : 0;
}

/* Thread t of a warp holds word t of the warp's accumulator: integers, which may be added in any
 * order. */
BOUNDED_KERNEL(norm_sums, norm_sums_params, NORM_THREADS, 4) {
    SHARED(uint64_t, words, NORM_THREADS);
    int lane = (int)threadIdx.x % WARP;
    int64_t stride = (int64_t)gridDim.x * NORM_GRANULES_PER_PASS;
    int64_t first = (int64_t)blockIdx.x * NORM_GRANULES_PER_PASS + (int)threadIdx.x / WARP * 4;
    uint64_t word = 0;
    for (; first < p.granules; first += stride) {
        uint64_t sum = granule_sum(p, first + lane / SUM_LANES);
#pragma unroll
        for (int i = 0; i < WARP / SUM_LANES; i++) {
            word += accumulator_part(shuffle_bits(sum, i * SUM_LANES), lane);
        }
    }
    words[threadIdx.x] = word;
    __syncthreads();
    if (threadIdx.x >= ACCUMULATOR_WORDS) {
        return;
    }
    word = 0;
    for (int i = 0; i < NORM_THREADS / WARP; i++) {
        word += words[i * WARP + lane];
    }
    ((uint64_t *)(p.partials + blockIdx.x))[lane] = word;
}

/* Carries upwards until every digit but the highest is in [0, 2^32). */
DEVICE void normalise(norm_accumulator *accumulator) {
    int64_t carry = 0;
#pragma unroll 1
    for (int i = 0; i < NORM_DIGITS - 1; i++) {
        int64_t digit = accumulator->digits[i] + carry;
        carry = digit >> DIGIT_BITS;
        accumulator->digits[i] = digit & 0xffffffff;
    }
    accumulator->digits[NORM_DIGITS - 1] += carry;
}

BOUNDED_KERNEL(norm_merge, norm_merge_params, NORM_MERGE_THREADS, 1) {
    SHARED(uint64_t, words, NORM_MERGE_THREADS);
    int lane = (int)threadIdx.x % WARP;
    uint64_t word = 0;
    for (int64_t i = threadIdx.x / WARP; i < p.count && lane < ACCUMULATOR_WORDS;
         i += NORM_MERGE_THREADS / WARP) {
        word += ((const uint64_t *)(p.partials + i))[lane];
    }
    words[threadIdx.x] = word;
    __syncthreads();
    if (threadIdx.x < WARP) {
        for (int i = 1; i < NORM_MERGE_THREADS / WARP; i++) {
            words[lane] += words[i * WARP + lane];
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        norm_accumulator *norm = &p.scalars->norm;
#pragma unroll 1
        for (int i = 0; i < NORM_DIGITS; i++) {
            norm->digits[i] += (int64_t)words[i];
        }
        norm->nonfinite += (int64_t)words[NORM_DIGITS];
        normalise(norm);
    }
}

/* ---- the clip ---- */

/* Rounds once, to nearest even, from the three highest digits; lower bits matter only as a
 * tie-breaker. */
DEVICE double accumulator_value(const norm_accumulator &sum) {
    int top = NORM_DIGITS - 1;
    while (top > 2 && sum.digits[top] == 0) {
        top--;
    }
    uint64_t high = (uint64_t)sum.digits[top] << 32 | (uint64_t)sum.digits[top - 1];
    uint64_t low = (uint64_t)sum.digits[top - 2] << 32; /* the bits below `high`, for ties */
    for (int i = 0; i < top - 2; i++) {
        low |= sum.digits[i] != 0;
    }
    if (high == 0 && low == 0) {
        return 0;
    }
    int exponent = 32 * (top - 1) + LOWEST_BIT; /* of the lowest bit of `high` */
    while (high >> 63 == 0) {
        high = high << 1 | low >> 63;
        low <<= 1;
        exponent--;
    }
    uint64_t whole = high >> 11;
    uint64_t rest = high & 0x7ff;
    bool above = rest > 0x400 || (rest == 0x400 && (low != 0 || (whole & 1) != 0));
    double_bits scale;
    scale.bits = (uint64_t)(exponent + 11 + EXPONENT_BIAS) << FRACTION_BITS;
    return (double)(whole + above) * scale.value;
}

KERNEL(clip_scalars, clip_params) {
    step_scalars *scalars = p.scalars;
    if (threadIdx.x != 0) {
        return;
    }
    scalars->skip = scalars->norm.nonfinite != 0;
    if (scalars->skip) {
        double_bits infinity;
        infinity.bits = (uint64_t)EXPONENT_MASK << FRACTION_BITS;
        scalars->gradient_norm = infinity.value;
        scalars->clip_factor = 0;
        return;
    }
    norm_accumulator sum = scalars->norm;
    normalise(&sum);
    double norm = sqrt_exact(accumulator_value(sum));
    scalars->gradient_norm = norm;
    scalars->clip_factor = 1;
    if (p.clip_norm > 0 && norm > (double)p.clip_norm) {
        scalars->clip_factor = (float)((double)p.clip_norm / norm);
    }
}

/* ---- tallies ---- */

KERNEL(tally_write, tally_out_params) {
    if (threadIdx.x == 0) {
        p.own->loss_sum = p.scalars->loss_sum;
        p.own->valid_tokens = p.scalars->valid_tokens;
        p.own->norm = p.scalars->norm;
    }
}

KERNEL(tally_take, tally_in_params) {
    if (threadIdx.x != 0) {
        return;
    }
    double loss_sum = 0;
    int64_t valid_tokens = 0;
    norm_accumulator norm = {};
    for (int rank = 0; rank < p.ranks; rank++) {
        const rank_tally &tally = p.tallies[rank];
        loss_sum += tally.loss_sum;
        valid_tokens += tally.valid_tokens;
        for (int i = 0; i < NORM_DIGITS && rank < p.shard; i++) {
            norm.digits[i] += tally.norm.digits[i];
        }
        norm.nonfinite += rank < p.shard ? tally.norm.nonfinite : 0;
    }
    normalise(&norm);
    if (p.tokens) {
        p.scalars->valid_tokens = valid_tokens;
        p.scalars->loss_scale = valid_tokens > 0 ? (float)(1.0 / (double)valid_tokens) : 0;
    }
    if (p.loss) {
        p.scalars->loss_sum = loss_sum;
    }
    if (p.norm) {
        p.scalars->norm = norm;
    }
}

/* ---- AdamW ---- */

/* Values that all elements share are computed in fp64 and rounded once. */
struct adamw_shared {
    float clip, keep, blend_m, beta2, blend_v, root_scale, share_v, share_m, epsilon, step;
    uint32_t noise_key;
};

/* The hash of kernels/loops/noise.h. */
DEVICE uint32_t noise_hash(uint32_t word) {
    word ^= word >> 16;
    word *= 0x7feb352du;
    word ^= word >> 15;
    word *= 0x846ca68bu;
    return word ^ word >> 16;
}

DEVICE adamw_shared shared_of(const adamw_params &p) {
    double rate = (double)p.scalars->learning_rate;
    adamw_shared own;
    own.clip = p.scalars->clip_factor;
    /* computed exactly, then rounded */
    own.keep = (float)(1 - rate * (double)p.scalars->weight_decay);
    own.blend_m = (float)(1 - (double)p.scalars->beta1);
    own.beta2 = p.scalars->beta2;
    own.blend_v = (float)(1 - (double)p.scalars->beta2);
    own.root_scale = (float)(1 / sqrt_exact((double)p.scalars->bias_correction_2));
    double mean_share = (double)p.scalars->mean_share;
    own.share_v = (float)(1 - mean_share);
    own.share_m = (float)(sqrt_exact(mean_share * (double)p.scalars->bias_correction_2) /
                          (double)p.scalars->bias_correction_1);
    own.epsilon = p.epsilon;
    own.step = (float)(rate / (double)p.scalars->bias_correction_1);
    own.noise_key = noise_hash(p.scalars->noise + p.stream * 0x9e3779b9u);
    return own;
}

/* Loads a thread's neighbouring elements from a tensor of either type, and stores them, each
 * rounded once. */
DEVICE void take_values(const void *data, int is_bf16, int64_t at, bool whole, int64_t left,
                        float values[ADAMW_ELEMENTS_PER_THREAD]) {
    if (is_bf16) {
        load_span<bf16, ADAMW_ELEMENTS_PER_THREAD>((const bf16 *)data + at, whole, left, values);
    } else {
        load_span<float, ADAMW_ELEMENTS_PER_THREAD>((const float *)data + at, whole, left, values);
    }
}

DEVICE void put_values(void *data, int is_bf16, int64_t at, bool whole, int64_t left,
                       const float values[ADAMW_ELEMENTS_PER_THREAD]) {
    if (is_bf16) {
        store_span<bf16, ADAMW_ELEMENTS_PER_THREAD>((bf16 *)data + at, whole, left, values);
    } else {
        store_span<float, ADAMW_ELEMENTS_PER_THREAD>((float *)data + at, whole, left, values);
    }
}

/* Every product, sum, quotient and root rounds once, in the order of the CPU's code. */
DEVICE float adamw_element(const adamw_shared &own, float keep, float scaled, float weight,
                           float &m, float &v) {
    float gradient = mul_exact(scaled, own.clip);
    m = add_exact(m, mul_exact(own.blend_m, sub_exact(gradient, m)));
    v = add_exact(mul_exact(own.beta2, v), mul_exact(mul_exact(own.blend_v, gradient), gradient));
    float spread = v;
    if (own.share_m != 0) {
        float mean = mul_exact(own.share_m, m);
        spread = add_exact(mul_exact(own.share_v, v), mul_exact(mean, mean));
    }
    float divisor = add_exact(mul_exact(sqrt_exact(spread), own.root_scale), own.epsilon);
    return sub_exact(mul_exact(keep, weight), mul_exact(own.step, div_exact(m, divisor)));
}

/* Rounds to one of the two neighbouring bf16; the lowest 16 bits of `noise` decide which. */
DEVICE float rounded_by_noise(float value, uint32_t noise) {
    uint32_t bits = float_to_bits(value);
    bool finite = (bits & 0x7f800000) != 0x7f800000;
    return finite ? bits_to_float((bits + (noise & 0xffff)) & 0xffff0000u) : value;
}

/* Loads everything before it computes the first element. */
DEVICE void adamw_run(const adamw_params &p, const adamw_shared &own, int64_t at) {
    int64_t left = p.count - at;
    bool whole = p.aligned != 0 && left >= ADAMW_ELEMENTS_PER_THREAD;
    float gradients[ADAMW_ELEMENTS_PER_THREAD], weights[ADAMW_ELEMENTS_PER_THREAD],
        m[ADAMW_ELEMENTS_PER_THREAD], v[ADAMW_ELEMENTS_PER_THREAD];
    take_values(p.gradients, 0, at, whole, left, gradients);
    take_values(p.m, p.moments_bf16, at, whole, left, m);
    take_values(p.v, p.moments_bf16, at, whole, left, v);
    take_values(p.master, 0, at, whole, left, weights);
#pragma unroll
    for (int i = 0; i < ADAMW_ELEMENTS_PER_THREAD; i++) {
        float keep = at + i < p.decayed ? own.keep : 1.0f;
        weights[i] = adamw_element(own, keep, gradients[i], weights[i], m[i], v[i]);
        if (p.stochastic) {
            uint32_t noise = noise_hash((uint32_t)(p.position + at + i) ^ own.noise_key);
            m[i] = rounded_by_noise(m[i], noise);
            v[i] = rounded_by_noise(v[i], noise >> 16);
        }
    }
    put_values(p.m, p.moments_bf16, at, whole, left, m);
    put_values(p.v, p.moments_bf16, at, whole, left, v);
    put_values(p.master, 0, at, whole, left, weights);
    if (p.params != nullptr) {
        put_values(p.params, p.params_bf16, at, whole, left, weights);
    }
}

BOUNDED_KERNEL(adamw, adamw_params, ADAMW_THREADS, 4) {
    SHARED(adamw_shared, shared, 1);
    if (p.scalars->skip) {
        return;
    }
    if (threadIdx.x == 0) {
        shared[0] = shared_of(p);
    }
    __syncthreads();
    adamw_shared own = shared[0];
    constexpr int64_t ROUND = ADAMW_THREADS * ADAMW_ELEMENTS_PER_THREAD;
    int64_t first = (blockIdx.x * ADAMW_THREADS + (int64_t)threadIdx.x) * ADAMW_ELEMENTS_PER_THREAD;
    for (; first < p.count; first += gridDim.x * ROUND) {
        adamw_run(p, own, first);
    }
}
