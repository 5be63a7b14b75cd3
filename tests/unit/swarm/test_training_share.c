/* The share of its samples that a swarm trained on in a round. */
#include "runtime/swarm/ledger/training_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLE_TOKENS = 64 };

/* Two members with 10 samples each, in one range and in two, and a third one that was lost. */
static struct entry commit;

static void make_commit(uint64_t first_tokens, uint64_t second_tokens) {
    memset(&commit, 0, sizeof commit);
    commit.kind = ENTRY_COMMIT;
    commit.round = 6;
    commit.seat_count = 3;
    commit.seats[0].range_count = 1;
    commit.seats[0].ranges[0] = (struct sample_range){100, 110};
    commit.seats[1].range_count = 2;
    commit.seats[1].ranges[0] = (struct sample_range){0, 4};
    commit.seats[1].ranges[1] = (struct sample_range){110, 116};
    commit.seats[2].range_count = 1;
    commit.seats[2].ranges[0] = (struct sample_range){116, 126};
    commit.members[0].tokens = first_tokens;
    commit.members[1].tokens = second_tokens;
}

static void a_lost_member_does_not_count(void **state) {
    (void)state;
    make_commit(10 * SAMPLE_TOKENS, 5 * SAMPLE_TOKENS);
    const struct training_share share = training_share_of(&commit, SAMPLE_TOKENS);
    assert_int_equal(share.planned, 20 * SAMPLE_TOKENS);
    assert_int_equal(share.tokens, 15 * SAMPLE_TOKENS);
    assert_false(training_share_is_low(&share));
    commit.kind = ENTRY_OPEN;
    assert_int_equal(training_share_of(&commit, SAMPLE_TOKENS).planned, 0);
}

static void less_than_half_is_low(void **state) {
    (void)state;
    make_commit(5 * SAMPLE_TOKENS, 5 * SAMPLE_TOKENS);
    struct training_share share = training_share_of(&commit, SAMPLE_TOKENS);
    assert_false(training_share_is_low(&share));
    make_commit(SAMPLE_TOKENS, 8 * SAMPLE_TOKENS);
    share = training_share_of(&commit, SAMPLE_TOKENS);
    assert_true(training_share_is_low(&share));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_member_does_not_count),
        cmocka_unit_test(less_than_half_is_low),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
