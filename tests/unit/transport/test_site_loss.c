/* site: what happens when ranks are killed, stopped, fail or leave. */
#include "ranks.h"

#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORLD = 4, NOTICED_AT_ONCE_MS = 1000, NOTICED_MS = 5000, ROUNDS = 24 };

static void wait_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void start_working(struct ranks *ranks, int world) {
    ranks_init(ranks, world, 5000);
    ranks_start_all(ranks, ranks_work);
    assert_true(ranks_await(ranks, ranks_have_met, -1, 5000));
}

/* Every rank but `victim` has reported it once, within the time, and its exchange says the same. */
static void assert_reported(struct ranks *ranks, int victim, int64_t since_ns, int within_ms,
                            const char *reason) {
    char name[32];
    snprintf(name, sizeof name, "rank %d", victim);
    assert_true(ranks_await(ranks, ranks_lost_one, victim, within_ms));
    assert_true(ranks_await(ranks, ranks_have_ended, victim, 2000));
    for (int rank = 0; rank < ranks->world; rank++) {
        struct record *record = &ranks->records[rank];
        if (rank == victim) {
            continue;
        }
        if (record->lost_calls != 1 || strcmp(record->lost.subject, name) != 0 ||
            strstr(record->lost.reason, reason) == NULL || record->lost.status != STATUS_LOST ||
            record->lost_ns - since_ns > (int64_t)within_ms * 1000000 ||
            record->status != STATUS_LOST || strcmp(record->fault.subject, name) != 0 ||
            strcmp(record->fault.reason, record->lost.reason) != 0) {
            fail_msg("rank %d: %d reports, %s: %s; exchange %d: %s: %s", rank, record->lost_calls,
                     record->lost.subject, record->lost.reason, record->status,
                     record->fault.subject, record->fault.reason);
        }
    }
}

static void a_killed_rank_is_reported_at_once_by_all_others(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int victim = round % WORLD;
        struct ranks ranks;
        char process[64];
        start_working(&ranks, WORLD);
        wait_ms(round * 7 % 13); /* somewhere in an exchange */
        snprintf(process, sizeof process, "was lost (process %d on ", (int)ranks.pids[victim]);
        int64_t now_ns = clock_monotonic_ns();
        kill(ranks.pids[victim], SIGKILL);
        assert_reported(&ranks, victim, now_ns, NOTICED_AT_ONCE_MS, process);
        assert_true(ranks_await(&ranks, ranks_have_ended, -1, 2000));
        assert_int_equal(ranks.exit_codes[victim], 128 + SIGKILL);
        ranks_finish(&ranks);
    }
}

/* Three sites at a time, as silence takes its time: rank 2 stopped, rank 0 stopped, and one whose
 * machine sleeps as a whole. */
static void stopped_ranks_are_reported_and_learn_it_but_a_sleeping_machine_is_not(void **state) {
    (void)state;
    static const int VICTIMS[2] = {2, 0};
    struct ranks stopped[2];
    struct ranks asleep;
    start_working(&stopped[0], WORLD);
    start_working(&stopped[1], WORLD);
    start_working(&asleep, WORLD);
    int64_t since_ns = clock_monotonic_ns();
    for (int rank = 0; rank < WORLD; rank++) {
        kill(asleep.pids[rank], SIGSTOP);
    }
    for (int i = 0; i < 2; i++) {
        kill(stopped[i].pids[VICTIMS[i]], SIGSTOP);
    }
    for (int i = 0; i < 2; i++) {
        assert_reported(&stopped[i], VICTIMS[i], since_ns, NOTICED_MS, "sent no heartbeat for 3.");
        /* not before it was silent for so long */
        int64_t noticed_ns = stopped[i].records[1].lost_ns - since_ns;
        assert_true(noticed_ns > (int64_t)(SITE_SILENCE_MS - 2 * SITE_HEARTBEAT_MS) * 1000000);
    }
    for (int i = 0; i < 2; i++) {
        const struct record *record = &stopped[i].records[VICTIMS[i]];
        kill(stopped[i].pids[VICTIMS[i]], SIGCONT);
        assert_true(ranks_await(&stopped[i], ranks_have_ended, -1, 3000));
        assert_int_equal(record->lost_calls, 1);
        assert_string_equal(record->lost.subject, VICTIMS[i] == 0 ? "rank 0" : "rank 2");
        assert_non_null(strstr(record->lost.reason, "was declared lost by rank "));
        ranks_finish(&stopped[i]);
    }
    for (int rank = 0; rank < WORLD; rank++) {
        kill(asleep.pids[rank], SIGCONT);
    }
    wait_ms(3 * SITE_HEARTBEAT_MS);
    *asleep.stop = 1;
    assert_true(ranks_await(&asleep, ranks_have_ended, -1, 3000));
    for (int rank = 0; rank < WORLD; rank++) {
        assert_int_equal(asleep.records[rank].lost_calls, 0);
        assert_int_equal(asleep.records[rank].status, OK);
    }
    ranks_finish(&asleep);
}

/* The rank whose local rank says so fails with a fault of its own. */
static void fail_by_itself(const struct launch_info *place, struct record *record) {
    struct region region = {.newest = NULL};
    struct site *site = NULL;
    struct fault own;
    enum status status = site_open(place, &region, &site, &record->fault);
    if (status == OK) {
        status = site_start_watch(site, ranks_note_lost, record, &record->fault);
    }
    record->phase = 1;
    if (status == OK) {
        (void)fault_set(&own, STATUS_INPUT, "data/a.bin", "mend it", "token 70000 of 65536");
        site_report_failure(site, &own);
        site_leave(site);
    }
    record->status = (int)status;
}

