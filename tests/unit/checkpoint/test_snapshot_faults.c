/* A save is killed, torn, or fails at each of its file calls in turn: what is then found is the old
 * or the new state, bit for bit, and the next save cleans up. */
#include "tests/unit/checkpoint/disk_double.h"
#include "tests/unit/checkpoint/run_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CALLS_MAX = 400 };

/* Before: steps 1 and 2 are saved. Then `step` is saved under fire. */
static const struct scenario {
    int64_t step;
    int keep;
    bool can_exchange;
} SCENARIOS[] = {
    {3, 2, true},  /* a new one: step 1 goes */
    {3, 1, true},  /* the only one is replaced by another */
    {2, 2, true},  /* a resumed run repeats a step: its snapshot is exchanged */
    {2, 2, false}, /* the same where names cannot be exchanged */
};

static struct run_fixture *prepare(const struct scenario *scenario,
                                   struct snapshot_writer *writer) {
    struct run_fixture *run = run_start(scenario->keep);
    run_fixture_open(run, writer);
    assert_int_equal(run_save(run, writer, 1), OK);
    assert_int_equal(run_save(run, writer, 2), OK);
    return run;
}

static int count_calls(const struct scenario *scenario) {
    struct snapshot_writer writer;
    struct run_fixture *run = prepare(scenario, &writer);
    disk_begin(DISK_PASS, 0, scenario->can_exchange);
    assert_int_equal(run_save(run, &writer, scenario->step), OK);
    int calls = disk_end();
    run_finish(run);
    assert_in_range(calls, 20, CALLS_MAX);
    return calls;
}

/* The save in a process of its own, which is killed at call `at`. */
static void save_and_die(struct run_fixture *run, struct snapshot_writer *writer,
                         const struct scenario *scenario, enum disk_mode mode, int at) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        disk_begin(mode, at, scenario->can_exchange);
        enum status status = run_save(run, writer, scenario->step);
        _exit(status == OK ? 0 : 1);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), DISK_KILLED);
}

static void assert_old_or_new(struct run_fixture *run, const struct scenario *scenario, int at) {
    int64_t newest = run_newest(run);
    if (newest != 2 && newest != scenario->step) {
        fail_msg("call %d: newest is %lld", at, (long long)newest);
    }
}

static void assert_goes_on(struct run_fixture *run, struct snapshot_writer *writer) {
    assert_int_equal(run_save(run, writer, 7), OK);
    assert_int_equal(run_newest(run), 7);
    assert_int_equal(run_save(run, writer, 8), OK);
    assert_string_equal(run_steps(run), run->args.keep == 1 ? "8" : "7 8");
}

static void kill_everywhere(enum disk_mode mode) {
    for (size_t s = 0; s < ARRAY_COUNT(SCENARIOS); s++) {
        const struct scenario *scenario = &SCENARIOS[s];
        int calls = count_calls(scenario);
        for (int at = 1; at <= calls; at++) {
            struct snapshot_writer writer;
            struct run_fixture *run = prepare(scenario, &writer);
            save_and_die(run, &writer, scenario, mode, at);
            assert_old_or_new(run, scenario, at);
            run_fixture_open(run, &writer);
            assert_old_or_new(run, scenario, at);
            assert_goes_on(run, &writer);
            run_finish(run);
        }
    }
}

static void old_or_new_state_is_found_after_a_kill_at_any_call(void **state) {
    (void)state;
    kill_everywhere(DISK_KILL);
}

static void old_or_new_state_is_found_after_a_torn_write(void **state) {
    (void)state;
    kill_everywhere(DISK_TEAR);
}

/* The process survives: the save returns the fault, and the same writer can save later. */
static void old_or_new_state_is_found_after_an_error_at_any_call(void **state) {
    (void)state;
    for (size_t s = 0; s < ARRAY_COUNT(SCENARIOS); s++) {
        const struct scenario *scenario = &SCENARIOS[s];
        int calls = count_calls(scenario);
        for (int at = 1; at <= calls; at++) {
            struct snapshot_writer writer;
            struct run_fixture *run = prepare(scenario, &writer);
            memset(&run->fault, 0, sizeof run->fault);
            disk_begin(DISK_ERROR, at, scenario->can_exchange);
            enum status status = run_save(run, &writer, scenario->step);
            disk_end();
            if (status != OK) {
                assert_int_equal(run->fault.status, status);
                assert_true(run->fault.subject[0] != '\0' && run->fault.reason[0] != '\0');
            } else {
                assert_int_equal(run_newest(run), scenario->step);
            }
            assert_old_or_new(run, scenario, at);
            assert_goes_on(run, &writer);
            run_fixture_open(run, &writer); /* clears what the error kept from being cleared */
            run_finish(run);
        }
    }
}

static void nothing_is_put_in_place_or_removed_before_its_time(void **state) {
    (void)state;
    for (size_t s = 0; s < ARRAY_COUNT(SCENARIOS); s++) {
        const struct scenario *scenario = &SCENARIOS[s];
        struct snapshot_writer writer;
        struct run_fixture *run = prepare(scenario, &writer);
        disk_begin(DISK_PASS, 0, scenario->can_exchange);
        assert_int_equal(run_save(run, &writer, scenario->step), OK);
        disk_end();
        assert_int_equal(disk_violations(), 0);
        run_finish(run);
    }
}

static void saving_allocates_nothing(void **state) {
    (void)state;
    struct snapshot_writer writer;
    struct run_fixture *run = prepare(&SCENARIOS[0], &writer);
    disk_begin(DISK_PASS, 0, true);
    enum status status = run_save(run, &writer, 3);
    int allocations = disk_allocations();
    disk_end();
    assert_int_equal(status, OK);
    assert_int_equal(allocations, 0);
    run_finish(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_or_new_state_is_found_after_a_kill_at_any_call),
        cmocka_unit_test(old_or_new_state_is_found_after_a_torn_write),
        cmocka_unit_test(old_or_new_state_is_found_after_an_error_at_any_call),
        cmocka_unit_test(nothing_is_put_in_place_or_removed_before_its_time),
        cmocka_unit_test(saving_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
