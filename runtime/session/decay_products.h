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
    struct number_pair rates;   /* decay rates that the last `updates` updates used */
    struct number_pair earlier; /* products of the decay rates of all updates before those */
    int64_t updates;            /* number of the latest updates, which all used `rates` */
};

/* decay_products_of: returns the products after `updates` updates with the same rates. */
struct decay_products decay_products_of(struct number_pair rates, int64_t updates);

/* decay_products_add_update: returns *products after one more update, whose decay rates are
 * `rates`. */
struct decay_products decay_products_add_update(const struct decay_products *products,
                                                struct number_pair rates);

/* decay_products_values: returns the two products, one for each moment, over all updates. */
struct number_pair decay_products_values(const struct decay_products *products);

enum { DECAY_PRODUCT_VALUES = 5 }; /* number of values of a snapshot that hold the products */

/* decay_products_save: stores the products, bit by bit, as values of a snapshot. Only a run whose
 * rates change needs to; otherwise decay_products_of computes the products.
 * decay_products_load: reads *products from the values of a snapshot.
 * errors  false when a value is missing or impossible after `updates_max` updates; *products is
 *         then untouched */
void decay_products_save(const struct decay_products *products,
                         struct snapshot_value values[static DECAY_PRODUCT_VALUES]);
MUST_CHECK bool decay_products_load(const struct snapshot *snapshot, int64_t updates_max,
                                    struct decay_products *products);

#endif
