/* items: how work of a known length is cut into items for pool_run: by its shape alone, so that
 * neither results nor workspaces depend on how many threads take the items. */
#ifndef SKEP_KERNELS_ITEMS_H
#define SKEP_KERNELS_ITEMS_H

#include <stdint.h>

/* Elements of one item of memory-bound work: some microseconds, long enough that dealing an item
 * costs nothing, short enough that threads end together. */
enum { ITEM_ELEMENTS = 16384 };

/* items_count: items of `per_item` that cover `length`; the last one may be shorter. */
static inline int64_t items_count(int64_t length, int64_t per_item) {
    return (length + per_item - 1) / per_item;
}

/* items_length: what is left for item `item`. */
static inline int64_t items_length(int64_t length, int64_t per_item, int64_t item) {
    int64_t left = length - item * per_item;
    return left < per_item ? left : per_item;
}

/* items_rows: rows of `width` elements that make one item. */
static inline int64_t items_rows(int64_t width) {
    return width < ITEM_ELEMENTS ? ITEM_ELEMENTS / width : 1;
}

#endif
