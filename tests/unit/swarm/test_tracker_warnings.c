/* test_tracker_warnings: warnings of the tracker that recur are limited in number. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/swarm/tracker/admission.h"
#include "tracker_thread.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WITHIN_MS = 30000, WAIT_MS = 2, COMMITS = 4, MINUTE_MS = 60 * 1000, LOG_BYTES = 64 * 1024 };

static struct tracker_thread tracker;
static struct scripted_member members[TRACKER_MEMBERS_MIN];

/* Runs the members until each has some commits, and returns the log of that time. */
static char *log_of_commits(uint32_t trained_samples) {
    static char log[LOG_BYTES];
    char path[] = "/tmp/skep-log-XXXXXX";
    const int file = mkstemp(path), before = dup(STDERR_FILENO);
    const int64_t until_ms = clock_monotonic_ms() + WITHIN_MS;
    assert_true(file >= 0 && before >= 0);
    assert_int_equal(dup2(file, STDERR_FILENO), STDERR_FILENO);
    setenv("SKEP_LOG", "warning", 1);
    log_init(0);
    tracker_thread_open(&tracker, "members:\n");
    for (uint8_t i = 0; i < TRACKER_MEMBERS_MIN; i++) {
        scripted_open(&members[i], (uint8_t)(i + 1), &tracker.keys.public_keys,
                      tracker.contact.address, &tracker.manifest, &tracker.root);
        members[i].trained_samples = trained_samples;
    }
    while (members[0].commits < COMMITS && clock_monotonic_ms() < until_ms) {
        for (int i = 0; i < TRACKER_MEMBERS_MIN; i++) {
            scripted_run(&members[i], WAIT_MS);
        }
    }
    for (int i = 0; i < TRACKER_MEMBERS_MIN; i++) {
        scripted_close(&members[i]);
    }
    tracker_thread_close(&tracker);
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    const ssize_t bytes = pread(file, log, sizeof log - 1, 0);
    assert_in_range(bytes, 0, sizeof log - 2);
    log[bytes] = '\0';
    close(before);
    close(file);
    assert_int_equal(unlink(path), 0);
    assert_true(members[0].commits >= COMMITS);
    return log;
}

static void little_training_is_warned_of_once_in_ten_minutes(void **state) {
    static const char WARNING[] = "members trained on 25 % of their samples before the deadline";
    (void)state;
    const char *found = strstr(log_of_commits(1), WARNING);
    assert_non_null(found);
    assert_null(strstr(found + 1, "members trained on"));
}

static void half_of_the_samples_is_enough(void **state) {
    (void)state;
    assert_null(strstr(log_of_commits(2), "members trained on"));
}

/* Keys cost nothing to make, so the log and the memory of them are bounded. */
static void the_log_has_a_line_for_64_keys_and_then_one_a_minute(void **state) {
    static struct stranger_log log;
    struct public_keys keys = {.curve = {0}};
    const int64_t now_ms = 5 * MINUTE_MS;
    (void)state;
    for (uint8_t i = 0; i < 64; i++) {
        keys.curve[0] = i;
        assert_true(stranger_log_record(&log, &keys, now_ms));
        assert_false(stranger_log_record(&log, &keys, now_ms)); /* each key once */
    }
    for (uint8_t i = 64; i < 100; i++) {
        keys.curve[0] = i;
        assert_int_equal(stranger_log_record(&log, &keys, now_ms), i == 64);
    }
    assert_int_equal(log.skipped, 35);
    assert_false(stranger_log_record(&log, &keys, now_ms + MINUTE_MS - 1));
    assert_true(stranger_log_record(&log, &keys, now_ms + MINUTE_MS));
    keys.curve[0] = 0;
    assert_false(stranger_log_record(&log, &keys, now_ms + 9 * MINUTE_MS)); /* it had its line */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_training_is_warned_of_once_in_ten_minutes),
        cmocka_unit_test(half_of_the_samples_is_enough),
        cmocka_unit_test(the_log_has_a_line_for_64_keys_and_then_one_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
