#include "kernels/random_normals.h"

#include "kernels/cpu/cpu.h"
#include "kernels/items.h"

#include <string.h>

enum {
    /* Elements of one item, which take some microseconds to draw with vectors. */
    DRAW_ITEM_ELEMENTS = 4096,
    /* Elements that are drawn and then copied to each output while they are in the L1 cache. */
    DRAW_BLOCK_ELEMENTS = 1024
};

struct draw_call {
    const struct kernel_table *table;
    const struct random_normals_args *args;
};

static void copy_values(const struct elementwise_kernels *kernels, const float *values,
                        int64_t first, int64_t count, const struct random_normals_output *output) {
    if (output->dtype == DTYPE_BF16) {
        kernels->narrow(values, (uint16_t *)output->values + first, count);
    } else {
        memcpy((float *)output->values + first, values, (size_t)count * sizeof *values);
    }
}

static void draw_block(const struct draw_call *call, int64_t first, int64_t count) {
    const struct random_normals_args *args = call->args;
    float values[DRAW_BLOCK_ELEMENTS];
    call->table->random_normals.draw(args->key, (uint64_t)(args->first + first), count,
                                     args->deviation, values);
    for (int i = 0; i < args->output_count; i++) {
        copy_values(&call->table->elementwise, values, first, count, &args->outputs[i]);
    }
}

static void draw_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct draw_call *call = context;
    int64_t begin = item * DRAW_ITEM_ELEMENTS;
    int64_t end = begin + item_length(call->args->count, DRAW_ITEM_ELEMENTS, item);
    for (int64_t first = begin; first < end; first += DRAW_BLOCK_ELEMENTS) {
        int64_t left = end - first;
        draw_block(call, first, left < DRAW_BLOCK_ELEMENTS ? left : DRAW_BLOCK_ELEMENTS);
    }
}

void random_normals_run(const struct compute *compute, const struct random_normals_args *args) {
    ASSERT(args->first >= 0 && args->count >= 0);
    ASSERT(args->output_count >= 1 && args->output_count <= RANDOM_NORMALS_OUTPUTS_MAX);
    for (int i = 0; i < args->output_count; i++) {
        ASSERT(args->outputs[i].dtype == DTYPE_F32 || args->outputs[i].dtype == DTYPE_BF16);
    }
    struct draw_call call = {.table = compute->table, .args = args};
    pool_run(compute->pool, draw_item, &call, items_count(args->count, DRAW_ITEM_ELEMENTS));
}
