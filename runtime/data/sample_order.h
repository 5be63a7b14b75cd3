/* sample_order: the samples of a swarm. Sample k is the k-th window that data_next_window returns.
 * The window of any sample can be computed without the windows before.
 *
 *     pass 0  | block | block |short| block |  pass 1  | ...      blocks in a keyed order
 *              0 1 2 ...       W-1   W+..
 *
 * Most blocks have the same number of windows. A table lists the shorter blocks of the current
 * pass. */
#ifndef SKEP_DATA_SAMPLE_ORDER_H
#define SKEP_DATA_SAMPLE_ORDER_H

#include "base/region.h"
#include "runtime/data/data.h"

/* A block with fewer windows than data->block_windows_max. */
struct short_data_block {
    /* Position of the block in the order in which the pass visits blocks. */
    int64_t block_position;
    /* Number of windows that this block and all earlier short blocks lack in total. */
    int64_t missing_windows;
};

struct sample_order {
    const struct token_data *data;
    uint64_t seed; /* seed of the shuffling of blocks and windows */
    uint64_t pass; /* Pass that `short_blocks` describes; UINT64_MAX: none yet. */
    /* [short_count], in ascending order of block_position. */
    struct short_data_block *short_blocks;
    int64_t short_count; /* number of entries in `short_blocks` */
};

/* sample_order_init: initialize a sample order, and allocate its table in `region`. Calls of
 * sample_order_window allocate nothing. */
void sample_order_init(const struct token_data *data, uint64_t seed, struct region *region,
                       struct sample_order *order);

/* sample_order_window: return the window of sample `index`. The first call in each pass takes about
 * 100 ns for each block of the data.
 * limits  index <= DATA_CURSOR_MAX */
int64_t sample_order_window(struct sample_order *order, uint64_t index);

#endif
