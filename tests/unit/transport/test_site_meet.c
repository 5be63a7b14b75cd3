/* site: how ranks find each other, and who is turned away. */
#include "ranks.h"

#include "transport/site/site_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static int call_rank_0(const struct ranks *ranks) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)ranks->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static bool says(const struct fault *fault, const char *part) {
    return strstr(fault->reason, part) != NULL;
}

static void all_end_with(struct ranks *ranks, enum status status) {
    assert_true(ranks_await(ranks, ranks_have_ended, -1, 8000));
    for (int i = 0; i < ranks->count; i++) {
        if (ranks->records[i].status != (int)status) {
            fail_msg("process %d: status %d: %s: %s", i, ranks->records[i].status,
                     ranks->records[i].fault.subject, ranks->records[i].fault.reason);
        }
    }
}

static void ranks_meet_in_any_order_at_an_address(void **state) {
    (void)state;
    static const char *const ADDRESSES[] = {"127.0.0.1", "localhost", "::1"};
    for (size_t i = 0; i < sizeof ADDRESSES / sizeof ADDRESSES[0]; i++) {
        struct ranks ranks;
        ranks_init(&ranks, 4, 5000);
        close(ranks.listener); /* the port is free again, and rank 0 listens there itself */
        static const int ORDER[] = {2, 3, 0, 1};
        for (int k = 0; k < 4; k++) {
            struct launch_info place = ranks_place(&ranks, ORDER[k]);
            place.listener = 0;
            snprintf(place.address, sizeof place.address, "%s", ADDRESSES[i]);
            (void)ranks_start_place(&ranks, &place, ranks_meet);
            nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
        }
        all_end_with(&ranks, OK);
        ranks_finish(&ranks);
    }
}

static void missing_ranks_are_named_to_all(void **state) {
    (void)state;
    struct ranks ranks;
    ranks_init(&ranks, 5, 300);
    for (int rank = 0; rank < 5; rank += 2) {
        (void)ranks_start(&ranks, rank, ranks_meet);
    }
    all_end_with(&ranks, STATUS_FAILED);
    for (int i = 0; i < ranks.count; i++) {
        assert_string_equal(ranks.records[i].fault.subject, "site");
        assert_string_equal(ranks.records[i].fault.reason,
                            "ranks 1, 3 of 5 did not connect within 0.3 s");
    }
    ranks_finish(&ranks);
}

static void a_missing_rank_0_is_named_with_its_address(void **state) {
    (void)state;
    struct ranks ranks;
    ranks_init(&ranks, 2, 300);
    close(ranks.listener);
    (void)ranks_start(&ranks, 1, ranks_meet);
    all_end_with(&ranks, STATUS_FAILED);
    assert_string_equal(ranks.records[0].fault.subject, "rank 0");
    assert_true(says(&ranks.records[0].fault, "127.0.0.1"));
    ranks_finish(&ranks);
}

/* Who came second is refused, the first goes on; with rank 2 the site is complete. */
static void a_second_process_of_a_rank_is_refused_with_both_names(void **state) {
    (void)state;
    struct ranks ranks;
    ranks_init(&ranks, 3, 5000);
    (void)ranks_start(&ranks, 0, ranks_meet);
    int twins[2] = {ranks_start(&ranks, 1, ranks_meet), ranks_start(&ranks, 1, ranks_meet)};
    while (ranks.records[twins[0]].phase == 0 && ranks.records[twins[1]].phase == 0) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    int refused = ranks.records[twins[0]].phase != 0 ? twins[0] : twins[1];
    struct record *record = &ranks.records[refused];
    char both[2][32];
    snprintf(both[0], sizeof both[0], "process %d on ", (int)ranks.pids[twins[0]]);
    snprintf(both[1], sizeof both[1], "process %d on ", (int)ranks.pids[twins[1]]);
    assert_int_equal(record->status, STATUS_INPUT);
    assert_true(says(&record->fault, both[0]) && says(&record->fault, both[1]));
    record->status = OK;
    (void)ranks_start(&ranks, 2, ranks_meet);
    all_end_with(&ranks, OK);
    ranks_finish(&ranks);
}

