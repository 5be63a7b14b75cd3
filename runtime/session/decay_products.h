/* decay_products: the products of AdamW's decay rates over all updates of the moments, from which
 * the bias corrections follow. The rates may change from update to update.
 *
 * Updates with equal rates are counted and not multiplied one by one. Therefore, as long as the
 * rates are constant, the product is pow(rate, updates) bit by bit. */
#ifndef SKEP_SESSION_DECAY_PRODUCTS_H
#define SKEP_SESSION_DECAY_PRODUCTS_H

#include "base/check.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/settings/settings.h"

struct decay_products {
    struct number_pair rates;   /* rates of the last `updates` updates */
    struct number_pair earlier; /* product of the rates of all updates before the last `updates` */
    int64_t updates;            /* number of the last updates, all with `rates` */
};

/* decay_products_of: the products after `updates` updates with the same rates. */
struct decay_products decay_products_of(struct number_pair rates, int64_t updates);

/* decay_products_add_update: *products with one more update, with `rates`. */
struct decay_products decay_products_add_update(const struct decay_products *products,
                                                struct number_pair rates);

/* decay_products_values: the products themselves. */
struct number_pair decay_products_values(const struct decay_products *products);

enum { DECAY_PRODUCT_VALUES = 5 }; /* number of values of a snapshot that hold the products */

/* decay_products_save: the products as values of a snapshot, which keep every bit. Only a run whose
 * rates change needs them (decay_products_of).
 * decay_products_load: the products that a snapshot holds.
 * errors  false when a value is missing or impossible after `updates_max` updates; *products is
 *         then untouched */
void decay_products_save(const struct decay_products *products,
                         struct snapshot_value values[static DECAY_PRODUCT_VALUES]);
MUST_CHECK bool decay_products_load(const struct snapshot *snapshot, int64_t updates_max,
                                    struct decay_products *products);

#endif
