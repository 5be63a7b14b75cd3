/* test_slices: every partition covers the space once, in slices that are neither too long nor too
 * few. */
#include "runtime/swarm/replica/sparse_result.h"

#include "base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct slices cut(int64_t count, enum codec codec, uint32_t members) {
    struct slices slices;
    struct fault fault;
    assert_int_equal(slices_divide(count, codec, members, &slices, &fault), OK);
    return slices;
}

static void check_cover(const struct slices *slices) {
    int64_t next = 0;
    uint64_t offset = 0;
    for (uint32_t i = 0; i < slices->count; i++) {
        struct slice_range range = slices_range(slices, i);
        assert_int_equal(range.begin, next);
        assert_int_equal(range.offset, offset);
        assert_true(range.end > range.begin);
        assert_int_equal(range.bytes, codec_bytes(slices->codec, range.end - range.begin));
        assert_true(range.bytes <= slices->bytes_max);
        next = range.end;
        offset += range.bytes;
    }
    assert_int_equal(next, slices->parameter_count);
    assert_int_equal(offset, slices->bytes);
    assert_int_equal(offset, codec_bytes(slices->codec, slices->parameter_count));
}

static void slices_cover_the_space_once(void **state) {
    (void)state;
    static const int64_t COUNTS[] = {1,      63,     64,      255,     256,      257,
                                     131071, 131073, 1300001, 9999999, 16777216, 124439808};
    static const uint32_t MEMBERS[] = {1, 3, 64};
    for (size_t c = 0; c < ARRAY_COUNT(COUNTS); c++) {
        for (int codec = 0; codec < CODEC_COUNT; codec++) {
            for (size_t m = 0; m < ARRAY_COUNT(MEMBERS); m++) {
                struct slices slices = cut(COUNTS[c], (enum codec)codec, MEMBERS[m]);
                assert_true(slices.bytes_max <= SLICE_BYTES_MAX);
                assert_int_equal(slices.elements % SLICE_GRANULE, 0);
                check_cover(&slices);
            }
        }
    }
}

static void a_large_model_has_the_longest_slices(void **state) {
    (void)state;
    /* 4017 blocks of 260 bytes are 1,044,420 bytes; 1 MiB less 4096 are 1,044,480. */
    struct slices slices = cut(124439808, CODEC_INT8, 8);
    assert_int_equal(slices.elements, 4017 * 256);
    assert_int_equal(slices.bytes_max, 1044420);
    assert_int_equal(slices.count, 122); /* 124439808 / 1028352 = 121.009 */
}

static void a_small_model_is_cut_for_all_members(void **state) {
    (void)state;
    /* 4 x 8 slices are wanted: 31250 elements each, rounded up to 123 granules. */
    struct slices slices = cut(1000000, CODEC_INT8, 8);
    assert_int_equal(slices.elements, 123 * 256);
    assert_int_equal(slices.count, 32);
    /* 16 KiB is 63 blocks of int8, so a tiny one has fewer. */
    slices = cut(100000, CODEC_INT8, 8);
    assert_int_equal(slices.elements, 63 * 256);
    assert_int_equal(slices.count, 7);
    slices = cut(10, CODEC_INT4, 8);
    assert_int_equal(slices.count, 1);
    assert_int_equal(slices.bytes_max, 2 + 5);
}

static void more_slices_than_a_swarm_has_are_refused(void **state) {
    (void)state;
    struct slices slices = {.count = 77};
    struct fault fault;
    int64_t most = (int64_t)SWARM_SLICES_MAX * 261120; /* fp32 within 1 MiB less 4096 */
    assert_int_equal(cut(most, CODEC_FP32, 64).count, SWARM_SLICES_MAX);
    assert_int_equal(slices_divide(most + 1, CODEC_FP32, 64, &slices, &fault), STATUS_INPUT);
    assert_int_equal(slices.count, 77);
    assert_string_equal(fault.subject, "swarm.codec");
}