/* A place of another world, another run, a rank 0 beside rank 0: refused, the others meet. */
static void processes_of_another_run_are_refused_and_the_others_meet(void **state) {
    (void)state;
    struct ranks ranks;
    ranks_init(&ranks, 2, 5000);
    (void)ranks_start(&ranks, 0, ranks_meet);
    struct launch_info places[2] = {ranks_place(&ranks, 1), ranks_place(&ranks, 1)};
    static const char *const REASONS[] = {"expects 4 ranks", "belongs to another run"};
    places[0].world = 4;
    places[1].job = 8;
    for (int i = 0; i < 2; i++) {
        int index = ranks_start_place(&ranks, &places[i], ranks_meet);
        struct record *record = &ranks.records[index];
        assert_true(ranks_await(&ranks, ranks_have_ended, 0, 4000));
        assert_int_equal(record->status, STATUS_INPUT);
        assert_string_equal(record->fault.subject, "rank 1");
        assert_true(says(&record->fault, REASONS[i]));
        record->status = OK;
    }
    (void)ranks_start(&ranks, 1, ranks_meet);
    all_end_with(&ranks, OK);
    ranks_finish(&ranks);
}

static void another_version_is_told_both_versions(void **state) {
    (void)state;
    struct ranks ranks;
    ranks_init(&ranks, 2, 5000);
    (void)ranks_start(&ranks, 0, ranks_meet);
    struct site_hello hello = {
        .magic = SITE_MAGIC, .version = 9, .job_id = 7, .rank = 1, .world = 2};
    struct site_join_answer answer;
    int fd = call_rank_0(&ranks);
    assert_true(site_send(fd, &hello, sizeof hello, 0));
    assert_true(site_receive_within(fd, &answer, sizeof answer, 3000));
    assert_int_equal(answer.outcome, SITE_JOIN_REJECTED);
    assert_non_null(strstr(answer.text, "version 9"));
    assert_non_null(strstr(answer.text, "version 1"));
    close(fd);
    (void)ranks_start(&ranks, 1, ranks_meet);
    all_end_with(&ranks, OK);
    ranks_finish(&ranks);
}

static void garbage_and_silent_strangers_do_not_disturb_the_meeting(void **state) {
    (void)state;
    struct ranks ranks;
    struct site_hello hello = {
        .magic = SITE_MAGIC, .version = SITE_VERSION, .job_id = 7, .world = 2};
    int strangers[80];
    char rest[64];
    ranks_init(&ranks, 2, 8000);
    (void)ranks_start(&ranks, 0, ranks_meet);
    for (int i = 0; i < 80; i++) { /* more than are heard at a time */
        strangers[i] = call_rank_0(&ranks);
        hello.rank = i % 4 == 2 ? 77 : 1; /* no such rank */
        hello.link = i % 4 == 3 ? 1 : 0;  /* the second connection first */
        if (i % 4 == 1) {
            (void)site_send(strangers[i], "GET / HTTP/1.1\r\n\r\n", 18, 0);
        } else if (i % 4 > 1) {
            (void)site_send(strangers[i], &hello, sizeof hello, 0);
        }
    }
    (void)site_send(strangers[0], &hello, 5, 0); /* and half a greeting */
    (void)ranks_start(&ranks, 1, ranks_meet);
    all_end_with(&ranks, OK);
    for (int i = 0; i < 80; i++) {
        /* all were closed in the end */
        ssize_t got = 1;
        while (got > 0) {
            got = recv(strangers[i], rest, sizeof rest, 0);
        }
        close(strangers[i]);
    }
    ranks_finish(&ranks);
}

