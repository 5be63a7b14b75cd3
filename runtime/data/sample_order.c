#include "runtime/data/sample_order.h"

#include <stdbool.h>

static bool is_short_block(const struct token_data *data, int64_t block) {
    return data_block_window_count(data, block) < data->block_windows_max;
}

void sample_order_init(const struct token_data *data, uint64_t seed, struct region *region,
                       struct sample_order *order) {
    int64_t count = 0;
    for (int64_t block = 0; block < data->block_count; block++) {
        count += is_short_block(data, block);
    }
    *order = (struct sample_order){
        .data = data,
        .seed = seed,
        .pass = UINT64_MAX,
        .short_blocks = region_alloc(region, (size_t)count + 1, sizeof(struct short_data_block)),
        .short_count = count};
}

static void list_short_blocks(struct sample_order *order, uint64_t pass) {
    const struct token_data *data = order->data;
    int64_t missing_windows = 0;
    int64_t count = 0;
    for (int64_t block_position = 0; block_position < data->block_count; block_position++) {
        int64_t block = data_block_at(data, order->seed, pass, block_position);
        if (is_short_block(data, block)) {
            missing_windows += data->block_windows_max - data_block_window_count(data, block);
            order->short_blocks[count++] =
                (struct short_data_block){block_position, missing_windows};
        }
    }
    ASSERT(count == order->short_count);
    order->pass = pass;
}

/* Returns the number of windows in the blocks of the pass before `block_position`. */
static int64_t count_windows_before(const struct sample_order *order, int64_t block_position) {
    int64_t low = 0; /* Number of short blocks before `block_position`. */
    int64_t high = order->short_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (order->short_blocks[middle].block_position < block_position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    int64_t missing_windows = low == 0 ? 0 : order->short_blocks[low - 1].missing_windows;
    return block_position * order->data->block_windows_max - missing_windows;
}

/* Returns the position of the block that contains window `pass_window` of the pass: the last block
 * that begins at or before the window. */
static int64_t find_block_position(const struct sample_order *order, int64_t pass_window) {
    int64_t low = 0;
    int64_t high = order->data->block_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (count_windows_before(order, middle) <= pass_window) {
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
    int64_t pass_window = (int64_t)(index % (uint64_t)data->window_count);
    if (pass != order->pass) {
        list_short_blocks(order, pass);
    }
    int64_t block_position = find_block_position(order, pass_window);
    int64_t block = data_block_at(data, order->seed, pass, block_position);
    int64_t skip =
        pass_window -
        count_windows_before(order,
                             block_position); /* Number of the block's windows before the sample. */
    if (!is_short_block(data, block)) {
        return data_window_at(data, order->seed, pass, block, skip);
    }
    for (int64_t place = 0; place < data->block_windows_max; place++) {
        int64_t window = data_window_at(data, order->seed, pass, block, place);
        if (window >= 0 && skip-- == 0) {
            return window;
        }
    }
    ASSERT(false && "the block contains the sample's window");
    return 0;
}
