/* Tests of session/decay_products: with constant rates the products are powers, to the bit; with
 * rates that change they are the products of all rates. */
#include "runtime/session/decay_products.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { UPDATES = 20000 };

static const struct number_pair RATES[] = {{0.9, 0.95}, {0.975, 0.9975}, {0, 0.99999}};

static void constant_rates_give_powers_to_the_bit(void **state) {
    (void)state;
    for (int r = 0; r < 3; r++) {
        struct decay_products added = decay_products_of(RATES[r], 0);
        for (int i = 1; i <= UPDATES; i++) {
            added = decay_products_add(&added, RATES[r]);
            const struct decay_products resumed = decay_products_of(RATES[r], i);
            const struct number_pair values = decay_products_values(&added);
            const struct number_pair again = decay_products_values(&resumed);
            assert_true(values.first == pow(RATES[r].first, i));
            assert_true(values.second == pow(RATES[r].second, i));
            assert_true(again.first == values.first && again.second == values.second);
        }
    }
}

/* The rates change after 1, 2, 3 ... updates. */
static void changing_rates_give_the_product_of_all(void **state) {
    (void)state;
    struct decay_products products = decay_products_of(RATES[0], 0);
    long double first = 1;
    long double second = 1;
    for (int length = 1; length < 40; length++) {
        const struct number_pair rates = RATES[length % 2];
        for (int i = 0; i < length; i++) {
            products = decay_products_add(&products, rates);
            first *= (long double)rates.first;
            second *= (long double)rates.second;
            const struct number_pair values = decay_products_values(&products);
            assert_true(fabsl((long double)values.first - first) <= 1e-13L * first);
            assert_true(fabsl((long double)values.second - second) <= 1e-13L * second);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_rates_give_powers_to_the_bit),
        cmocka_unit_test(changing_rates_give_the_product_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
