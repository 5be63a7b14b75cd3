/* What two threads may rely on where they share the mailbox. */
#include "runtime/swarm/member/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLICES = 3, ANSWERS = 200 };

struct meeting {
    struct mailbox mailbox;
    void *memory;
};

static struct meeting *meet(void) {
    struct meeting *meeting = calloc(1, sizeof(*meeting));
    struct fault fault;
    meeting->memory = calloc(1, mailbox_memory_bytes(SLICES));
    assert_int_equal(mailbox_open(&meeting->mailbox, meeting->memory, SLICES, &fault), OK);
    return meeting;
}

static void part(struct meeting *meeting) {
    mailbox_close(&meeting->mailbox);
    free(meeting->memory);
    free(meeting);
}

static void give(struct meeting *meeting, enum action_kind kind, uint32_t round) {
    mailbox_post_job(&meeting->mailbox,
                     &(struct member_job){.kind = kind, .round = round, .time_left_ms = 1000});
}

static void the_newest_training_is_given_once(void **state) {
    (void)state;
    struct meeting *meeting = meet();
    struct member_job work = {.round = 77};
    assert_false(mailbox_wait_job(&meeting->mailbox, 0, &work));
    assert_int_equal(work.round, 77);
    give(meeting, ACTION_TRAIN, 1);
    give(meeting, ACTION_TRAIN, 2);
    assert_true(mailbox_wait_job(&meeting->mailbox, 0, &work));
    assert_int_equal(work.round, 2);
    assert_in_range(work.time_left_ms, 900, 1000);
    assert_false(mailbox_is_job_stale(&meeting->mailbox, ACTION_TRAIN));
    assert_true(mailbox_is_busy(&meeting->mailbox));
    assert_false(mailbox_wait_job(&meeting->mailbox, 0, &work));
    assert_false(mailbox_is_busy(&meeting->mailbox));
    part(meeting);
}

static void a_job_comes_first_and_makes_older_training_stale(void **state) {
    (void)state;
    struct meeting *meeting = meet();
    struct member_job work;
    give(meeting, ACTION_TRAIN, 1);
    assert_true(mailbox_wait_job(&meeting->mailbox, 0, &work));
    give(meeting, ACTION_SUM, 1);
    assert_true(mailbox_is_job_stale(&meeting->mailbox, ACTION_TRAIN));
    give(meeting, ACTION_TRAIN, 2); /* the round ended; its sum is still pending */
    assert_true(mailbox_wait_job(&meeting->mailbox, 0, &work));
    assert_int_equal(work.kind, ACTION_SUM);
    assert_false(mailbox_is_job_stale(&meeting->mailbox, ACTION_SUM));
    assert_true(mailbox_wait_job(&meeting->mailbox, 0, &work));
    assert_int_equal(work.kind, ACTION_TRAIN);
    assert_int_equal(work.round, 2);
    assert_false(mailbox_is_job_stale(&meeting->mailbox, ACTION_TRAIN));
    mailbox_cancel_job(&meeting->mailbox);
    assert_true(mailbox_is_job_stale(&meeting->mailbox, ACTION_TRAIN));
    part(meeting);
}

/* The state machine may overwrite its entry while the job is executed. */
static void a_job_keeps_a_copy_of_its_entry(void **state) {
    (void)state;
    struct meeting *meeting = meet();
    struct entry_slice slices[SLICES] = {{.weight = 1}, {.weight = 2}, {.weight = 3}};
    static struct entry entry;
    entry.round = 5;
    entry.slice_count = SLICES;
    entry.slices = slices;
    struct member_job work = {.kind = ACTION_ROOT, .entry = &entry};
    mailbox_post_job(&meeting->mailbox, &work);
    assert_true(mailbox_wait_job(&meeting->mailbox, 0, &work));
    entry.round = 6;
    slices[1].weight = 20;
    struct member_job other = {.kind = ACTION_STORE, .entry = &entry};
    mailbox_post_job(&meeting->mailbox, &other);
    assert_int_equal(work.entry->round, 5);
    assert_int_equal(work.entry->slices[1].weight, 2);
    assert_ptr_not_equal(mailbox_current_job(&meeting->mailbox)->entry, work.entry);
    assert_true(mailbox_wait_job(&meeting->mailbox, 0, &work));
    assert_int_equal(work.entry->round, 6);
    assert_int_equal(work.entry->slices[1].weight, 20);
    part(meeting);
}

static void *answer_all(void *argument) {
    struct meeting *meeting = argument;
    for (uint32_t i = 0; i < ANSWERS; i++) {
        struct event event = {.kind = EVENT_TRAINED, .round = i};
        memset(&event.root, (int)i, sizeof event.root);
        mailbox_post_answer(&meeting->mailbox, &event);
    }
    mailbox_request_leave(&meeting->mailbox);
    return NULL;
}

static void answers_are_collected_one_by_one_and_none_is_lost(void **state) {
    (void)state;
    struct meeting *meeting = meet();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer_all, meeting), 0);
    bool leaves = false;
    uint32_t seen = 0;
    while (!leaves || seen < ANSWERS) {
        struct mailbox_updates updates;
        mailbox_collect_updates(&meeting->mailbox, &updates);
        leaves = leaves || updates.wants_to_leave;
        if (!updates.has_event) {
            continue;
        }
        assert_int_equal(updates.event.round, seen);
        struct hash want;
        memset(&want, (int)seen, sizeof want);
        assert_memory_equal(&updates.event.root, &want, sizeof want);
        mailbox_release_answer(&meeting->mailbox);
        seen++;
    }
    pthread_join(thread, NULL);
    part(meeting);
}

static void *wait_for_ever(void *argument) {
    struct meeting *meeting = argument;
    struct member_job work;
    return mailbox_wait_job(&meeting->mailbox, -1, &work) ? meeting : NULL;
}

static void the_end_wakes_a_waiting_thread(void **state) {
    (void)state;
    struct meeting *meeting = meet();
    pthread_t thread;
    void *got = meeting;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, meeting), 0);
    mailbox_shut_down(&meeting->mailbox);
    pthread_join(thread, &got);
    assert_null(got);
    part(meeting);
}

static void training_that_has_ended_is_given_but_takes_no_step(void **state) {
    (void)state;
    struct meeting *meeting = meet();
    struct member_job work;
    give(meeting, ACTION_TRAIN, 1);
    assert_false(mailbox_is_training_ended(&meeting->mailbox, 1));
    mailbox_end_training(&meeting->mailbox, 1);
    assert_true(mailbox_wait_job(&meeting->mailbox, 0, &work));
    assert_true(mailbox_is_training_ended(&meeting->mailbox, 1));
    assert_false(mailbox_is_job_stale(&meeting->mailbox, ACTION_TRAIN));
    give(meeting, ACTION_TRAIN, 2);
    assert_true(mailbox_wait_job(&meeting->mailbox, 0, &work));
    assert_false(mailbox_is_training_ended(&meeting->mailbox, 2));
    part(meeting);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_that_has_ended_is_given_but_takes_no_step),
        cmocka_unit_test(the_newest_training_is_given_once),
        cmocka_unit_test(a_job_comes_first_and_makes_older_training_stale),
        cmocka_unit_test(a_job_keeps_a_copy_of_its_entry),
        cmocka_unit_test(answers_are_collected_one_by_one_and_none_is_lost),
        cmocka_unit_test(the_end_wakes_a_waiting_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
