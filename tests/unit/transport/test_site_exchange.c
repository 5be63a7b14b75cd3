/* site: what ranks exchange, and what they agree on. */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* In a rank's process: what does not hold ends it, and the test sees the line. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d: %s:%d: %s\n", place->rank, __FILE__, __LINE__, #condition);  \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

static const int WORLDS[] = {1, 2, 3, 8};

static void run_everywhere(rank_body *body) {
    for (size_t i = 0; i < sizeof WORLDS / sizeof WORLDS[0]; i++) {
        struct ranks ranks;
        ranks_init(&ranks, WORLDS[i], 5000);
        ranks_start_all(&ranks, body);
        bool ended = ranks_await(&ranks, ranks_have_ended, -1, 10000);
        for (int rank = 0; ended && rank < WORLDS[i]; rank++) {
            if (ranks.exit_codes[rank] != 0) {
                fail_msg("world %d: rank %d ended with %d", WORLDS[i], rank,
                         ranks.exit_codes[rank]);
            }
        }
        ranks_finish(&ranks);
        assert_true(ended);
    }
}

static struct site *open_watched(const struct launch_info *place, struct record *record,
                                 struct region *region) {
    struct site *site = NULL;
    EXPECT(site_open(place, region, &site, &record->fault) == OK);
    EXPECT(site_start_watch(site, ranks_note_lost, record, &record->fault) == OK);
    EXPECT(memcmp(site_launch_info(site), place, sizeof *place) == 0);
    return site;
}

static uint8_t byte_of(int rank, int round, size_t at) {
    return (uint8_t)((size_t)rank * 37 + (size_t)round * 11 + at * 7 + at / 251);
}

static void exchange_sizes(const struct launch_info *place, struct record *record) {
    static const size_t SIZES[] = {1, 0, 24, 4097, SITE_BLOB_BYTES_MAX, 8};
    static uint8_t mine[SITE_BLOB_BYTES_MAX];
    struct region region = {.newest = NULL};
    struct site *site = open_watched(place, record, &region);
    uint8_t *all = malloc((size_t)place->world * SITE_BLOB_BYTES_MAX);
    process_seal(); /* nothing below may take memory from a region */
    for (int round = 0; round < (int)(sizeof SIZES / sizeof SIZES[0]); round++) {
        size_t bytes = SIZES[round];
        for (size_t at = 0; at < bytes; at++) {
            mine[at] = byte_of(place->rank, round, at);
        }
        EXPECT(site_exchange(site, mine, bytes, all, &record->fault) == OK);
        for (size_t at = 0; at < bytes * (size_t)place->world; at++) {
            EXPECT(all[at] == byte_of((int)(at / bytes), round, at % bytes));
        }
    }
    site_leave(site);
    site_leave(site);
    EXPECT(record->lost_calls == 0);
}

static void every_rank_receives_all_parts_in_rank_order(void **state) {
    (void)state;
    run_everywhere(exchange_sizes);
}

/* Rounds of agreeing: who is not OK, and with what. */
static const struct {
    enum status statuses[8];
    int decides; /* the lowest of them; -1: all are OK; ranks beyond the world do not count */
} ROUNDS[] = {
    {{OK}, -1},
    {{STATUS_INPUT}, 0},
    {{OK, STATUS_FIT}, 1},
    {{OK, STATUS_STOPPED, STATUS_FAILED}, 1},
    {{OK, OK, OK, OK, OK, STATUS_FAILED, OK, STATUS_INPUT}, 5},
    {{STATUS_FIT, STATUS_INPUT, STATUS_INPUT}, 0},
    {{OK}, -1},
};

