/* test_member_log: the line of a member whose contribution a round did not use is limited in
 * number, and gives the reason. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/inner_training/member_run_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUND = 7, LOG_BYTES = 4096 };

static const int64_t LIMIT_NS = 10 * NS_PER_SECOND;
static struct member_run member;

/* Logs `count` missed rounds from ROUND on, and returns the text without time and priority. */
static const char *log_of_rounds(uint32_t count, const struct entry_member *row) {
    static char log[LOG_BYTES];
    FILE *file = tmpfile();
    const int before = dup(STDERR_FILENO);
    assert_non_null(file);
    assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
    setenv("SKEP_LOG", "warning", 1);
    log_init(0);
    for (uint32_t round = ROUND; round < ROUND + count; round++) {
        member_log_missed_round(&member, round, row);
    }
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    close(before);
    rewind(file);
    log[fread(log, 1, sizeof log - 1, file)] = '\0';
    fclose(file);
    return log;
}

static int begin(void **state) {
    (void)state;
    memset(&member, 0, sizeof member);
    member.position.encoded_round = ROUND;
    return 0;
}

static void a_late_contribution_is_logged_once_in_ten_seconds(void **state) {
    static const char LATE[] =
        "round 7: this member's contribution arrived too late; its samples return to "
        "the swarm\n";
    const struct entry_member row = {.tokens = 16, .weight = 1};
    (void)state;
    const char *found = strstr(log_of_rounds(5, &row), LATE);
    assert_non_null(found);
    assert_string_equal(found, LATE); /* the other four have no line */

    member.logged.missed_logged_ns = clock_monotonic_ns() - LIMIT_NS + NS_PER_SECOND;
    assert_string_equal(log_of_rounds(1, &row), "");
    member.logged.missed_logged_ns = clock_monotonic_ns() - LIMIT_NS;
    assert_non_null(
        strstr(log_of_rounds(1, &row), "; 6 rounds in all since the last such message\n"));
    member.logged.missed_logged_ns = clock_monotonic_ns() - LIMIT_NS;
    assert_null(strstr(log_of_rounds(1, &row), "since the last"));
}

static void the_line_gives_the_reason(void **state) {
    static const struct {
        uint32_t encoded_round;
        struct entry_member row;
        const char *reason;
    } CASES[] = {
        {ROUND - 1, {.tokens = 16, .weight = 1}, "training did not end in time"},
        {ROUND, {.tokens = 0, .weight = 1}, "training did not end in time"},
        {ROUND, {.tokens = 16, .weight = 0}, "this member's contribution has no weight"},
        {ROUND, {.tokens = 16, .weight = 1}, "this member's contribution arrived too late"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        assert_int_equal(begin(state), 0);
        member.position.encoded_round = CASES[i].encoded_round;
        assert_non_null(strstr(log_of_rounds(1, &CASES[i].row), CASES[i].reason));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_late_contribution_is_logged_once_in_ten_seconds, begin),
        cmocka_unit_test_setup(the_line_gives_the_reason, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
