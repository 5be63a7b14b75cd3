/* Which slices voters draw for audits: rates, bytes, secrecy; and the probability of detection
 * against a count over many simulated rounds. */
#include "base/check.h"
#include "runtime/swarm/protocol/audit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SLICES_MOST = 256, DRAWS = 40000 };

static struct entry entry;
static struct entry_slice slices[SLICES_MOST];

/* All members contribute to all slices, which they own in turn. */
static void make_entry(uint32_t slice_count, uint32_t seats) {
    memset(&entry, 0, sizeof entry);
    entry.slices = slices;
    entry.slice_count = slice_count;
    entry.seat_count = seats;
    for (uint32_t seat = 0; seat < seats; seat++) {
        entry.members[seat].weight = 1;
    }
    for (uint32_t s = 0; s < slice_count; s++) {
        slices[s] =
            (struct entry_slice){.owner = s % seats, .contributors = (UINT64_C(1) << seats) - 1};
    }
}

static struct hash hash_of_number(uint64_t number) {
    return hash_of(&number, sizeof number);
}

static struct audit_draw draw_of(uint64_t number, int seat, bool has_sketches) {
    return (struct audit_draw){.secret = hash_of_number(1000 + (uint64_t)seat),
                               .seed = hash_of_number(number),
                               .entry = &entry,
                               .seat = seat,
                               .has_own = true,
                               .has_sketches = has_sketches};
}

static void each_slice_of_the_others_is_drawn_equally_often(void **state) {
    (void)state;
    uint32_t counts[SLICES_MOST] = {0}, drawn = 0;
    make_entry(40, 8);
    for (uint64_t number = 0; number < DRAWS; number++) {
        const struct audit_draw draw = draw_of(number, 3, true);
        uint32_t slice = 0, again = 0;
        if (audit_draw_slice(&draw, &slice)) {
            assert_true(audit_draw_slice(&draw, &again));
            assert_int_equal(slice, again);
            counts[slice]++;
            drawn++;
        }
    }
    assert_int_equal(drawn, DRAWS); /* 8 x 0.25 % of 70 slices is more than one */
    for (uint32_t s = 0; s < entry.slice_count; s++) {
        double expected = slices[s].owner == 3 ? 0 : DRAWS / 35.0;
        assert_true(fabs(counts[s] - expected) <= 5 * sqrt(expected));
    }
}

static void slices_without_their_owners_values_are_drawn_only_without_sketches(void **state) {
    (void)state;
    make_entry(8, 8);
    slices[1].contributors &= ~UINT64_C(2);
    entry.members[2].weight = 0;
    uint32_t counts[2][SLICES_MOST] = {{0}};
    for (uint64_t number = 0; number < DRAWS; number++) {
        for (int has_sketches = 0; has_sketches < 2; has_sketches++) {
            const struct audit_draw draw = draw_of(number, 0, has_sketches == 1);
            uint32_t slice = 0;
            if (audit_draw_slice(&draw, &slice)) {
                counts[has_sketches][slice]++;
            }
        }
    }
    assert_int_equal(counts[1][1] + counts[1][2] + counts[1][0] + counts[0][0], 0);
    assert_true(counts[0][1] > 0 && counts[0][2] > 0 && counts[1][3] > 0);
}

static void the_fetched_bytes_are_within_the_limit(void **state) {
    (void)state;
    static const uint32_t SHAPES[][2] = {{5, 5}, {16, 8}, {32, 8}, {200, 16}};
    for (size_t i = 0; i < ARRAY_COUNT(SHAPES); i++) {
        for (int has_sketches = 0; has_sketches < 2; has_sketches++) {
            make_entry(SHAPES[i][0], SHAPES[i][1]);
            double fetched = 0;
            for (uint64_t number = 0; number < DRAWS; number++) {
                const struct audit_draw draw = draw_of(number, 1, has_sketches == 1);
                uint32_t slice = 0;
                if (audit_draw_slice(&draw, &slice)) {
                    fetched += __builtin_popcountll(audit_needed_seats(&draw, slice));
                }
            }
            const double seats = entry.seat_count;
            const double exchange = 2 * entry.slice_count * (seats - 1) / seats;
            const double part = fetched / DRAWS / AUDIT_ROUNDS / exchange;
            printf("%3u slices, %2u voters, %s: %.4f %% of the bytes\n", entry.slice_count,
                   entry.seat_count, has_sketches == 1 ? "sketches" : "int4    ", 100 * part);
            assert_true(part <= 1.03 * (has_sketches == 1 ? AUDIT_BYTES_MAX_SKETCHED
                                                          : AUDIT_BYTES_MAX_INT4));
            assert_true(part > 0);
        }
    }
}

