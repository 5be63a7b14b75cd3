/* Blocks of memory: where they begin, what they share, what is refused. */
#include "targets/os/mapping.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const uint64_t SIZES[] = {1,
                                 4096,
                                 4097,
                                 MAPPING_HUGE_BYTES - 1,
                                 MAPPING_HUGE_BYTES,
                                 MAPPING_HUGE_BYTES + 1,
                                 3 * MAPPING_HUGE_BYTES};

enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0], READ_WRITE = PROT_READ | PROT_WRITE };

static void blocks_are_zero_and_large_ones_begin_on_a_huge_page(void **state) {
    (void)state;
    for (int i = 0; i < 2 * SIZE_COUNT; i++) {
        uint64_t bytes = SIZES[i / 2];
        void *address = NULL;
        int fd = -1;
        if (i % 2 == 1) {
            assert_int_equal(mapping_make_file("test", bytes, &fd), 0);
        }
        assert_int_equal(mapping_map(fd, bytes, READ_WRITE, &address), 0);
        uint64_t align = bytes < MAPPING_HUGE_BYTES ? 4096 : MAPPING_HUGE_BYTES;
        assert_int_equal((uintptr_t)address % align, 0);
        unsigned char *block = address;
        assert_int_equal(block[0] | block[bytes - 1], 0);
        block[0] = 1;
        block[bytes - 1] = 2;
        assert_int_equal(munmap(address, bytes), 0);
        if (fd >= 0) {
            close(fd);
        }
    }
}

static void what_one_mapping_writes_another_reads(void **state) {
    (void)state;
    int fd = -1;
    unsigned char *writer = NULL;
    unsigned char *reader = NULL;
    assert_int_equal(mapping_make_file("test", 10000, &fd), 0);
    assert_int_equal(mapping_map(fd, 10000, READ_WRITE, (void **)&writer), 0);
    assert_int_equal(mapping_map(fd, 10000, PROT_READ, (void **)&reader), 0);
    assert_ptr_not_equal(writer, reader);
    memset(writer, 7, 10000);
    close(fd);
    assert_int_equal(reader[0], 7);
    assert_int_equal(reader[9999], 7);
    munmap(writer, 10000);
    munmap(reader, 10000);
}

static void a_files_length_is_final(void **state) {
    (void)state;
    int fd = -1;
    assert_int_equal(mapping_make_file("test", 8192, &fd), 0);
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 16384), -1);
    assert_int_equal(errno, EPERM);
    close(fd);
}

static void what_cannot_be_mapped_is_told_and_leaves_the_address_untouched(void **state) {
    (void)state;
    void *address = &address;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(mapping_map(ends[0], 4096, PROT_READ, &address), ENODEV);
    assert_int_equal(mapping_map(-1, (uint64_t)1 << 60, PROT_READ, &address), ENOMEM);
    assert_ptr_equal(address, &address);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zero_and_large_ones_begin_on_a_huge_page),
        cmocka_unit_test(what_one_mapping_writes_another_reads),
        cmocka_unit_test(a_files_length_is_final),
        cmocka_unit_test(what_cannot_be_mapped_is_told_and_leaves_the_address_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
