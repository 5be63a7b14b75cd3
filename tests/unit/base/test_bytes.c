/* test_bytes: rounding at its edges, and parts of a block that neither overlap nor leave gaps. */
#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void rounding_goes_up_to_the_next_multiple(void **state) {
    (void)state;
    assert_int_equal(div_ceil(0, 7), 0);
    assert_int_equal(div_ceil(1, 7), 1);
    assert_int_equal(div_ceil(7, 7), 1);
    assert_int_equal(div_ceil(8, 7), 2);
    assert_int_equal(round_up(0, 7), 0);
    assert_int_equal(round_up(8, 7), 14);
    assert_int_equal(align_up(0, 64), 0);
    assert_int_equal(align_up(1, 64), 64);
    assert_int_equal(align_up(64, 64), 64);
    assert_int_equal(align_up(65, 64), 128);
}

static void bounds_keep_their_sign(void **state) {
    (void)state;
    assert_true(min_i64(-1, 1) == -1 && max_i64(-1, 1) == 1);
    assert_true(min_u64(UINT64_MAX, 1) == 1 && max_u64(UINT64_MAX, 1) == UINT64_MAX);
}

static void parts_follow_each_other_aligned(void **state) {
    (void)state;
    _Alignas(CARVE_ALIGN) char block[256];
    char *next = block;
    assert_ptr_equal(carve(&next, 65), block);
    assert_ptr_equal(carve(&next, 0), block + 128);
    assert_ptr_equal(carve(&next, 64), block + 128);
    assert_ptr_equal(next, block + 192);
    assert_int_equal(carve_padded_bytes(65) + carve_padded_bytes(0) + carve_padded_bytes(64), 192);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_goes_up_to_the_next_multiple),
        cmocka_unit_test(bounds_keep_their_sign),
        cmocka_unit_test(parts_follow_each_other_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
