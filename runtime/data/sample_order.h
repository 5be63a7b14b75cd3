/* sample_order: the samples of a swarm: sample k is the k-th window that data_next gives, so that
 * every sample is a window and any can be found alone.
 *
 *     pass 0  | block | block |short| block |  pass 1  | ...      blocks in a keyed order
 *              0 1 2 ...       W-1   W+..
 *
 * Most blocks have equally many windows; those that have fewer are known by a table of the pass. */
#ifndef SKEP_DATA_SAMPLE_ORDER_H
#define SKEP_DATA_SAMPLE_ORDER_H

#include "base/region.h"
#include "runtime/data/data.h"

/* A block with fewer windows than the fullest. */
struct short_data_block {
    int64_t turn;    /* in the pass */
    int64_t lacking; /* windows, of it and all before it */
};

struct sample_order {
    const struct token_data *data;
    uint64_t seed;
    uint64_t pass;                   /* that the table is of; UINT64_MAX: of none yet */
    struct short_data_block *shorts; /* [short_count], ascending */
    int64_t short_count;
};

/* sample_order_init: memory for the table in `region`; nothing allocates later. */
void sample_order_init(const struct token_data *data, uint64_t seed, struct region *region,
                       struct sample_order *order);

/* sample_order_window: the window that is sample `index`. In each new pass every block is looked at
 * once: some 100 ns each.
 * limits  index <= DATA_CURSOR_MAX */
int64_t sample_order_window(struct sample_order *order, uint64_t index);

#endif
