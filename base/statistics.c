#include "base/statistics.h"

#include "base/check.h"

int64_t sorted_value_i64(const int64_t *values, int count, int index) {
    ASSERT(index >= 0 && index < count);
    for (int i = 0;; i++) {
        int below = 0;
        int equal = 0;
        ASSERT(i < count);
        for (int k = 0; k < count; k++) {
            below += values[k] < values[i];
            equal += values[k] == values[i];
        }
        if (index >= below && index < below + equal) {
            return values[i];
        }
    }
}

double sorted_value_f64(const double *values, int count, int index) {
    ASSERT(index >= 0 && index < count);
    for (int i = 0;; i++) {
        int below = 0;
        int not_above = 0;
        ASSERT(i < count); /* fails if a value is NaN */
        for (int k = 0; k < count; k++) {
            below += values[k] < values[i];
            not_above += values[k] <= values[i];
        }
        if (index >= below && index < not_above) {
            return values[i];
        }
    }
}

int64_t median_i64(const int64_t *values, int count) {
    return sorted_value_i64(values, count, count / 2);
}

double median_f64(const double *values, int count) {
    return sorted_value_f64(values, count, count / 2);
}
