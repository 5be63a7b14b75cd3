/* test_member_slow: the member's machine by hand: results for a member that no owner waits for are
 * sent after all others, training that the tracker no longer waits for ends, and the time of an
 * answer does not include that of an outage of the member's own network. */
#include "runtime/swarm/member_machine/member_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEATS = 3, SLICES = 6, ALL = (1 << SEATS) - 1, FAST = 3, SLOW = 2, SESSION = 7 };

/* Member 0 of three in round 1. It owns slice 0, and member 1 the others. */
static struct scene {
    struct member *member;
    struct action rows[ACTIONS_MAX];
    struct actions actions;
    struct entry open;
    struct round_table table;
    struct slice_plan plans[SLICES];
} scene;

static void take(const struct event *event) {
    scene.actions.count = 0;
    member_step(scene.member, event, 0, &scene.actions);
}

static void hear(struct message message) {
    message.session = SESSION;
    take(&(struct event){.kind = EVENT_MESSAGE, .message = &message});
}

static struct identity id_of(uint32_t seat) {
    return (struct identity){{(uint8_t)(seat + 1)}};
}

static const struct action *find(enum action_kind kind) {
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        if (scene.rows[i].kind == kind) {
            return &scene.rows[i];
        }
    }
    return NULL;
}

/* The member sums slice 0, to which no other member contributes. */
static void say_table(uint32_t version) {
    scene.table.version = version;
    hear((struct message){.kind = MESSAGE_TABLE, .round = 1, .table = &scene.table});
    const struct action *sum = find(ACTION_SUM);
    if (sum != NULL && sum->slice == 0) {
        take(&(struct event){.kind = EVENT_SUMMED, .job = sum->job, .hash = {{1}}});
    }
}

/* No owner waits for the slow member, except that of the last slice. */
static void begin_training(void) {
    struct member_initial_state start = {
        .id = id_of(0), .start_id = 5, .slice_count = SLICES, .sample_tokens = 1};
    free(scene.member);
    memset(&scene, 0, sizeof scene);
    scene.actions = (struct actions){scene.rows, 0, ACTIONS_MAX};
    scene.member = member_init(aligned_alloc(64, member_memory_bytes(SLICES)), &start);
    hear((struct message){.kind = MESSAGE_WELCOME, .number = 5});
    scene.open = (struct entry){.kind = ENTRY_OPEN, .round = 1, .seat_count = SEATS};
    scene.table = (struct round_table){.round = 1, .declared_seats = ALL, .slices = scene.plans};
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        scene.open.seats[seat] = (struct entry_seat){.id = id_of(seat),
                                                     .session = SESSION + seat,
                                                     .range_count = 1,
                                                     .ranges = {{seat, seat + 1}}};
        scene.table.members[seat] =
            (struct entry_member){.tokens = 1, .weight = 1, .samples = 1, .norm = 1};
    }
    scene.plans[0] = (struct slice_plan){.owner = 0, .expected_seats = 1};
    for (uint32_t s = 1; s < SLICES; s++) {
        scene.plans[s] = (struct slice_plan){.owner = 1,
                                             .expected_seats = s == SLICES - 1 ? ALL : FAST,
                                             .optional_seats = 1 << SLOW};
    }
    hear((struct message){.kind = MESSAGE_ENTRY, .entry = &scene.open});
}

static void end_training(void) {
    const struct training_amount trained = {.tokens = 1, .samples = 1, .norm = 1};
    take(&(struct event){.kind = EVENT_TRAINED, .round = 1, .trained = trained});
}

static void begin(void) {
    begin_training();
    end_training();
}

/* Whether the result of slice 0 is sent to a seat after all others. */
static bool is_sent_last(uint32_t seat) {
    hear((struct message){.kind = MESSAGE_FETCH_RESULT, .from = id_of(seat), .round = 1});
    const struct action *sent = find(ACTION_SEND);
    assert_non_null(sent);
    assert_int_equal(sent->message.kind, MESSAGE_RESULT);
    return sent->is_for_slow_member;
}

static void results_for_a_slow_member_are_sent_last(void **state) {
    (void)state;
    begin();
    say_table(1);
    assert_false(is_sent_last(1));
    assert_false(is_sent_last(SLOW)); /* one owner waits for it */
    scene.plans[SLICES - 1].expected_seats = FAST;
    say_table(2);
    assert_false(is_sent_last(1));
    assert_true(is_sent_last(SLOW));
}

