/* sparse: sizes, decoding and sums of kernels/sparse.h. */
#include "kernels/sparse.h"

#include "base/check.h"
#include "kernels/cpu/sparse_block.h"
#include "kernels/items.h"

static const int64_t COUNT_MAX = (int64_t)1 << 44;

uint64_t sparse_block_bytes(struct sparse_shape shape) {
    return (uint64_t)sparse_layout_of(shape).bytes;
}

uint64_t sparse_bytes(struct sparse_shape shape, int64_t count) {
    ASSERT(count >= 0 && count <= COUNT_MAX);
    return (uint64_t)items_count(count, SPARSE_BLOCK) * sparse_block_bytes(shape);
}

/* ---- decoding and sums ---- */

struct add_call {
    struct sparse_layout layout;
    struct sparse_add_args args;
    const uint8_t *bytes; /* the encoded vector */
    bool is_decode;       /* true: store values in sums, cleared before; false: add */
};

static void decode_add_block(const struct add_call *call, int64_t first, int length) {
    const struct sparse_add_args *args = &call->args;
    const uint8_t *bytes = call->bytes + first / SPARSE_BLOCK * call->layout.bytes;
    struct sparse_elements elements;
    float magnitudes[SPARSE_LEVELS_MAX];
    float *sums = args->sums + first;
    const int sign = 1 << (call->layout.value_bits - 1);
    float values[SPARSE_CODES_MAX];
    (void)sparse_unpack(&call->layout, bytes, length, &elements);
    sparse_magnitudes(&call->layout, bytes, magnitudes);
    for (int m = 0; m < sign; m++) {
        values[m] = args->factor * magnitudes[m];
        values[sign + m] = args->factor * -magnitudes[m];
    }
    if (call->is_decode) {
        memset(sums, 0, (size_t)length * sizeof *sums);
    }
    for (int i = 0; i < elements.count; i++) {
        sums[elements.indices[i]] += values[elements.codes[i]];
    }
    for (int i = 0; args->weights != NULL && i < elements.count; i++) {
        args->weights[first + elements.indices[i]] += args->weight;
    }
}

static void decode_add_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct add_call *call = context;
    int64_t begin = item * ITEM_ELEMENTS;
    int64_t end = begin + item_length(call->args.count, ITEM_ELEMENTS, item);
    for (int64_t first = begin; first < end; first += SPARSE_BLOCK) {
        decode_add_block(call, first,
                         (int)(end - first < SPARSE_BLOCK ? end - first : SPARSE_BLOCK));
    }
}

static void run_add(const struct compute *compute, struct add_call *call) {
    ASSERT(call->args.count >= 0 && call->args.count <= COUNT_MAX);
    call->layout = sparse_layout_of(call->args.shape);
    pool_run(compute->pool, decode_add_item, call, items_count(call->args.count, ITEM_ELEMENTS));
}

void sparse_decode(const struct compute *compute, struct sparse_shape shape, int64_t count,
                   const uint8_t *bytes, float *values) {
    struct add_call call = {
        .args = {.shape = shape, .count = count, .factor = 1, .sums = values},
        .bytes = bytes,
        .is_decode = true,
    };
    run_add(compute, &call);
}

void sparse_add(const struct compute *compute, const struct sparse_add_args *args,
                const uint8_t *bytes) {
    struct add_call call = {.args = *args, .bytes = bytes};
    run_add(compute, &call);
}

struct mean_call {
    int64_t count;        /* number of elements */
    const float *weights; /* [count]: total weight of the members that sent the element */
    float *sums;          /* [count]: in: weighted sums; out: means */
};

static void mean_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct mean_call *call = context;
    int64_t begin = item * ITEM_ELEMENTS;
    int64_t end = begin + item_length(call->count, ITEM_ELEMENTS, item);
    for (int64_t i = begin; i < end; i++) {
        float quotient = call->sums[i] / call->weights[i];
        call->sums[i] = call->weights[i] == 0 ? 0 : quotient;
    }
}

void sparse_mean(const struct compute *compute, int64_t count, const float *weights, float *sums) {
    ASSERT(count >= 0 && count <= COUNT_MAX);
    struct mean_call call = {.count = count, .weights = weights, .sums = sums};
    pool_run(compute->pool, mean_item, &call, items_count(count, ITEM_ELEMENTS));
}

/* ---- energy ---- */

static double block_energy(const struct sparse_layout *layout, const uint8_t *bytes, int length) {
    struct sparse_elements elements;
    float magnitudes[SPARSE_LEVELS_MAX];
    int counts[SPARSE_LEVELS_MAX] = {0};
    const int level_count = 1 << (layout->value_bits - 1);
    double energy = 0;
    (void)sparse_unpack(layout, bytes, length, &elements);
    sparse_magnitudes(layout, bytes, magnitudes);
    for (int i = 0; i < elements.count; i++) {
        counts[elements.codes[i] & (level_count - 1)]++;
    }
    for (int m = 0; m < level_count; m++) {
        energy += counts[m] * ((double)magnitudes[m] * (double)magnitudes[m]);
    }
    return energy;
}

/* Returns the largest level, because that occurs in every block that has elements. */
float sparse_block_peak(struct sparse_shape shape, const uint8_t *block) {
    const struct sparse_layout layout = sparse_layout_of(shape);
    float magnitudes[SPARSE_LEVELS_MAX];
    sparse_magnitudes(&layout, block, magnitudes);
    return magnitudes[(1 << (shape.value_bits - 1)) - 1];
}

double sparse_energy(struct sparse_shape shape, int64_t count, const uint8_t *bytes) {
    const struct sparse_layout layout = sparse_layout_of(shape);
    double energy = 0;
    for (int64_t block = 0; block < items_count(count, SPARSE_BLOCK); block++) {
        energy += block_energy(&layout, bytes + block * layout.bytes,
                               (int)item_length(count, SPARSE_BLOCK, block));
    }
    return energy;
}