/* Another secret or another seed draws independently: nobody else knows the slice. */
static void draws_depend_on_the_secret_and_the_seed(void **state) {
    (void)state;
    make_entry(64, 8);
    uint32_t same_secret = 0, same_seed = 0;
    for (uint64_t number = 0; number < DRAWS; number++) {
        const struct audit_draw draw = draw_of(number, 1, true);
        struct audit_draw other = draw, later = draw_of(number + 1, 1, true);
        other.secret = hash_of_number(number);
        uint32_t slice = 0, other_slice = 1, later_slice = 1;
        (void)audit_draw_slice(&draw, &slice);
        (void)audit_draw_slice(&other, &other_slice);
        (void)audit_draw_slice(&later, &later_slice);
        same_seed += slice == other_slice;
        same_secret += slice == later_slice;
    }
    const double expected = DRAWS / 56.0;
    assert_true(fabs(same_seed - expected) <= 5 * sqrt(expected));
    assert_true(fabs(same_secret - expected) <= 5 * sqrt(expected));
}

/* Counts the audited proposals in which one of the first `lies` slices of member 0 is drawn. */
static double count_found(uint32_t lies, bool has_sketches) {
    uint32_t found = 0;
    for (uint64_t number = 0; number < DRAWS; number++) {
        bool is_found = false;
        for (int seat = 1; seat < (int)entry.seat_count; seat++) {
            const struct audit_draw draw = draw_of(number, seat, has_sketches);
            uint32_t slice = 0;
            is_found |= audit_draw_slice(&draw, &slice) && slices[slice].owner == 0 &&
                        slice / entry.seat_count < lies;
        }
        found += is_found;
    }
    return (double)found / DRAWS;
}

static void the_probability_is_the_counted_one(void **state) {
    (void)state;
    for (int has_sketches = 0; has_sketches < 2; has_sketches++) {
        for (uint32_t lies = 1; lies <= 4; lies += 3) {
            make_entry(32, 8);
            const struct audit_swarm swarm = {32, 8, has_sketches == 1};
            const double counted = count_found(lies, has_sketches == 1) / AUDIT_ROUNDS;
            const double one = audit_detection_probability(&swarm, lies, 1);
            printf("%s, %u wrong of 32: %.2f %% a round, counted %.2f %%; %.1f %% in 10 rounds\n",
                   has_sketches == 1 ? "sketches" : "int4    ", lies, 100 * one, 100 * counted,
                   100 * audit_detection_probability(&swarm, lies, 10));
            assert_true(fabs(counted - one) <= 0.002);
            assert_true(fabs(audit_detection_probability(&swarm, lies, 10) -
                             (1 - pow(1 - one, 10))) < 1e-12);
        }
    }
    assert_true(audit_detection_probability(&(struct audit_swarm){32, 4, true}, 8, 100) == 0);
    assert_true(audit_detection_probability(&(struct audit_swarm){32, 8, true}, 0, 100) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slice_of_the_others_is_drawn_equally_often),
        cmocka_unit_test(slices_without_their_owners_values_are_drawn_only_without_sketches),
        cmocka_unit_test(the_fetched_bytes_are_within_the_limit),
        cmocka_unit_test(draws_depend_on_the_secret_and_the_seed),
        cmocka_unit_test(the_probability_is_the_counted_one),
    };
    return cmocka_run_group_tests_name("audit", tests, NULL, NULL);
}