/* The swarm commits without it. */
static void results_for_a_member_that_trained_on_nothing_are_sent_last(void **state) {
    (void)state;
    begin();
    scene.table.members[SLOW] = (struct entry_member){0};
    for (uint32_t s = 1; s < SLICES; s++) {
        scene.plans[s] = (struct slice_plan){.owner = 1, .expected_seats = FAST};
    }
    say_table(1);
    assert_false(is_sent_last(1));
    assert_true(is_sent_last(SLOW));
}

/* The others are no quorum: the round ends only when it has the results. */
static void results_for_a_member_whose_vote_is_needed_are_sent_at_once(void **state) {
    (void)state;
    begin();
    scene.table.members[SLOW] = (struct entry_member){0};
    scene.table.members[1] = (struct entry_member){0};
    for (uint32_t s = 1; s < SLICES; s++) {
        scene.plans[s] = (struct slice_plan){.owner = 0, .expected_seats = 1};
    }
    say_table(1);
    assert_false(is_sent_last(1));
    assert_false(is_sent_last(SLOW));
}

static int free_scene(void **state) {
    (void)state;
    free(scene.member);
    return 0;
}

/* A poll that does not end training asks for a report only; so does one of another round, and one
 * that arrives again. */
static void training_ends_when_the_tracker_no_longer_waits_for_it(void **state) {
    (void)state;
    begin_training();
    struct message poll = {.kind = MESSAGE_POLL, .round = 1, .poll = {1, 0}};
    hear(poll);
    assert_null(find(ACTION_END_TRAINING));
    hear((struct message){.kind = MESSAGE_POLL, .round = 2, .poll = {2, 1}});
    assert_null(find(ACTION_END_TRAINING));
    poll.poll = (struct message_poll){3, 1};
    hear(poll);
    assert_non_null(find(ACTION_END_TRAINING));
    assert_int_equal(find(ACTION_END_TRAINING)->round, 1);
    hear(poll);
    assert_null(find(ACTION_END_TRAINING));
    end_training();
    poll.poll.number = 4;
    hear(poll);
    assert_null(find(ACTION_END_TRAINING));
    assert_non_null(find(ACTION_SEND)); /* it declares again */
}

/* Advances by `count` heartbeats. Before each one a message arrives from the tracker, or nothing
 * from anyone. */
static void wait_ticks(int count, bool hears_tracker) {
    for (int i = 0; i < count; i++) {
        if (hears_tracker) {
            hear((struct message){.kind = MESSAGE_CONFIRM});
        }
        take(&(struct event){.kind = EVENT_TICK});
    }
}

static void receive_result(uint32_t slice) {
    hear((struct message){.kind = MESSAGE_RESULT,
                          .from = id_of(1),
                          .owner = id_of(1),
                          .round = 1,
                          .slice = slice,
                          .contributors = FAST,
                          .hash = {{2}}});
    assert_non_null(find(ACTION_KEEP_BYTES));
}

/* The number of heartbeats after which the other results are requested again. */
static int count_ticks_until_retry(void) {
    enum { TICKS_MAX = 400 };
    int ticks = 0;
    bool is_repeated = false;
    for (; !is_repeated && ticks < TICKS_MAX; ticks++) {
        wait_ticks(1, true);
        for (uint32_t i = 0; i < scene.actions.count; i++) {
            is_repeated |= scene.rows[i].kind == ACTION_SEND &&
                           scene.rows[i].message.kind == MESSAGE_FETCH_RESULT;
        }
    }
    return ticks;
}

/* After an answer that took 40 heartbeats, the owner gets four times as long for the next one. Time
 * in which nothing arrived from anyone does not count, or a lost owner would cost as long. */
static void an_outage_of_its_own_does_not_make_a_member_more_patient(void **state) {
    (void)state;
    enum { WAIT = 40, RETRY_MIN = 8 };
    begin();
    say_table(1);
    wait_ticks(WAIT, true);
    receive_result(1);
    assert_in_range(count_ticks_until_retry(), WAIT, 4 * WAIT);
    begin();
    say_table(1);
    wait_ticks(WAIT, false);
    receive_result(1);
    assert_in_range(count_ticks_until_retry(), RETRY_MIN, 2 * RETRY_MIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_ends_when_the_tracker_no_longer_waits_for_it),
        cmocka_unit_test(results_for_a_slow_member_are_sent_last),
        cmocka_unit_test(an_outage_of_its_own_does_not_make_a_member_more_patient),
        cmocka_unit_test(results_for_a_member_that_trained_on_nothing_are_sent_last),
        cmocka_unit_test(results_for_a_member_whose_vote_is_needed_are_sent_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, free_scene);
}
