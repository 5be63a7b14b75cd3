/* Tests of transport/groups: what ranks come to agree on before they have a communicator. */
#include "transport/collectives/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { WORLD = 4 };

/* What the exchange gives: the others' outcomes, or its own failure. */
struct told {
    int32_t outcomes[WORLD];
    enum status status;
    int calls;
};

static struct region region;

static enum status exchange(void *context, const void *mine, size_t bytes, void *all,
                            struct fault *fault) {
    struct told *told = context;
    told->calls++;
    assert_int_equal(bytes, sizeof told->outcomes[0]);
    if (told->status != OK) {
        return fault_set(fault, told->status, "rank 3", NULL, "is gone");
    }
    memcpy(told->outcomes, mine, bytes); /* this is rank 0 */
    memcpy(all, told->outcomes, sizeof told->outcomes);
    return OK;
}

static enum status agree(struct told *told, enum status mine, struct fault *fault) {
    const struct group_setup setup = {.exchange = exchange,
                                      .context = told,
                                      .world = WORLD,
                                      .region = &region,
                                      .subject = "the setup"};
    enum status status = groups_agree_on_outcome(&setup, mine, fault);
    assert_int_equal(told->calls, 1); /* the others wait for this rank's word, whatever it is */
    return status;
}

static void ranks_agree_when_all_are_well(void **state) {
    (void)state;
    struct told told = {.status = OK};
    struct fault fault = {.status = OK, .reason = "untouched"};
    assert_int_equal(agree(&told, OK, &fault), OK);
    assert_string_equal(fault.reason, "untouched");
}

static void the_own_fault_is_kept_whatever_the_others_say(void **state) {
    (void)state;
    struct told well = {.outcomes = {0, STATUS_FIT, 0, 0}};
    struct told broken = {.status = STATUS_LOST};
    struct told *const cases[] = {&well, &broken};
    for (size_t i = 0; i < 2; i++) {
        struct fault fault;
        enum status own = fault_set(&fault, STATUS_INPUT, "here", NULL, "mine");
        assert_int_equal(agree(cases[i], own, &fault), STATUS_INPUT);
        assert_string_equal(fault.reason, "mine");
    }
}

static void the_lowest_rank_that_failed_is_named(void **state) {
    (void)state;
    struct told told = {.outcomes = {0, 0, STATUS_FIT, STATUS_INPUT}};
    struct fault fault;
    assert_int_equal(agree(&told, OK, &fault), STATUS_FAILED);
    assert_string_equal(fault.subject, "the setup");
    assert_non_null(strstr(fault.reason, "rank 2 could not join"));
}

static void an_exchange_that_broke_says_so_itself(void **state) {
    (void)state;
    struct told told = {.status = STATUS_LOST};
    struct fault fault;
    assert_int_equal(agree(&told, OK, &fault), STATUS_LOST);
    assert_string_equal(fault.subject, "rank 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_agree_when_all_are_well),
        cmocka_unit_test(the_own_fault_is_kept_whatever_the_others_say),
        cmocka_unit_test(the_lowest_rank_that_failed_is_named),
        cmocka_unit_test(an_exchange_that_broke_says_so_itself),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    region_finish(&region);
    return failed;
}
