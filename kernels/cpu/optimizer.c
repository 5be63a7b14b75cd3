
#include "kernels/cpu/cpu.h"
#include "kernels/items.h"

#include <math.h>

/* An item has 256 granules. The sum of a granule adds less than 2^32 to a digit, so an item adds
 * less than 2^40. Accumulators are normalised after every item, so no digit overflows. */
enum { ITEM_GRANULES = ITEM_ELEMENTS / GRANULE_ELEMENTS };
enum { DIGIT_BITS = 32, LOWEST_BIT = -320 }; /* bit 0 of digit 0 is worth 2^LOWEST_BIT */
/* The format of fp64. */
enum { FRACTION_BITS = 52, EXPONENT_MASK = 0x7ff, EXPONENT_BIAS = 1023 };
static const int64_t DIGIT_MASK = ((int64_t)1 << DIGIT_BITS) - 1;

/* ---- the fixed-point accumulator ---- */

/* Add the sum of a granule to the digits. The sum is a multiple of 2^-298, because all squares are
 * and rounding to fp64 keeps that, so it is 0 or a normal number. Its 53 bits, shifted by up to 31,
 * span at most three digits. */
static void accumulator_add(struct norm_accumulator *accumulator, double sum) {
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    int exponent = (int)(bits >> FRACTION_BITS & EXPONENT_MASK);
    if (exponent == EXPONENT_MASK) {
        accumulator->nonfinite++;
        return;
    }
    if (exponent == 0) {
        return;
    }
    uint64_t one = (uint64_t)1 << FRACTION_BITS;
    uint64_t whole = (bits & (one - 1)) | one;
    int bit = exponent - EXPONENT_BIAS - FRACTION_BITS - LOWEST_BIT;
    if (bit < 0) {
        whole >>= -bit;
        bit = 0;
    }
    int64_t *digits = accumulator->digits + bit / DIGIT_BITS;
    unsigned __int128 shifted = (unsigned __int128)whole << (bit % DIGIT_BITS);
    digits[0] += (int64_t)shifted & DIGIT_MASK;
    digits[1] += (int64_t)(shifted >> DIGIT_BITS) & DIGIT_MASK;
    digits[2] += (int64_t)(shifted >> (2 * DIGIT_BITS));
}

/* Carry from low to high digits, until every digit but the highest is in [0, 2^32). */
static void accumulator_normalise(struct norm_accumulator *accumulator) {
    int64_t carry = 0;
    for (int i = 0; i < NORM_DIGITS - 1; i++) {
        int64_t digit = accumulator->digits[i] + carry;
        carry = digit >> DIGIT_BITS;
        accumulator->digits[i] = digit & DIGIT_MASK;
    }
    accumulator->digits[NORM_DIGITS - 1] += carry;
}

void norm_accumulator_merge(struct norm_accumulator *into, const struct norm_accumulator *other) {
    for (int i = 0; i < NORM_DIGITS; i++) {
        into->digits[i] += other->digits[i];
    }
    into->nonfinite += other->nonfinite;
    accumulator_normalise(into);
}

/* Convert to fp64 with one rounding. The three highest digits hold at least 65 bits, and lower bits
 * matter only as a tie-breaker. */
static double accumulator_value(struct norm_accumulator accumulator) {
    accumulator_normalise(&accumulator);
    int top = NORM_DIGITS - 1;
    while (top > 2 && accumulator.digits[top] == 0) {
        top--;
    }
    unsigned __int128 value = 0;
    for (int i = top; i > top - 3; i--) {
        value = value << DIGIT_BITS | (unsigned __int128)accumulator.digits[i];
    }
    for (int i = top - 3; i >= 0; i--) {
        value |= accumulator.digits[i] != 0;
    }
    return ldexp((double)value, DIGIT_BITS * (top - 2) + LOWEST_BIT);
}

/* ---- the norm ---- */

struct norm_call {
    const struct optimizer_kernels *kernels;
    int64_t granules;       /* number of granules */
    const float *gradients; /* gradients whose norm is computed */
    /* one accumulator for each thread; the order of integer additions does not matter */
    struct norm_accumulator *accumulators;
};

uint64_t gradient_norm_workspace_bytes(int64_t count, int threads) {
    (void)count;
    return (uint64_t)threads * sizeof(struct norm_accumulator);
}

static void sum_squares_item(void *context, int64_t item, int thread) {
    const struct norm_call *call = context;
    int64_t first = item * ITEM_GRANULES;
    int64_t granules = item_length(call->granules, ITEM_GRANULES, item);
    double sums[ITEM_GRANULES];
    call->kernels->granule_sums(call->gradients + first * GRANULE_ELEMENTS, granules, sums);
    /* Accumulate on the stack: accumulators of different threads in the shared array can lie in one
     * cache line. */
    struct norm_accumulator accumulator = {0};
    for (int64_t i = 0; i < granules; i++) {
        accumulator_add(&accumulator, sums[i]);
    }
    norm_accumulator_merge(&call->accumulators[thread], &accumulator);
}