static void agree_rounds(const struct launch_info *place, struct record *record) {
    struct region region = {.newest = NULL};
    struct site *site = open_watched(place, record, &region);
    for (size_t round = 0; round < sizeof ROUNDS / sizeof ROUNDS[0]; round++) {
        enum status mine = ROUNDS[round].statuses[place->rank];
        int decides = ROUNDS[round].decides < place->world ? ROUNDS[round].decides : -1;
        struct fault fault = {.status = OK, .subject = "untouched"};
        if (mine != OK) {
            char reason[32];
            snprintf(reason, sizeof reason, "reason %d", place->rank);
            (void)fault_set(&fault, mine, "data.train", "remedy", "%s", reason);
        }
        enum status agreed = site_agree(site, mine, &fault);
        EXPECT(agreed == (decides < 0 ? OK : ROUNDS[round].statuses[decides]));
        char where[64];
        char reason[64];
        if (decides == place->rank) {
            snprintf(where, sizeof where, "data.train"); /* its own words */
        } else {
            snprintf(where, sizeof where, "rank %d: data.train", decides);
        }
        snprintf(reason, sizeof reason, "reason %d", decides);
        if (decides < 0) {
            EXPECT(strcmp(fault.subject, "untouched") == 0);
        } else if (place->world > 1) {
            EXPECT(fault.status == agreed && strcmp(fault.subject, where) == 0);
            EXPECT(strcmp(fault.reason, reason) == 0 && strcmp(fault.remedy, "remedy") == 0);
            EXPECT(site_has_agreed(site, &fault));
            (void)fault_set(&fault, agreed, where, NULL, "another reason");
            EXPECT(!site_has_agreed(site, &fault));
        } else {
            EXPECT(strcmp(fault.subject, "data.train") == 0); /* there is no other rank to name */
        }
    }
    site_leave(site);
    EXPECT(record->lost_calls == 0);
}

static void the_lowest_rank_that_is_not_ok_decides_for_all(void **state) {
    (void)state;
    run_everywhere(agree_rounds);
}

/* Every rank finds the same, of which one of them speaks as of another rank. */
static void agree_alike(const struct launch_info *place, struct record *record) {
    struct region region = {.newest = NULL};
    struct site *site = open_watched(place, record, &region);
    struct fault fault;
    (void)fault_set(&fault, STATUS_INPUT, "rank 2", "remedy", "optimizer.lr is 2, rank 0 has 1");
    EXPECT(site_agree(site, STATUS_INPUT, &fault) == STATUS_INPUT);
    EXPECT(strcmp(fault.subject, "rank 2") == 0);
    EXPECT(place->world == 1 || site_has_agreed(site, &fault));
    EXPECT(site_agree(site, OK, &record->fault) == OK); /* to clean up together */
    EXPECT(place->world == 1 || site_has_agreed(site, &fault));
    site_leave(site);
    EXPECT(record->lost_calls == 0);
}

static void what_all_ranks_find_is_said_without_a_rank_in_front(void **state) {
    (void)state;
    run_everywhere(agree_alike);
}

/* The last rank makes another exchange than the others. */
static void exchange_unlike(const struct launch_info *place, struct record *record) {
    struct region region = {.newest = NULL};
    struct site *site = open_watched(place, record, &region);
    uint8_t mine[16] = {0};
    uint8_t all[16 * TEST_RANKS_MAX];
    int last = place->world - 1;
    char name[32];
    snprintf(name, sizeof name, "rank %d", last);
    size_t bytes = place->rank == last && last > 0 ? 16 : 8;
    enum status status = site_exchange(site, mine, bytes, all, &record->fault);
    if (last > 0) {
        EXPECT(status == STATUS_FAILED && strcmp(record->fault.subject, name) == 0);
        EXPECT(strstr(record->fault.reason, "a different exchange") != NULL);
        struct fault again = {.status = OK};
        EXPECT(site_exchange(site, mine, bytes, all, &again) == STATUS_FAILED);
        EXPECT(strcmp(again.reason, record->fault.reason) == 0);
    } else {
        EXPECT(status == OK);
    }
    site_leave(site);
    EXPECT(record->lost_calls == 0);
}

static void an_exchange_unlike_the_others_fails_everywhere(void **state) {
    (void)state;
    run_everywhere(exchange_unlike);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_receives_all_parts_in_rank_order),
        cmocka_unit_test(the_lowest_rank_that_is_not_ok_decides_for_all),
        cmocka_unit_test(what_all_ranks_find_is_said_without_a_rank_in_front),
        cmocka_unit_test(an_exchange_unlike_the_others_fails_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
