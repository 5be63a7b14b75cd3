/* Tests of targets/port_cpu: blocks are present, zeroed, aligned, counted, and refused in words. */
#include "base/text.h"
#include "build_config.h"
#include "targets/os/machine.h"
#include "targets/os/process.h"
#include "targets/ports/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const struct target TARGET = {.name = "test", .kind = TARGET_CPU, .unified = true};

static struct fault fault;

static struct process_memory memory_now(void) {
    struct process_memory memory;
    assert_true(process_memory_read(&memory));
    return memory;
}

static void reserve_makes_every_page_present_and_zero(void **state) {
    (void)state;
    static const uint64_t SIZES[] = {1, 4096, 5000, 2 << 20, (33 << 20) + 7};
    for (size_t i = 0; i < ARRAY_COUNT(SIZES); i++) {
        struct port port;
        void *address = NULL;
        assert_int_equal(port_init(&port, &TARGET, &fault), OK);
        uint64_t before = memory_now().anonymous_bytes;
        assert_int_equal(port_reserve(&port, SPACE_DEVICE, SIZES[i], &address, &fault), OK);
        uint64_t grown = memory_now().anonymous_bytes - before;
        /* The kernel counts resident pages in batches per CPU: allow 1 MiB either way. */
        assert_true(grown + (1 << 20) >= SIZES[i] && grown <= SIZES[i] + (3 << 20));
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        uint64_t align = SIZES[i] >= 2 << 20 ? 2 << 20 : page;
        assert_int_equal((uintptr_t)address % align, 0);
        static unsigned char present[16384];
        uint64_t pages = (SIZES[i] + page - 1) / page;
        assert_true(pages <= sizeof present);
        assert_int_equal(mincore(address, pages * page, present), 0);
        for (uint64_t p = 0; p < pages; p++) {
            assert_true(present[p] & 1);
        }
        for (uint64_t b = 0; b < SIZES[i]; b += 61) {
            assert_int_equal(((unsigned char *)address)[b], 0);
        }
        memset(address, 0xff, SIZES[i]);
        port_finish(&port);
        assert_null(port.blocks[SPACE_DEVICE].address);
    }
}

static void spaces_are_reserved_and_released_on_their_own(void **state) {
    (void)state;
    struct port port;
    void *device = NULL;
    void *host = NULL;
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    assert_int_equal(port_reserve(&port, SPACE_DEVICE, 1 << 20, &device, &fault), OK);
    assert_int_equal(port_reserve(&port, SPACE_HOST, 1 << 20, &host, &fault), OK);
    memset(device, 1, 1 << 20);
    memset(host, 2, 1 << 20);
    port_release(&port, SPACE_HOST);
    assert_int_equal(((unsigned char *)device)[(1 << 20) - 1], 1);
    assert_int_equal(port_reserve(&port, SPACE_HOST, 4096, &host, &fault), OK);
    port_finish(&port);
}

static void reserve_refuses_more_than_is_free_with_need_and_have(void **state) {
    (void)state;
    struct machine machine;
    struct port port;
    void *address = &port;
    machine_read("", &machine);
    uint64_t wanted = machine.memory_total_bytes + ((uint64_t)1 << 30);
    char need[24];
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    uint64_t before = memory_now().anonymous_bytes;
    assert_int_equal(port_reserve(&port, SPACE_PINNED, wanted, &address, &fault), STATUS_FIT);
    assert_ptr_equal(address, &port);
    assert_null(port.blocks[SPACE_PINNED].address);
    assert_true(memory_now().anonymous_bytes < before + (2 << 20));
    assert_string_equal(fault.subject, "target test");
    assert_non_null(strstr(fault.reason, "pinned arena needs"));
    assert_non_null(strstr(fault.reason, text_format_bytes(wanted, need)));
    assert_non_null(strstr(fault.reason, "free now"));
}

static void a_cuda_target_is_refused_where_there_is_none(void **state) {
    (void)state;
    struct port port;
    struct target cuda = {.name = "rtx", .kind = TARGET_CUDA};
    enum status status = port_init(&port, &cuda, &fault);
    if (status == OK) {
        port_finish(&port);
        skip(); /* there is one */
    }
    assert_int_equal(status, STATUS_INPUT);
    assert_string_equal(fault.subject, SKEP_CUDA ? "libcuda.so.1" : "target rtx");
}

/* What another process sees through /proc/PID/fd/FD. */
static unsigned char *map_as_peer(int fd, uint64_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    int opened = open(path, O_RDWR | O_CLOEXEC);
    assert_true(opened >= 0);
    unsigned char *peer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    assert_ptr_not_equal(peer, MAP_FAILED);
    close(opened);
    return peer;
}

