/* items: divides work of a known length into items for pool_run, by its shape only, so that neither
 * results nor workspaces depend on the thread count. */
#ifndef SKEP_KERNELS_ITEMS_H
#define SKEP_KERNELS_ITEMS_H

#include <stdint.h>

/* Number of elements in one item of memory-bound work. An item takes a few microseconds: long
 * enough to make the cost of dispatching it negligible, short enough for all threads to finish at
 * about the same time. */
enum { ITEM_ELEMENTS = 16384 };

/* items_count: the number of items of `per_item` elements that cover `length` elements. The last
 * item may be shorter. */
static inline int64_t items_count(int64_t length, int64_t per_item) {
    return (length + per_item - 1) / per_item;
}

/* item_length: the number of elements in the item with index `item`. */
static inline int64_t item_length(int64_t length, int64_t per_item, int64_t item) {
    int64_t left = length - item * per_item;
    return left < per_item ? left : per_item;
}

/* item_row_count: the number of rows in one item, for rows of `width` elements. */
static inline int64_t item_row_count(int64_t width) {
    return width < ITEM_ELEMENTS ? ITEM_ELEMENTS / width : 1;
}

#endif
