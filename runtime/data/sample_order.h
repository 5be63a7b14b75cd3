/* sample_order: the samples of a swarm. Sample k is the k-th window that data_next returns; the
 * window of any index can be computed alone.
 *
 *     pass 0  | block | block |short| block |  pass 1  | ...      blocks in a keyed order
 *              0 1 2 ...       W-1   W+..
 *
 * Most blocks have the same number of windows. A table of the current pass lists the others. */
#ifndef SKEP_DATA_SAMPLE_ORDER_H
#define SKEP_DATA_SAMPLE_ORDER_H

#include "base/region.h"
#include "runtime/data/data.h"

/* A block with fewer windows than data->block_windows_max. */
struct short_data_block {
    int64_t turn;    /* its position in the order of blocks of the pass */
    int64_t missing; /* windows that it and all earlier short blocks lack */
};

struct sample_order {
    const struct token_data *data;
    uint64_t seed;
    uint64_t pass;                         /* the pass that the table describes; UINT64_MAX: none */
    struct short_data_block *short_blocks; /* [short_count], ascending by turn */
    int64_t short_count;
};

/* sample_order_init: allocates the table in `region`; nothing allocates later. */
void sample_order_init(const struct token_data *data, uint64_t seed, struct region *region,
                       struct sample_order *order);

/* sample_order_window: the window of sample `index`. The first call of each pass visits every
 * block, some 100 ns each.
 * limits  index <= DATA_CURSOR_MAX */
int64_t sample_order_window(struct sample_order *order, uint64_t index);

#endif
