#include "runtime/session/decay_products.h"

#include <math.h>
#include <string.h>

struct decay_products decay_products_of(struct number_pair rates, int64_t updates) {
    ASSERT(updates >= 0);
    return (struct decay_products){.rates = rates, .earlier = {1, 1}, .updates = updates};
}

struct decay_products decay_products_add_update(const struct decay_products *products,
                                                struct number_pair rates) {
    struct decay_products next = *products;
    /* with 0 updates, next.rates has not been used, so other rates need no new product */
    if (next.updates > 0 &&
        (next.rates.first != rates.first || next.rates.second != rates.second)) {
        next.earlier = decay_products_values(products);
        next.updates = 0;
    }
    next.rates = rates;
    next.updates++;
    return next;
}

struct number_pair decay_products_values(const struct decay_products *products) {
    double count = (double)products->updates;
    return (struct number_pair){products->earlier.first * pow(products->rates.first, count),
                                products->earlier.second * pow(products->rates.second, count)};
}

/* ---- in snapshots ---- */

/* Names of the values in a snapshot that hold the products. An fp64 number is stored as its bits,
 * because the values of a snapshot are integers. */
static const char *const NAMES[DECAY_PRODUCT_VALUES] = {
    "beta1_bits", "beta2_bits", "beta1_product_bits", "beta2_product_bits", "equal_updates"};

static uint64_t bits_from_double(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static double double_from_bits(uint64_t bits) {
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

void decay_products_save(const struct decay_products *products,
                         struct snapshot_value values[static DECAY_PRODUCT_VALUES]) {
    const uint64_t saved[DECAY_PRODUCT_VALUES] = {
        bits_from_double(products->rates.first), bits_from_double(products->rates.second),
        bits_from_double(products->earlier.first), bits_from_double(products->earlier.second),
        (uint64_t)products->updates};
    for (int i = 0; i < DECAY_PRODUCT_VALUES; i++) {
        values[i] = (struct snapshot_value){.value = saved[i]};
        memcpy(values[i].name, NAMES[i], strlen(NAMES[i]));
    }
}

bool decay_products_load(const struct snapshot *snapshot, int64_t updates_max,
                         struct decay_products *products) {
    uint64_t saved[DECAY_PRODUCT_VALUES];
    for (int i = 0; i < DECAY_PRODUCT_VALUES; i++) {
        if (!snapshot_find_value(snapshot, NAMES[i], &saved[i])) {
            return false;
        }
    }
    const struct decay_products loaded = {
        .rates = {double_from_bits(saved[0]), double_from_bits(saved[1])},
        .earlier = {double_from_bits(saved[2]), double_from_bits(saved[3])},
        .updates = (int64_t)saved[4]};
    /* false for NaN */
    const bool are_possible = loaded.rates.first >= 0 && loaded.rates.first < 1 &&
                              loaded.rates.second >= 0 && loaded.rates.second < 1 &&
                              loaded.earlier.first >= 0 && loaded.earlier.first <= 1 &&
                              loaded.earlier.second >= 0 && loaded.earlier.second <= 1 &&
                              loaded.updates >= 0 && loaded.updates <= updates_max;
    if (are_possible) {
        *products = loaded;
    }
    return are_possible;
}
