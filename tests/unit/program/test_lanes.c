/* Lanes side by side: the same bytes as one instruction after another, however the lanes are
 * disturbed, as long as the waits stand; waiting that sleeps; marks and addresses of a rank. */
#include "base/clock.h"
#include "base/random.h"
#include "tests/unit/program/drawn_lanes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

enum { SEEDS = 25, RUNS = 3, BYTES = DRAWN_BUFFERS * DRAWN_FLOATS * 4, DELAY_NS_MAX = 60000 };

static void sleep_ns(int64_t ns) {
    struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

/* Half of the instructions begin late, by up to DELAY_NS_MAX. */
static void disturb(void *context, uint32_t index) {
    uint32_t words[4];
    random_block(*(const uint64_t *)context, index, words);
    if (words[0] % 2 == 0) {
        sleep_ns(words[1] % DELAY_NS_MAX);
    }
}

/* RUNS times the segment, by one thread in the order in which it is listed, or by its lanes. */
static void result_of(struct drawn_lanes *drawn, bool lanes, unsigned char *result) {
    drawn_lanes_fill(drawn);
    for (int run = 0; run < RUNS; run++) {
        if (lanes) {
            program_execute_segment(&drawn->bound, SEGMENT_MICROBATCH);
        }
        for (uint32_t i = 0; !lanes && i < DRAWN_INSTRUCTIONS; i++) {
            program_execute_instruction(&drawn->bound, i);
        }
    }
    for (int buffer = 0; buffer < DRAWN_BUFFERS; buffer++) {
        memcpy(result + buffer * DRAWN_FLOATS * 4, program_extent_address(&drawn->bound, buffer),
               DRAWN_FLOATS * 4);
    }
}

static unsigned char listed[BYTES];
static unsigned char carried[BYTES];
static struct drawn_lanes drawn;

static void delays_do_not_change_what_lanes_compute(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        drawn_lanes_init(&drawn, seed);
        result_of(&drawn, false, listed);
        for (uint64_t disturbance = 0; disturbance < 3; disturbance++) {
            drawn.bound.hook = disturbance > 0 ? disturb : NULL;
            drawn.bound.hook_context = &disturbance;
            result_of(&drawn, true, carried);
            if (memcmp(listed, carried, BYTES) != 0) {
                fail_msg("seed %llu, disturbance %llu: other bytes than as listed",
                         (unsigned long long)seed, (unsigned long long)disturbance);
            }
        }
        drawn_lanes_finish(&drawn);
    }
}

/* The test above can fail: without waits, most disturbed programs go wrong. */
static void without_waits_delays_change_the_result(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it races on purpose */
#endif
    int changed = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        drawn_lanes_init(&drawn, seed);
        result_of(&drawn, false, listed);
        for (int i = 0; i < DRAWN_INSTRUCTIONS; i++) {
            memset(drawn.program.schedule.instructions[i].waits, 0,
                   sizeof drawn.program.schedule.instructions[i].waits);
        }
        drawn.bound.hook = disturb;
        drawn.bound.hook_context = &seed;
        result_of(&drawn, true, carried);
        changed += memcmp(listed, carried, BYTES) != 0;
        drawn_lanes_finish(&drawn);
    }
    assert_true(changed > SEEDS / 2);
}

/* Runs are counted in 32 bits, and 0 is what an event has that was never raised. */
static void events_are_waited_for_when_the_count_of_runs_begins_anew(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        drawn_lanes_init(&drawn, seed);
        result_of(&drawn, false, listed);
        drawn.bound.lanes.run_number = UINT32_MAX;
        drawn.bound.hook = disturb;
        drawn.bound.hook_context = &seed;
        result_of(&drawn, true, carried);
        assert_memory_equal(listed, carried, BYTES);
        drawn_lanes_finish(&drawn);
    }
}

static void marks_of_all_lanes_meet_the_plan(void **state) {
    (void)state;
    drawn_lanes_init(&drawn, 1);
    assert_int_equal(drawn.bound.high_water[SPACE_DEVICE], 0);
    program_execute_segment(&drawn.bound, SEGMENT_MICROBATCH);
    assert_int_equal(drawn.bound.high_water[SPACE_DEVICE],
                     drawn.program.plan.peak_bytes[SPACE_DEVICE]);
    drawn_lanes_finish(&drawn);
}

static void slow_collective(void *context, uint32_t index) {
    const struct drawn_lanes *of = context;
    if (of->program.schedule.instructions[index].lane == LANE_COLLECTIVE) {
        sleep_ns(4000000);
    }
}

/* Time that processors spent on this process, in the kernel too. */
static int64_t processor_ns(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    int64_t us = usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 + us * 1000;
}

/* Time of the processor over a run in which the lanes mostly wait for each other. */
static void lanes_that_wait_leave_the_processor_to_others(void **state) {
    (void)state;
    drawn_lanes_init(&drawn, 2);
    drawn.bound.hook = slow_collective;
    drawn.bound.hook_context = &drawn;
    int64_t begin = clock_monotonic_ns();
    int64_t used = processor_ns();
    program_execute_segment(&drawn.bound, SEGMENT_MICROBATCH);
    int64_t took = clock_monotonic_ns() - begin;
    int64_t busy = processor_ns() - used;
    assert_true(took > 20000000);
    assert_true(4 * busy < took);
    drawn_lanes_finish(&drawn);
}

static void operands_with_a_stride_begin_at_the_own_slot(void **state) {
    (void)state;
    drawn_lanes_init(&drawn, 3);
    const struct schedule *schedule = &drawn.program.schedule;
    const char *base = drawn.bound.base[SPACE_DEVICE];
    int copies = 0;
    int calls = 0;
    for (int i = 0; i < DRAWN_INSTRUCTIONS; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        const struct operand *first = &instruction->operands[0];
        uint64_t begin = drawn.program.plan.offsets[first->extent];
        if (instruction->op == OP_COPY) {
            assert_ptr_equal(drawn.bound.addresses[i][0],
                             base + begin + DRAWN_RANK * DRAWN_SLOT_FLOATS * 4);
            copies++;
        } else if (instruction->op == OP_REDUCE_SCATTER) {
            const struct collective_call *call = &drawn.bound.calls[i];
            assert_int_equal(call->kind, COLLECTIVE_REDUCE_SCATTER);
            assert_int_equal(call->group, AXIS_SHARD);
            assert_int_equal(call->from, begin);
            assert_int_equal(call->to, drawn.program.plan.offsets[instruction->operands[1].extent]);
            assert_int_equal(call->slot_bytes, DRAWN_SLOT_FLOATS * 4);
            calls++;
        }
    }
    assert_true(copies > 0 && calls > 0);
    assert_true(drawn.bound.shared[SPACE_DEVICE]);
    drawn_lanes_finish(&drawn);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_do_not_change_what_lanes_compute),
        cmocka_unit_test(without_waits_delays_change_the_result),
        cmocka_unit_test(events_are_waited_for_when_the_count_of_runs_begins_anew),
        cmocka_unit_test(marks_of_all_lanes_meet_the_plan),
        cmocka_unit_test(lanes_that_wait_leave_the_processor_to_others),
        cmocka_unit_test(operands_with_a_stride_begin_at_the_own_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
