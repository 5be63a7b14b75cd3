#include "runtime/data/sample_order.h"

#include <stdbool.h>

static bool is_short(const struct token_data *data, int64_t block) {
    return data_block_windows(data, block) < data->block_windows_max;
}

void sample_order_init(const struct token_data *data, uint64_t seed, struct region *region,
                       struct sample_order *order) {
    int64_t count = 0;
    for (int64_t block = 0; block < data->block_count; block++) {
        count += is_short(data, block);
    }
    *order = (struct sample_order){
        .data = data,
        .seed = seed,
        .pass = UINT64_MAX,
        .shorts = region_alloc(region, (size_t)count + 1, sizeof(struct short_data_block)),
        .short_count = count};
}

static void fill_table(struct sample_order *order, uint64_t pass) {
    const struct token_data *data = order->data;
    int64_t lacking = 0;
    int64_t count = 0;
    for (int64_t turn = 0; turn < data->block_count; turn++) {
        int64_t block = data_block_at(data, order->seed, pass, turn);
        if (is_short(data, block)) {
            lacking += data->block_windows_max - data_block_windows(data, block);
            order->shorts[count++] = (struct short_data_block){turn, lacking};
        }
    }
    ASSERT(count == order->short_count);
    order->pass = pass;
}

/* The first window of the block at `turn` is this one of the pass. */
static int64_t windows_before(const struct sample_order *order, int64_t turn) {
    int64_t low = 0; /* short blocks before the turn */
    int64_t high = order->short_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (order->shorts[middle].turn < turn) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    int64_t lacking = low == 0 ? 0 : order->shorts[low - 1].lacking;
    return turn * order->data->block_windows_max - lacking;
}

/* The last block that begins at or before window `inside` of the pass; of several without any
 * window the last. */
static int64_t turn_of(const struct sample_order *order, int64_t inside) {
    int64_t low = 0;
    int64_t high = order->data->block_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (windows_before(order, middle) <= inside) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t sample_order_window(struct sample_order *order, uint64_t index) {
    const struct token_data *data = order->data;
    ASSERT(index <= DATA_CURSOR_MAX && data->window_count > 0);
    uint64_t pass = index / (uint64_t)data->window_count;
    int64_t inside = (int64_t)(index % (uint64_t)data->window_count);
    if (pass != order->pass) {
        fill_table(order, pass);
    }
    int64_t turn = turn_of(order, inside);
    int64_t block = data_block_at(data, order->seed, pass, turn);
    int64_t left = inside - windows_before(order, turn); /* windows of the block to pass over */
    if (!is_short(data, block)) {
        return data_window_at(data, order->seed, pass, block, left);
    }
    for (int64_t place = 0; place < data->block_windows_max; place++) {
        int64_t window = data_window_at(data, order->seed, pass, block, place);
        if (window >= 0 && left-- == 0) {
            return window;
        }
    }
    ASSERT(false && "a block with fewer windows than it has");
    return 0;
}
