/* Tests of session/decay_products: with constant rates the products are powers, to the bit; with
 * rates that change they are the products of all rates; snapshots keep every bit. */
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
            added = decay_products_add_update(&added, RATES[r]);
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
            products = decay_products_add_update(&products, rates);
            first *= (long double)rates.first;
            second *= (long double)rates.second;
            const struct number_pair values = decay_products_values(&products);
            assert_true(fabsl((long double)values.first - first) <= 1e-13L * first);
            assert_true(fabsl((long double)values.second - second) <= 1e-13L * second);
        }
    }
}

/* A snapshot with the saved products of an update. */
static struct snapshot snapshot_of(const struct decay_products *products) {
    struct snapshot snapshot = {.value_count = DECAY_PRODUCT_VALUES};
    decay_products_save(products, snapshot.values);
    return snapshot;
}

/* Resumed products give the same bits in all later updates, whenever the run was interrupted. */
static void saved_products_continue_to_the_bit(void **state) {
    (void)state;
    struct decay_products products = decay_products_of(RATES[0], 0);
    struct decay_products resumed = products;
    for (int i = 0; i < 2000; i++) {
        const struct number_pair rates = RATES[i / 7 % 2];
        const struct snapshot snapshot = snapshot_of(&resumed);
        struct decay_products loaded = {.updates = -1};
        assert_true(decay_products_load(&snapshot, i, &loaded));
        products = decay_products_add_update(&products, rates);
        resumed = decay_products_add_update(&loaded, rates);
        const struct number_pair values = decay_products_values(&products);
        const struct number_pair again = decay_products_values(&resumed);
        assert_true(again.first == values.first && again.second == values.second);
    }
}

static void impossible_products_are_not_loaded(void **state) {
    (void)state;
    const struct decay_products good = {.rates = {0.9, 0.99}, .earlier = {0.5, 0.25}, .updates = 3};
    const struct decay_products BAD[] = {
        {.rates = {1, 0.99}, .earlier = {0.5, 0.25}, .updates = 3},
        {.rates = {0.9, -0.1}, .earlier = {0.5, 0.25}, .updates = 3},
        {.rates = {0.9, 0.99}, .earlier = {1.5, 0.25}, .updates = 3},
        {.rates = {0.9, 0.99}, .earlier = {0.5, (double)NAN}, .updates = 3},
        {.rates = {0.9, 0.99}, .earlier = {0.5, 0.25}, .updates = 4},
        {.rates = {0.9, 0.99}, .earlier = {0.5, 0.25}, .updates = -1},
    };
    struct snapshot snapshot = snapshot_of(&good);
    struct decay_products loaded;
    assert_true(decay_products_load(&snapshot, 3, &loaded));
    loaded.updates = 77;
    snapshot.value_count--;
    assert_false(decay_products_load(&snapshot, 3, &loaded));
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        snapshot = snapshot_of(&BAD[i]);
        assert_false(decay_products_load(&snapshot, 3, &loaded));
        assert_int_equal(loaded.updates, 77);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_rates_give_powers_to_the_bit),
        cmocka_unit_test(changing_rates_give_the_product_of_all),
        cmocka_unit_test(saved_products_continue_to_the_bit),
        cmocka_unit_test(impossible_products_are_not_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
