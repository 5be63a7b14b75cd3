#include "kernels/cpu/partials.h"

#include "kernels/items.h"

enum { COLUMNS_PER_ITEM = 256 }; /* columns that one item sums */

struct partials_call {
    int64_t count, columns; /* number of chunks of rows; elements of a row */
    const float *partials;  /* [count, columns] sum of each chunk */
    float *sums;            /* [columns] to which the partial sums are added */
};

int64_t partials_count(int64_t rows) {
    return items_count(rows, PARTIAL_ROWS);
}

uint64_t partials_bytes(int64_t rows, int64_t columns) {
    return (uint64_t)(partials_count(rows) * columns) * sizeof(float);
}

static void add_column_partials(void *context, int64_t item, int thread) {
    (void)thread;
    const struct partials_call *call = context;
    int64_t first = item * COLUMNS_PER_ITEM;
    int64_t width = item_length(call->columns, COLUMNS_PER_ITEM, item);
    double totals[COLUMNS_PER_ITEM] = {0};
    for (int64_t chunk = 0; chunk < call->count; chunk++) {
        const float *row = call->partials + chunk * call->columns + first;
        for (int64_t i = 0; i < width; i++) {
            totals[i] += (double)row[i];
        }
    }
    for (int64_t i = 0; i < width; i++) {
        call->sums[first + i] = (float)((double)call->sums[first + i] + totals[i]);
    }
}

void partials_add(const struct compute *compute, int64_t count, int64_t columns,
                  const float *partials, float *sums) {
    struct partials_call call = {count, columns, partials, sums};
    pool_run(compute->pool, add_column_partials, &call, items_count(columns, COLUMNS_PER_ITEM));
}
