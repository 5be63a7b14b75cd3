/* Tests of base/region: alignment, zeroes, lifetime, and the bug that growth after seal is. */
#include "base/region.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void alloc_gives_zeroed_aligned_pieces_that_do_not_overlap(void **state) {
    (void)state;
    static const size_t SIZES[] = {1, 7, 64, 65, 1000, 65536, 65537, 200000, 3};
    enum { ROUNDS = 20 };
    struct region region = {0};
    unsigned char *pieces[ROUNDS * ARRAY_COUNT(SIZES)];
    size_t count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < ARRAY_COUNT(SIZES); i++) {
            unsigned char *piece = region_alloc(&region, SIZES[i], 1);
            assert_int_equal((uintptr_t)piece % 64, 0);
            for (size_t b = 0; b < SIZES[i]; b++) {
                assert_int_equal(piece[b], 0);
            }
            memset(piece, (int)(count % 251) + 1, SIZES[i]);
            pieces[count++] = piece;
        }
    }
    for (size_t p = 0; p < count; p++) {
        size_t size = SIZES[p % ARRAY_COUNT(SIZES)];
        for (size_t b = 0; b < size; b++) {
            assert_int_equal(pieces[p][b], p % 251 + 1);
        }
    }
    region_finish(&region);
}

static void bytes_total_counts_what_is_held_and_finish_gives_it_back(void **state) {
    (void)state;
    struct region region = {0};
    size_t before = region.bytes_total;
    (void)region_alloc(&region, 1000000, 8);
    assert_true(region.bytes_total - before >= 8000000);
    assert_true(region.bytes_total - before < 8100000);
    size_t held = region.bytes_total;
    (void)region_alloc(&region, 1, 1 << 20);
    assert_true(region.bytes_total > held);
    region_finish(&region);
    assert_int_equal(region.bytes_total, 0);
    assert_null(region.newest);
    region_finish(&region);
    assert_string_equal(region_copy_text(&region, "again"), "again");
    region_finish(&region);
}

static void text_is_a_copy(void **state) {
    (void)state;
    struct region region = {0};
    char text[] = "original";
    const char *copy = region_copy_text(&region, text);
    text[0] = 'X';
    assert_string_equal(copy, "original");
    assert_string_equal(region_copy_text(&region, ""), "");
    region_finish(&region);
}

/* Whether `allocation` of one piece after seal ends a child by SIGABRT. */
static bool aborts_when_sealed(size_t first, size_t second) {
    pid_t child = fork();
    if (child == 0) {
        int silent = dup2(STDIN_FILENO, STDERR_FILENO);
        (void)silent;
        struct region region = {0};
        (void)region_alloc(&region, first, 1);
        process_seal();
        (void)region_alloc(&region, second, 1);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void growth_after_seal_aborts(void **state) {
    (void)state;
    assert_false(process_is_sealed());
    assert_true(aborts_when_sealed(64, 1 << 20));
    assert_false(aborts_when_sealed(64, 64)); /* what the region already holds may be dealt out */
}

static void unseal_allows_growth_again(void **state) {
    (void)state;
    struct region region = {0};
    process_seal();
    assert_true(process_is_sealed());
    process_unseal();
    assert_false(process_is_sealed());
    assert_non_null(region_alloc(&region, 1, 1));
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_gives_zeroed_aligned_pieces_that_do_not_overlap),
        cmocka_unit_test(bytes_total_counts_what_is_held_and_finish_gives_it_back),
        cmocka_unit_test(text_is_a_copy),
        cmocka_unit_test(growth_after_seal_aborts),
        cmocka_unit_test(unseal_allows_growth_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