static void a_rank_that_fails_is_reported_with_its_own_reason(void **state) {
    (void)state;
    for (int victim = 0; victim < 3; victim++) {
        struct ranks ranks;
        ranks_init(&ranks, 3, 5000);
        for (int rank = 0; rank < 3; rank++) {
            (void)ranks_start(&ranks, rank, rank == victim ? fail_by_itself : ranks_work);
        }
        int64_t since_ns = clock_monotonic_ns();
        assert_reported(&ranks, victim, since_ns, 5000, "failed: data/a.bin: token 70000 of 65536");
        assert_string_equal(ranks.records[victim == 0].lost.remedy, "mend it");
        assert_true(ranks_await(&ranks, ranks_have_ended, -1, 2000));
        assert_int_equal(ranks.records[victim].lost_calls, 0);
        assert_int_equal(ranks.records[victim].status, OK);
        ranks_finish(&ranks);
    }
}

/* Rank 1 is gone and rank 2 stopped, so that rank 0 finds a loss and is long in telling it. */
static void fail_during_a_report(const struct launch_info *place, struct record *record) {
    struct region region = {.newest = NULL};
    struct site *site = NULL;
    int all[3];
    struct fault fault;
    assert_int_equal(site_open(place, &region, &site, &fault), OK);
    record->phase = 1;
    if (place->rank == 2) {
        (void)raise(SIGSTOP);
    }
    if (place->rank == 0) {
        assert_int_equal(site_exchange(site, all, sizeof all[0], all, &fault), STATUS_LOST);
        assert_int_equal(site_start_watch(site, ranks_note_lost, record, &fault), OK);
        wait_ms(SITE_LAST_MESSAGE_MS / 4);
        (void)fault_set(&fault, STATUS_FIT, "disk", NULL, "is full");
        site_report_failure(site, &fault);
    }
}

static void a_rank_that_has_failed_hears_of_no_loss(void **state) {
    (void)state;
    struct ranks ranks;
    ranks_init(&ranks, 3, 5000);
    ranks_start_all(&ranks, fail_during_a_report);
    assert_true(ranks_await(&ranks, ranks_have_ended, 2, 5000));
    assert_int_equal(ranks.exit_codes[0], 0);
    assert_int_equal(ranks.records[0].lost_calls, 0);
    ranks_finish(&ranks);
}

static void ranks_that_leave_are_not_reported(void **state) {
    (void)state;
    struct ranks ranks;
    start_working(&ranks, 8);
    *ranks.stop = 1;
    int64_t since_ns = clock_monotonic_ns();
    assert_true(ranks_await(&ranks, ranks_have_ended, -1, 2000));
    /* and nobody waited for another's last words in vain */
    assert_true(clock_monotonic_ns() - since_ns < (int64_t)SITE_LAST_MESSAGE_MS * 1000000);
    for (int rank = 0; rank < 8; rank++) {
        assert_int_equal(ranks.records[rank].lost_calls, 0);
        assert_int_equal(ranks.records[rank].status, OK);
    }
    ranks_finish(&ranks);
}

/* Leaves at once; the others exchange with it in vain. */
static void leave_early(const struct launch_info *place, struct record *record) {
    struct region region = {.newest = NULL};
    struct site *site = NULL;
    record->status = (int)site_open(place, &region, &site, &record->fault);
    if (record->status == OK) {
        record->status = (int)site_start_watch(site, ranks_note_lost, record, &record->fault);
    }
    site_leave(site);
}

static void exchanges_with_a_rank_that_left_fail_and_nothing_else(void **state) {
    (void)state;
    for (int leaver = 0; leaver < 3; leaver++) {
        char name[32];
        struct ranks ranks;
        ranks_init(&ranks, 3, 5000);
        snprintf(name, sizeof name, "rank %d", leaver);
        for (int rank = 0; rank < 3; rank++) {
            (void)ranks_start(&ranks, rank, rank == leaver ? leave_early : ranks_work);
        }
        assert_true(ranks_await(&ranks, ranks_have_ended, -1, 4000));
        for (int rank = 0; rank < 3; rank++) {
            const struct record *record = &ranks.records[rank];
            assert_int_equal(record->lost_calls, 0);
            assert_int_equal(record->status, rank == leaver ? OK : STATUS_FAILED);
            if (rank != leaver && (strcmp(record->fault.subject, name) != 0 ||
                                   strstr(record->fault.reason, "has left") == NULL)) {
                fail_msg("%d left, rank %d: %s: %s", leaver, rank, record->fault.subject,
                         record->fault.reason);
            }
        }
        ranks_finish(&ranks);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_reported_at_once_by_all_others),
        cmocka_unit_test(a_rank_that_fails_is_reported_with_its_own_reason),
        cmocka_unit_test(a_rank_that_has_failed_hears_of_no_loss),
        cmocka_unit_test(ranks_that_leave_are_not_reported),
        cmocka_unit_test(exchanges_with_a_rank_that_left_fail_and_nothing_else),
        cmocka_unit_test(stopped_ranks_are_reported_and_learn_it_but_a_sleeping_machine_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