static void shared_blocks_are_zero_aligned_present_and_the_peers_too(void **state) {
    (void)state;
    static const uint64_t SIZES[] = {1, 5000, 2 << 20, (33 << 20) + 7};
    for (size_t i = 0; i < ARRAY_COUNT(SIZES); i++) {
        struct port port;
        void *address = NULL;
        int fd = -1;
        assert_int_equal(port_init(&port, &TARGET, &fault), OK);
        assert_int_equal(port_reserve_shared(&port, SPACE_DEVICE, SIZES[i], &address, &fd, &fault),
                         OK);
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        uint64_t align = SIZES[i] >= 2 << 20 ? 2 << 20 : page;
        assert_int_equal((uintptr_t)address % align, 0);
        static unsigned char present[16384];
        uint64_t pages = (SIZES[i] + page - 1) / page;
        assert_int_equal(mincore(address, pages * page, present), 0);
        for (uint64_t p = 0; p < pages; p++) {
            assert_true(present[p] & 1);
        }
        unsigned char *own = address;
        unsigned char *peer = map_as_peer(fd, SIZES[i]);
        for (uint64_t b = 0; b < SIZES[i]; b += 61) {
            assert_int_equal(peer[b], 0);
            own[b] = (unsigned char)(b % 251);
        }
        peer[SIZES[i] - 1] = 77;
        for (uint64_t b = 0; b + 1 < SIZES[i]; b += 61) {
            assert_int_equal(peer[b], b % 251);
        }
        assert_int_equal(own[SIZES[i] - 1], 77);
        munmap(peer, SIZES[i]);
        port_finish(&port);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
    }
}

/* Of a hole only the pages at its ends may be there. */
static void expect_holes(const unsigned char *present, uint64_t bytes,
                         const struct unused_range *unused, int count) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint64_t begin = 0; begin < bytes; begin += page) {
        bool left_out = false;
        for (int i = 0; i < count; i++) {
            left_out = left_out || (unused[i].begin <= begin && begin + page <= unused[i].end);
        }
        if ((present[begin / page] & 1) == left_out) {
            fail_msg("the page at %llu is %s", (unsigned long long)begin,
                     left_out ? "there" : "missing");
        }
    }
}

static void what_is_left_out_has_no_pages(void **state) {
    (void)state;
    enum { BYTES = (9 << 20) + 7 };
    static const struct unused_range UNUSED[] = {{5 << 20, (9 << 20) + 7},
                                                 {4097, (3 << 20) + 4095},
                                                 {4 << 20, 5 << 20},
                                                 {(3 << 20) + 8192, (3 << 20) + 8200}};
    for (int count = 0; count <= (int)ARRAY_COUNT(UNUSED); count++) {
        static unsigned char present[4096];
        struct port port;
        void *address = NULL;
        int fd = -1;
        assert_int_equal(port_init(&port, &TARGET, &fault), OK);
        port_set_unused_ranges(&port, SPACE_DEVICE, UNUSED, count);
        assert_int_equal(port_reserve_shared(&port, SPACE_DEVICE, BYTES, &address, &fd, &fault),
                         OK);
        assert_int_equal(mincore(address, BYTES, present), 0);
        expect_holes(present, BYTES, UNUSED, count);
        memset(address, 0xff, BYTES); /* who touches it all the same gets pages */
        port_finish(&port);
    }
}

static void nobody_can_take_a_shared_block_away(void **state) {
    (void)state;
    struct port port;
    void *address = NULL;
    int fd = -1;
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    assert_int_equal(port_reserve_shared(&port, SPACE_DEVICE, 3 << 20, &address, &fd, &fault), OK);
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 4 << 20), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    memset(address, 1, 3 << 20);
    port_finish(&port);
}

static void a_shared_block_that_does_not_fit_is_refused_and_closed(void **state) {
    (void)state;
    struct machine machine;
    struct port port;
    void *address = &port;
    int fd = -7;
    machine_read("", &machine);
    uint64_t wanted = machine.memory_total_bytes + ((uint64_t)1 << 30);
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    assert_int_equal(port_reserve_shared(&port, SPACE_DEVICE, wanted, &address, &fd, &fault),
                     STATUS_FIT);
    assert_ptr_equal(address, &port);
    assert_int_equal(fd, -7);
    assert_null(port.blocks[SPACE_DEVICE].address);
    assert_non_null(strstr(fault.reason, "device arena needs"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserve_makes_every_page_present_and_zero),
        cmocka_unit_test(spaces_are_reserved_and_released_on_their_own),
        cmocka_unit_test(reserve_refuses_more_than_is_free_with_need_and_have),
        cmocka_unit_test(shared_blocks_are_zero_aligned_present_and_the_peers_too),
        cmocka_unit_test(what_is_left_out_has_no_pages),
        cmocka_unit_test(nobody_can_take_a_shared_block_away),
        cmocka_unit_test(a_shared_block_that_does_not_fit_is_refused_and_closed),
        cmocka_unit_test(a_cuda_target_is_refused_where_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