/* It gets as far as waiting for the others, is killed, and comes again. */
static void a_rank_that_dies_while_others_are_awaited_may_come_again(void **state) {
    (void)state;
    struct ranks ranks;
    ranks_init(&ranks, 3, 5000);
    (void)ranks_start(&ranks, 0, ranks_meet);
    for (int round = 0; round < 5; round++) {
        int index = ranks_start(&ranks, 1, ranks_meet);
        nanosleep(&(struct timespec){.tv_nsec = (round + 1) * 3000000L}, NULL);
        assert_int_equal(kill(ranks.pids[index], SIGKILL), 0);
        assert_true(ranks_await(&ranks, ranks_have_ended, 0, 1000));
        ranks.records[index].status = OK;
    }
    (void)ranks_start(&ranks, 1, ranks_meet);
    (void)ranks_start(&ranks, 2, ranks_meet);
    all_end_with(&ranks, OK);
    ranks_finish(&ranks);
}

static void addresses_that_cannot_be_are_faults_at_once(void **state) {
    (void)state;
    static const struct {
        int rank;
        const char *address;
        const char *place, *reason;
    } ROWS[] = {
        {0, "192.0.2.77", "rank 0", "not a local address"}, /* for documents: nobody's */
        {0, "no-such-host.invalid", "no-such-host.invalid", "cannot resolve"},
        {1, "no-such-host.invalid", "no-such-host.invalid", "cannot resolve"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct ranks ranks;
        ranks_init(&ranks, 2, 400);
        struct launch_info place = ranks_place(&ranks, ROWS[i].rank);
        place.listener = 0;
        snprintf(place.address, sizeof place.address, "%s", ROWS[i].address);
        (void)ranks_start_place(&ranks, &place, ranks_meet);
        assert_true(ranks_await(&ranks, ranks_have_ended, -1, 5000));
        assert_string_equal(ranks.records[0].fault.subject, ROWS[i].place);
        assert_true(says(&ranks.records[0].fault, ROWS[i].reason));
        ranks_finish(&ranks);
    }
}

static void a_taken_port_is_named(void **state) {
    (void)state;
    struct ranks ranks;
    ranks_init(&ranks, 2, 400);
    struct launch_info place = ranks_place(&ranks, 0);
    place.listener = 0; /* this test listens there */
    int holder = dup(ranks.listener);
    (void)ranks_start_place(&ranks, &place, ranks_meet);
    all_end_with(&ranks, STATUS_INPUT);
    assert_true(says(&ranks.records[0].fault, "is in use by another process"));
    close(holder);
    ranks_finish(&ranks);
}

static void meet_with_few_files(const struct launch_info *place, struct record *record) {
    const struct rlimit few = {24, 24};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    ranks_meet(place, record);
}

/* A world that this process can never have the connections of: known before anybody comes. */
static void a_limit_of_open_files_is_named_at_once(void **state) {
    (void)state;
    struct ranks ranks;
    ranks_init(&ranks, TEST_RANKS_MAX, 5000);
    (void)ranks_start(&ranks, 0, meet_with_few_files);
    assert_true(ranks_await(&ranks, ranks_have_ended, -1, 2500));
    assert_int_equal(ranks.records[0].status, STATUS_FAILED);
    assert_string_equal(ranks.records[0].fault.subject, "rank 0");
    assert_true(says(&ranks.records[0].fault, "Too many open files"));
    ranks_finish(&ranks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_meet_in_any_order_at_an_address),
        cmocka_unit_test(missing_ranks_are_named_to_all),
        cmocka_unit_test(a_missing_rank_0_is_named_with_its_address),
        cmocka_unit_test(a_second_process_of_a_rank_is_refused_with_both_names),
        cmocka_unit_test(processes_of_another_run_are_refused_and_the_others_meet),
        cmocka_unit_test(another_version_is_told_both_versions),
        cmocka_unit_test(garbage_and_silent_strangers_do_not_disturb_the_meeting),
        cmocka_unit_test(a_rank_that_dies_while_others_are_awaited_may_come_again),
        cmocka_unit_test(addresses_that_cannot_be_are_faults_at_once),
        cmocka_unit_test(a_taken_port_is_named),
        cmocka_unit_test(a_limit_of_open_files_is_named_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