static void check_sparse(int64_t count, struct sparse_shape shape, uint32_t members) {
    struct slices slices;
    struct fault fault;
    assert_int_equal(slices_divide_sparse(count, shape, members, &slices, &fault), OK);
    int64_t next = 0;
    uint64_t offset = 0, result_offset = 0, sent = 0;
    for (uint32_t i = 0; i < slices.count; i++) {
        const struct slice_range range = slices_range(&slices, i);
        const int64_t elements = range.end - range.begin;
        assert_int_equal(range.begin, next);
        assert_int_equal(range.offset, offset);
        assert_int_equal(range.result_offset, result_offset);
        assert_int_equal(range.bytes, sparse_bytes(shape, elements));
        assert_int_equal(range.result_bytes, sparse_result_bytes(&slices, i, members));
        assert_true(range.bytes <= slices.bytes_max && range.result_bytes <= SLICE_BYTES_MAX);
        for (int64_t at = 0; at < elements; at += SPARSE_BLOCK) {
            const int64_t left = elements - at;
            sent += (uint64_t)(left < shape.keep ? left : shape.keep);
        }
        next = range.end;
        offset += range.bytes;
        result_offset += range.result_bytes;
    }
    assert_int_equal(next, count);
    assert_int_equal(offset, slices.bytes);
    assert_int_equal(result_offset, slices_results_bytes(&slices));
    assert_int_equal(sent, slices_sent_values(&slices));
    assert_int_equal(slices.elements % SPARSE_BLOCK, 0);
}

/* A result has a contribution of each member, and fits a frame. */
static void sparse_slices_cover_the_space_once(void **state) {
    (void)state;
    static const int64_t COUNTS[] = {1, 4095, 4097, 1300001, 124439808, 1000000007};
    static const uint32_t MEMBERS[] = {1, 4, 16, 64};
    for (size_t c = 0; c < ARRAY_COUNT(COUNTS); c++) {
        for (size_t m = 0; m < ARRAY_COUNT(MEMBERS); m++) {
            for (int keep = 32; keep <= 256; keep *= 2) {
                for (int bits = 1; bits <= 4; bits *= 2) {
                    check_sparse(COUNTS[c], (struct sparse_shape){keep, bits}, MEMBERS[m]);
                }
            }
        }
    }
}

/* 64 values of two bits: 84 bytes a block. GPT-2 has 30,381 blocks. */
static void a_sparse_contribution_has_less_than_a_fifth_of_a_bit_for_each_parameter(void **state) {
    (void)state;
    static const uint32_t MEMBERS[] = {4, 16, 64};
    for (size_t m = 0; m < ARRAY_COUNT(MEMBERS); m++) {
        struct slices slices;
        struct fault fault;
        assert_int_equal(slices_divide_sparse(124439808, (struct sparse_shape){64, 2}, MEMBERS[m],
                                              &slices, &fault),
                         OK);
        assert_int_equal(slices.bytes, 30381 * 84);
        const uint64_t whole = slices.bytes + slices.count * sparse_result_head_bytes(slices.count);
        print_message("%u members: %u slices, %.4f bits a parameter with heads\n", MEMBERS[m],
                      slices.count, 8 * (double)whole / 124439808);
        assert_true(8 * (double)whole / 124439808 <= 0.172);
    }
}

static void more_sparse_slices_than_a_swarm_has_are_refused(void **state) {
    (void)state;
    struct slices slices = {.count = 77};
    struct fault fault;
    assert_int_equal(
        slices_divide_sparse((int64_t)1 << 40, (struct sparse_shape){64, 2}, 64, &slices, &fault),
        STATUS_INPUT);
    assert_int_equal(slices.count, 77);
    assert_string_equal(fault.subject, "swarm.codec");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_cover_the_space_once),
        cmocka_unit_test(a_large_model_has_the_longest_slices),
        cmocka_unit_test(a_small_model_is_cut_for_all_members),
        cmocka_unit_test(more_slices_than_a_swarm_has_are_refused),
        cmocka_unit_test(sparse_slices_cover_the_space_once),
        cmocka_unit_test(a_sparse_contribution_has_less_than_a_fifth_of_a_bit_for_each_parameter),
        cmocka_unit_test(more_sparse_slices_than_a_swarm_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
