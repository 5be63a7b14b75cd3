/* Tests of targets/port_cpu: blocks are present, zeroed, aligned, counted, and refused in words. */
#include "base/text.h"
#include "targets/machine.h"
#include "targets/port.h"
#include "targets/process.h"

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
    assert_string_equal(fault.place, "target test");
    assert_non_null(strstr(fault.reason, "pinned arena needs"));
    assert_non_null(strstr(fault.reason, text_bytes(wanted, need)));
    assert_non_null(strstr(fault.reason, "free now"));
}

static void init_refuses_a_cuda_target(void **state) {
    (void)state;
    struct port port;
    struct target cuda = {.name = "rtx", .kind = TARGET_CUDA};
    assert_int_equal(port_init(&port, &cuda, &fault), STATUS_INPUT);
    assert_string_equal(fault.place, "target rtx");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserve_makes_every_page_present_and_zero),
        cmocka_unit_test(spaces_are_reserved_and_released_on_their_own),
        cmocka_unit_test(reserve_refuses_more_than_is_free_with_need_and_have),
        cmocka_unit_test(init_refuses_a_cuda_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
