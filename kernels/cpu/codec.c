#include "kernels/codec.h"

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/items.h"

#include <stdatomic.h>

/* Every item consists of whole blocks, so that items are encoded independently. */
_Static_assert(ITEM_ELEMENTS % CODEC_INT8_BLOCK == 0 && ITEM_ELEMENTS % CODEC_INT4_BLOCK == 0,
               "ITEM_ELEMENTS must be a multiple of the block length of every codec");

static const int64_t COUNT_MAX = (int64_t)1 << 44;

static const char *const CODEC_NAMES[CODEC_COUNT] = {"fp32", "bf16", "int8", "int4"};

const char *codec_name(enum codec codec) {
    return CODEC_NAMES[codec];
}

bool codec_parse(const char *name, enum codec *codec) {
    for (int i = 0; i < CODEC_COUNT; i++) {
        if (strcmp(name, CODEC_NAMES[i]) == 0) {
            *codec = (enum codec)i;
            return true;
        }
    }
    return false;
}

/* ---- sizes ---- */

int64_t codec_block_elements(enum codec codec) {
    switch (codec) {
    case CODEC_INT8:
        return CODEC_INT8_BLOCK;
    case CODEC_INT4:
        return CODEC_INT4_BLOCK;
    case CODEC_FP32:
    case CODEC_BF16:
    case CODEC_COUNT:
        break;
    }
    return 1;
}

uint64_t codec_bytes(enum codec codec, int64_t count) {
    ASSERT(count >= 0 && count <= COUNT_MAX);
    uint64_t elements = (uint64_t)count;
    uint64_t blocks = (uint64_t)items_count(count, codec_block_elements(codec));
    switch (codec) {
    case CODEC_FP32:
        return 4 * elements;
    case CODEC_BF16:
        return 2 * elements;
    case CODEC_INT8:
        return CODEC_INT8_SCALE_BYTES * blocks + elements;
    case CODEC_INT4:
        return CODEC_INT4_SCALE_BYTES * blocks + (elements + 1) / 2;
    case CODEC_COUNT:
        break;
    }
    ASSERT(false && "a codec");
    return 0;
}

int64_t codec_elements_within(enum codec codec, uint64_t bytes) {
    int64_t block = codec_block_elements(codec);
    uint64_t blocks = bytes / codec_bytes(codec, block);
    ASSERT(blocks <= (uint64_t)(COUNT_MAX / block));
    return (int64_t)blocks * block;
}

/* ---- encode ---- */

struct encode_call {
    const struct codec_encode_args *args;
    const struct codec_loops *loops;
    uint8_t *bytes;          /* encoded output */
    _Atomic bool has_failed; /* set when the encoding of any item failed */
};

static void encode_item(void *context, int64_t item, int thread) {
    (void)thread;
    struct encode_call *call = context;
    const struct codec_encode_args *args = call->args;
    struct codec_part whole = {.source = args->source,
                               .feedback = args->feedback,
                               .residual = args->residual,
                               .count = args->count,
                               .bytes = call->bytes};
    int64_t first = item * ITEM_ELEMENTS;
    struct codec_part part = codec_part_skip(&whole, first, codec_bytes(args->codec, first));
    part.count = item_length(args->count, ITEM_ELEMENTS, item);
    if (!call->loops->encode(&part)) {
        atomic_store_explicit(&call->has_failed, true, memory_order_relaxed);
    }
}

bool codec_encode(const struct compute *compute, const struct codec_encode_args *args,
                  uint8_t *bytes) {
    ASSERT(args->count >= 0 && args->count <= COUNT_MAX && args->codec < CODEC_COUNT);
    struct encode_call call = {
        .args = args, .loops = &compute->table->codec.loops[args->codec], .bytes = bytes};
    pool_run(compute->pool, encode_item, &call, items_count(args->count, ITEM_ELEMENTS));
    return !atomic_load_explicit(&call.has_failed, memory_order_relaxed);
}

/* ---- decode ---- */

struct decode_call {
    struct codec_add_args args;
    const struct codec_loops *loops;
    const uint8_t *bytes;
    float *values; /* decoded output, or the sums to which it is added */
};

static void decode_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct decode_call *call = context;
    int64_t first = item * ITEM_ELEMENTS;
    call->loops->decode(call->bytes + codec_bytes(call->args.codec, first),
                        item_length(call->args.count, ITEM_ELEMENTS, item), call->values + first);
}

static void decode_add_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct decode_call *call = context;
    int64_t first = item * ITEM_ELEMENTS;
    call->loops->add(call->bytes + codec_bytes(call->args.codec, first),
                     item_length(call->args.count, ITEM_ELEMENTS, item), call->args.weight,
                     call->values + first);
}

void codec_decode(const struct compute *compute, enum codec codec, int64_t count,
                  const uint8_t *bytes, float *values) {
    ASSERT(count >= 0 && count <= COUNT_MAX && codec < CODEC_COUNT);
    struct decode_call call = {.args = {.codec = codec, .count = count},
                               .loops = &compute->table->codec.loops[codec],
                               .bytes = bytes,
                               .values = values};
    pool_run(compute->pool, decode_item, &call, items_count(count, ITEM_ELEMENTS));
}

void codec_decode_add(const struct compute *compute, const struct codec_add_args *args,
                      const uint8_t *bytes, float *sums) {
    ASSERT(args->count >= 0 && args->count <= COUNT_MAX && args->codec < CODEC_COUNT);
    struct decode_call call = {.args = *args,
                               .loops = &compute->table->codec.loops[args->codec],
                               .bytes = bytes,
                               .values = sums};
    pool_run(compute->pool, decode_add_item, &call, items_count(args->count, ITEM_ELEMENTS));
}
