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
        .short_blocks = region_alloc(region, (size_t)count + 1, sizeof(struct short_data_block)),
        .short_count = count};
}

static void fill_table(struct sample_order *order, uint64_t pass) {
    const struct token_data *data = order->data;
    int64_t missing = 0;
    int64_t count = 0;
    for (int64_t turn = 0; turn < data->block_count; turn++) {
        int64_t block = data_block_at(data, order->seed, pass, turn);
        if (is_short(data, block)) {
            missing += data->block_windows_max - data_block_windows(data, block);
            order->short_blocks[count++] = (struct short_data_block){turn, missing};
        }
    }
    ASSERT(count == order->short_count);
    order->pass = pass;
}

/* The number of windows of the pass in blocks before `turn`. */
static int64_t windows_before(const struct sample_order *order, int64_t turn) {
    int64_t low = 0; /* short blocks before `turn` */
    int64_t high = order->short_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (order->short_blocks[middle].turn < turn) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    int64_t missing = low == 0 ? 0 : order->short_blocks[low - 1].missing;
    return turn * order->data->block_windows_max - missing;
}

/* The turn of the block with window `inside` of the pass: the last that begins at or before it. */
static int64_t find_turn(const struct sample_order *order, int64_t inside) {
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
    int64_t turn = find_turn(order, inside);
    int64_t block = data_block_at(data, order->seed, pass, turn);
    int64_t skip =
        inside - windows_before(order, turn); /* windows of the block before the sample */
    if (!is_short(data, block)) {
        return data_window_at(data, order->seed, pass, block, skip);
    }
    for (int64_t place = 0; place < data->block_windows_max; place++) {
        int64_t window = data_window_at(data, order->seed, pass, block, place);
        if (window >= 0 && skip-- == 0) {
            return window;
        }
    }
    ASSERT(false && "the block has the window");
    return 0;
}
