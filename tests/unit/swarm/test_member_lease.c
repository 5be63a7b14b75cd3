/* test_member_lease: the member's machine by hand when it resigns: what it promises, when it says
 * so, and what it still does in a round. */
#include "runtime/swarm/member_machine/member_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLICES = 4, SESSION = 7, ROUND = 3 };

static const struct hash STATE = {{9, 9}}, LATER_STATE = {{9, 8}};

static struct scene {
    struct member *member;
    struct action rows[ACTIONS_MAX];
    struct actions actions;
} scene;

static void take(const struct event *event) {
    scene.actions.count = 0;
    member_step(scene.member, event, 0, &scene.actions);
}

static void hear(struct message message) {
    take(&(struct event){.kind = EVENT_MESSAGE, .message = &message});
}

static void begin(const struct lease *held) {
    free(scene.member);
    scene.actions = (struct actions){scene.rows, 0, ACTIONS_MAX};
    const struct member_initial_state start = {
        .start_id = 5, .slice_count = SLICES, .sample_tokens = 8, .lease = *held};
    scene.member = member_init(aligned_alloc(64, member_memory_bytes(SLICES)), &start);
    hear((struct message){.kind = MESSAGE_WELCOME, .session = SESSION, .number = 5});
}

static const struct action *find(enum action_kind kind) {
    const struct action *found = NULL;
    for (uint32_t i = 0; i < scene.actions.count && found == NULL; i++) {
        found = scene.rows[i].kind == kind ? &scene.rows[i] : NULL;
    }
    return found;
}

/* Whether it sent a resignation from this state entry in the last step. */
static bool has_resigned_from(const struct hash *state) {
    bool has = false;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct message *message = &scene.rows[i].message;
        has |= scene.rows[i].kind == ACTION_SEND && message->kind == MESSAGE_RESIGN &&
               hash_equal(&message->hash, state);
    }
    return has;
}

static void say_goodbye(const struct hash *state) {
    hear((struct message){
        .kind = MESSAGE_GOODBYE, .session = SESSION, .round = ROUND, .hash = *state});
}

static void end_write(uint32_t job, enum write_outcome outcome) {
    take(&(struct event){.kind = EVENT_RESIGNED, .job = job, .write_outcome = outcome});
}

static void begin_leaving(const struct lease *held) {
    begin(held);
    take(&(struct event){.kind = EVENT_LEAVE});
}

static void resignation_is_durable_before_it_is_sent(void **state) {
    (void)state;
    begin_leaving(&(struct lease){.round = 0});
    say_goodbye(&STATE);
    const struct action *resign = find(ACTION_RESIGN);
    assert_non_null(resign);
    assert_null(find(ACTION_LEFT));
    assert_true(resign->lease->is_resignation);
    assert_memory_equal(&resign->lease->state, &STATE, sizeof STATE);
    assert_int_equal(resign->lease->round, ROUND);
    const uint32_t job = resign->job;
    take(&(struct event){.kind = EVENT_TICK});
    assert_false(has_resigned_from(&STATE));
    end_write(job, WRITE_FAILED);
    assert_false(has_resigned_from(&STATE));
    take(&(struct event){.kind = EVENT_TICK});
    assert_false(has_resigned_from(&STATE));
    say_goodbye(&STATE);
    assert_non_null(find(ACTION_RESIGN));
    end_write(find(ACTION_RESIGN)->job, WRITE_OK);
    assert_true(has_resigned_from(&STATE));
    take(&(struct event){.kind = EVENT_TICK}); /* it may have been lost */
    assert_true(has_resigned_from(&STATE));
    say_goodbye(&(struct hash){{0}});
    assert_non_null(find(ACTION_LEFT));
}

static void member_that_does_not_leave_does_not_resign(void **state) {
    (void)state;
    begin(&(struct lease){.round = 0});
    say_goodbye(&STATE);
    assert_null(find(ACTION_RESIGN));
    assert_null(find(ACTION_LEFT));
}

static void member_that_has_voted_does_not_resign_from_that_state(void **state) {
    (void)state;
    const struct lease voted = {
        .state = STATE, .round = ROUND + 1, .start = {2, 77}, .vote = {{5}}};
    begin_leaving(&voted);
    say_goodbye(&STATE);
    assert_null(find(ACTION_RESIGN));
    say_goodbye(&LATER_STATE);
    assert_non_null(find(ACTION_RESIGN));
}

/* The tracker may not have received it before the member left. */
static void restarted_member_repeats_its_resignation(void **state) {
    (void)state;
    const struct lease resigned = {.state = STATE, .round = ROUND, .is_resignation = true};
    begin(&resigned);
    take(&(struct event){.kind = EVENT_TICK});
    assert_true(has_resigned_from(&STATE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resignation_is_durable_before_it_is_sent),
        cmocka_unit_test(member_that_does_not_leave_does_not_resign),
        cmocka_unit_test(member_that_has_voted_does_not_resign_from_that_state),
        cmocka_unit_test(restarted_member_repeats_its_resignation),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(scene.member);
    return failed;
}