void gradient_norm_run(const struct compute *compute, int64_t count, const float *gradients,
                       struct step_scalars *scalars, void *workspace) {
    ASSERT(count >= 0 && count % GRANULE_ELEMENTS == 0);
    struct norm_call call = {.kernels = &compute->table->optimizer,
                             .granules = count / GRANULE_ELEMENTS,
                             .gradients = gradients,
                             .accumulators = workspace};
    int threads = compute->pool->thread_count;
    memset(workspace, 0, gradient_norm_workspace_bytes(count, threads));
    pool_run(compute->pool, sum_squares_item, &call, items_count(call.granules, ITEM_GRANULES));
    for (int thread = 0; thread < threads; thread++) {
        norm_accumulator_merge(&scalars->norm, &call.accumulators[thread]);
    }
}

void clip_run(float clip_norm, struct step_scalars *scalars) {
    scalars->skip = scalars->norm.nonfinite != 0;
    if (scalars->skip) {
        scalars->gradient_norm = INFINITY;
        scalars->clip_factor = 0;
        return;
    }
    scalars->gradient_norm = sqrt(accumulator_value(scalars->norm));
    scalars->clip_factor = 1;
    if (clip_norm > 0 && scalars->gradient_norm > (double)clip_norm) {
        scalars->clip_factor = (float)((double)clip_norm / scalars->gradient_norm);
    }
}

/* ---- AdamW ---- */

struct adamw_call {
    const struct adamw_inputs *decayed_inputs, *undecayed_inputs;
    const struct optimizer_kernels *kernels;
    int64_t count, decayed; /* number of elements; the first `decayed` of them have weight decay */
};

static void update_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct adamw_call *call = context;
    int64_t first = item * ITEM_ELEMENTS;
    int64_t end = first + item_length(call->count, ITEM_ELEMENTS, item);
    int64_t boundary = call->decayed < first ? first : call->decayed < end ? call->decayed : end;
    if (first < boundary) {
        call->kernels->adamw(call->decayed_inputs, first, boundary - first);
    }
    if (boundary < end) {
        call->kernels->adamw(call->undecayed_inputs, boundary, end - boundary);
    }
}

/* The factors that all elements share are computed in fp64 and rounded once. */
static struct adamw_inputs make_adamw_inputs(const struct adamw_args *args,
                                             const struct step_scalars *scalars) {
    double rate = (double)scalars->learning_rate;
    double mean_share = (double)scalars->mean_share;
    return (struct adamw_inputs){
        .dtype_moments = args->dtype_moments,
        .dtype_params = args->dtype_params,
        .clip = scalars->clip_factor,
        .keep = (float)(1 - rate * (double)scalars->weight_decay),
        .m_blend = (float)(1 - (double)scalars->beta1),
        .beta2 = scalars->beta2,
        .v_blend = (float)(1 - (double)scalars->beta2),
        .root_scale = (float)(1 / sqrt((double)scalars->bias_correction_2)),
        .v_share = (float)(1 - mean_share),
        .m_share = (float)(sqrt(mean_share * (double)scalars->bias_correction_2) /
                           (double)scalars->bias_correction_1),
        .epsilon = args->epsilon,
        .step = (float)(rate / (double)scalars->bias_correction_1),
        .stochastic = args->rounding == ROUNDING_STOCHASTIC && args->dtype_moments == DTYPE_BF16,
        .noise_key = noise_key(scalars->noise, args->stream),
        .position = args->position,
    };
}

void adamw_run(const struct compute *compute, const struct adamw_args *args,
               const struct step_scalars *scalars, const float *gradients, float *master, void *m,
               void *v, void *params) {
    ASSERT(args->decayed >= 0 && args->decayed <= args->count);
    ASSERT(args->dtype_moments == DTYPE_F32 || args->dtype_moments == DTYPE_BF16);
    ASSERT(params == NULL || args->dtype_params == DTYPE_F32 || args->dtype_params == DTYPE_BF16);
    if (scalars->skip) {
        return;
    }
    struct adamw_inputs inputs = make_adamw_inputs(args, scalars);
    inputs.gradients = gradients;
    inputs.master = master;
    inputs.m = m;
    inputs.v = v;
    inputs.params = params;
    struct adamw_inputs undecayed_inputs = inputs;
    undecayed_inputs.keep = 1;
    struct adamw_call call = {.decayed_inputs = &inputs,
                              .undecayed_inputs = &undecayed_inputs,
                              .kernels = &compute->table->optimizer,
                              .count = args->count,
                              .decayed = args->decayed};
    pool_run(compute->pool, update_item, &call, items_count(args->count, ITEM_ELEMENTS));
}
