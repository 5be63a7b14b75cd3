/* statistics: order statistics of small arrays, without sorting or scratch memory. The cost grows
 * with the square of the count, so arrays should have at most a few hundred values. */
#ifndef SKEP_BASE_STATISTICS_H
#define SKEP_BASE_STATISTICS_H

#include <stdint.h>

/* sorted_value_X: the value that would be at `index` if the values were in ascending order.
 * limits  0 <= index < count; no NaN */
int64_t sorted_value_i64(const int64_t *values, int count, int index);
double sorted_value_f64(const double *values, int count, int index);

/* median_X: the middle value; the upper middle value if `count` is even.
 * limits  count > 0; no NaN */
int64_t median_i64(const int64_t *values, int count);
double median_f64(const double *values, int count);

#endif
