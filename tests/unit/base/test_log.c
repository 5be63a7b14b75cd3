/* Tests of base/log and base/fault: what reaches standard error, and the exit codes. */
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { CAUGHT_BYTES = 4096 };

static char caught[CAUGHT_BYTES];
static int saved_stderr;
static int pipe_ends[2];

static void catch_stderr(void) {
    assert_int_equal(pipe(pipe_ends), 0);
    saved_stderr = dup(STDERR_FILENO);
    assert_true(dup2(pipe_ends[1], STDERR_FILENO) >= 0);
    close(pipe_ends[1]);
}

/* What was written to standard error since catch_stderr; at most a pipe's 64 KiB. */
static const char *stop_catching(void) {
    assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
    close(saved_stderr);
    ssize_t length = read(pipe_ends[0], caught, sizeof caught - 1);
    assert_true(length >= 0);
    caught[length] = '\0';
    close(pipe_ends[0]);
    return caught;
}

static int clear_environment(void **state) {
    (void)state;
    return unsetenv("SKEP_LOG") != 0 || unsetenv("JOURNAL_STREAM") != 0;
}

static const char *log_at_every_level(int verbosity) {
    log_init(verbosity);
    catch_stderr();
    log_line(LOG_ERROR, "e%d", 1);
    log_line(LOG_WARNING, "w");
    log_line(LOG_INFO, "i");
    log_line(LOG_DEBUG, "d");
    return stop_catching();
}

static void a_named_speaker_says_only_what_is_wrong(void **state) {
    (void)state;
    log_init(1);
    log_set_prefix("rank 3: ");
    catch_stderr();
    log_line(LOG_ERROR, "e%d", 1);
    log_line(LOG_WARNING, "w");
    log_line(LOG_INFO, "i");
    const char *said = stop_catching();
    log_set_prefix("");
    assert_string_equal(said, "rank 3: e1\nrank 3: w\n");
}

static void verbosity_chooses_the_level(void **state) {
    (void)state;
    assert_string_equal(log_at_every_level(-1), "e1\nw\n");
    assert_string_equal(log_at_every_level(0), "e1\nw\ni\n");
    assert_string_equal(log_at_every_level(1), "e1\nw\ni\nd\n");
    assert_true(log_is_enabled(LOG_DEBUG));
}

static void environment_overrides_the_verbosity(void **state) {
    (void)state;
    setenv("SKEP_LOG", "error", 1);
    assert_string_equal(log_at_every_level(1), "e1\n");
    assert_false(log_is_enabled(LOG_WARNING));
    setenv("SKEP_LOG", "debug", 1);
    assert_string_equal(log_at_every_level(-1), "e1\nw\ni\nd\n");
    setenv("SKEP_LOG", "loud", 1);
    assert_string_equal(log_at_every_level(0), "e1\nw\ni\n");
}

static void journal_lines_carry_priorities(void **state) {
    (void)state;
    setenv("JOURNAL_STREAM", "8:1", 1);
    assert_string_equal(log_at_every_level(1), "<3>e1\n<4>w\n<6>i\n<7>d\n");
    unsetenv("JOURNAL_STREAM");
}

static void times_begin_the_lines_of_a_log_without_times_of_its_own(void **state) {
    (void)state;
    int year = 0;
    int rest[5] = {0};
    log_init(0);
    log_show_times(true);
    catch_stderr();
    log_line(LOG_INFO, "i");
    const double now = clock_unix_s();
    const char *said = stop_catching();
    int end = 0;
    assert_int_equal(sscanf(said, "%4d-%2d-%2dT%2d:%2d:%2dZ i\n%n", &year, &rest[0], &rest[1],
                            &rest[2], &rest[3], &rest[4], &end),
                     6);
    assert_int_equal(end, 23);
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = rest[0] - 1,
                    .tm_mday = rest[1],
                    .tm_hour = rest[2],
                    .tm_min = rest[3],
                    .tm_sec = rest[4]};
    assert_in_range((int64_t)now - timegm(&tm), 0, 60);
    log_show_times(false);
    catch_stderr();
    log_line(LOG_INFO, "i");
    assert_string_equal(stop_catching(), "i\n");
    setenv("JOURNAL_STREAM", "8:1", 1);
    log_init(0);
    log_show_times(true);
    catch_stderr();
    log_line(LOG_INFO, "i");
    assert_string_equal(stop_catching(), "<6>i\n");
    unsetenv("JOURNAL_STREAM");
    log_init(0);
}

