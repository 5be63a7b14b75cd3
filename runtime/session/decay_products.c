#include "runtime/session/decay_products.h"

#include "base/check.h"

#include <math.h>

struct decay_products decay_products_of(struct number_pair rates, int64_t updates) {
    ASSERT(updates >= 0);
    return (struct decay_products){.rates = rates, .earlier = {1, 1}, .updates = updates};
}

struct decay_products decay_products_add(const struct decay_products *products,
                                         struct number_pair rates) {
    struct decay_products next = *products;
    /* without updates the rates do not matter, and comparing them would only lose exactness */
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