/* Outside a terminal, the first line comes at once and the next one 10 s later. */
static void an_activity_of_unknown_length_is_named_once(void **state) {
    (void)state;
    log_init(0);
    catch_stderr();
    activity_begin("warming up", 0);
    for (int i = 0; i < 1000; i++) {
        activity_advance(1);
    }
    activity_begin("part of it", 0);
    activity_end(false);
    activity_end(false);
    activity_begin("loading", 10);
    activity_advance(5);
    activity_end(false);
    assert_string_equal(stop_catching(), "warming up\n");
    log_init(-1);
    catch_stderr();
    assert_false(activity_line_is_due());
    assert_string_equal(stop_catching(), "");
    log_init(0);
}

static void times_left_are_read_like_a_clock(void **state) {
    (void)state;
    char buffer[64];
    struct text line = text_over(buffer, sizeof buffer);
    activity_add_time(&line, 41.6);
    text_add(&line, " ");
    activity_add_time(&line, 3599);
    text_add(&line, " ");
    activity_add_time(&line, 3 * 3600 + 7 * 60 + 1);
    assert_string_equal(buffer, "0:42 59:59 3:07:01");
}

static void long_lines_are_cut_and_still_end(void **state) {
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_init(0);
    catch_stderr();
    log_line(LOG_INFO, "%s", text);
    const char *line = stop_catching();
    size_t length = strlen(line);
    assert_in_range(length, 512, 1024);
    assert_int_equal(line[length - 1], '\n');
    assert_int_equal(strspn(line, "x"), length - 1);
}

static void fault_prints_place_reason_and_remedy(void **state) {
    (void)state;
    struct fault fault;
    assert_int_equal(fault_set(&fault, STATUS_FIT, "target x", "buy more", "needs %d", 3),
                     STATUS_FIT);
    catch_stderr();
    fault_print(&fault, STDERR_FILENO);
    assert_string_equal(stop_catching(), "skep: target x: needs 3; buy more\n");
    assert_int_equal(fault_set(&fault, STATUS_INPUT, "p", NULL, "why"), STATUS_INPUT);
    catch_stderr();
    fault_print(&fault, STDERR_FILENO);
    assert_string_equal(stop_catching(), "skep: p: why\n");
    assert_int_equal(fault_set_errno(&fault, STATUS_FAILED, "p", "cannot open", ENOENT),
                     STATUS_FAILED);
    assert_string_equal(fault.reason, "cannot open: No such file or directory");
}

static void fault_cuts_what_is_too_long(void **state) {
    (void)state;
    char text[2000];
    struct fault fault;
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)fault_set(&fault, STATUS_INPUT, text, text, "%s", text);
    assert_int_equal(strlen(fault.subject), sizeof fault.subject - 1);
    assert_int_equal(strlen(fault.reason), sizeof fault.reason - 1);
    assert_int_equal(strlen(fault.remedy), sizeof fault.remedy - 1);
    catch_stderr();
    fault_print(&fault, STDERR_FILENO);
    const char *line = stop_catching();
    assert_int_equal(line[strlen(line) - 1], '\n');
}

static void exit_codes_are_those_of_the_contract(void **state) {
    (void)state;
    assert_int_equal(fault_exit_code(OK), 0);
    assert_int_equal(fault_exit_code(STATUS_STOPPED), 0);
    assert_int_equal(fault_exit_code(STATUS_FAILED), 1);
    assert_int_equal(fault_exit_code(STATUS_USAGE), 2);
    assert_int_equal(fault_exit_code(STATUS_INPUT), 2);
    assert_int_equal(fault_exit_code(STATUS_FIT), 3);
    assert_int_equal(fault_exit_code(STATUS_LOST), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_named_speaker_says_only_what_is_wrong, clear_environment),
        cmocka_unit_test_setup(verbosity_chooses_the_level, clear_environment),
        cmocka_unit_test_setup(environment_overrides_the_verbosity, clear_environment),
        cmocka_unit_test_setup(journal_lines_carry_priorities, clear_environment),
        cmocka_unit_test_setup(times_begin_the_lines_of_a_log_without_times_of_its_own,
                               clear_environment),
        cmocka_unit_test_setup(an_activity_of_unknown_length_is_named_once, clear_environment),
        cmocka_unit_test(times_left_are_read_like_a_clock),
        cmocka_unit_test_setup(long_lines_are_cut_and_still_end, clear_environment),
        cmocka_unit_test(fault_prints_place_reason_and_remedy),
        cmocka_unit_test(fault_cuts_what_is_too_long),
        cmocka_unit_test(exit_codes_are_those_of_the_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
