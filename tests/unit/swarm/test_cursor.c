/* test_cursor: no sample is given twice, none is lost while there is room, against a bitmap. */
#include "runtime/swarm/ledger/entry.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 4096, HELD_MAX = 64, STEPS = 2000 };

static void cursor_gives_each_sample_to_one_holder_under_random_traffic(void **state) {
    (void)state;
    static struct data_cursor cursor;
    static uint8_t holders[SAMPLES];
    struct sample_range held[HELD_MAX];
    uint32_t held_count = 0;
    uint64_t key = random_key(7, "cursor");
    for (uint64_t step = 0; step < STEPS; step++) {
        int takes = held_count == 0 || random_uniform(key, 2 * step) < 0.5;
        if (takes && held_count < HELD_MAX) {
            uint64_t count = 1 + (uint64_t)(random_uniform(key, 2 * step + 1) * 20);
            struct sample_range range = cursor_hand_out(&cursor, count);
            assert_true(range.begin < range.end && range.end - range.begin <= count);
            assert_true(range.end <= SAMPLES);
            for (uint64_t k = range.begin; k < range.end; k++) {
                assert_int_equal(holders[k]++, 0);
            }
            held[held_count++] = range;
        } else {
            uint32_t at = (uint32_t)(random_uniform(key, 2 * step + 1) * held_count);
            for (uint64_t k = held[at].begin; k < held[at].end; k++) {
                holders[k]--;
            }
            cursor_return_range(&cursor, held[at]);
            held[at] = held[--held_count];
        }
    }
    /* What nobody holds is exactly what the cursor lists. */
    for (uint32_t row = 0; row < cursor.returned_count; row++) {
        struct sample_range range = cursor.returned[row];
        assert_true(row == 0 || cursor.returned[row - 1].end < range.begin);
        for (uint64_t k = range.begin; k < range.end; k++) {
            assert_int_equal(holders[k]++, 0);
        }
    }
    for (uint64_t k = 0; k < cursor.position; k++) {
        assert_int_equal(holders[k], 1);
    }
}

static void cursor_takes_back_a_range_from_the_middle_of_a_row(void **state) {
    (void)state;
    static struct data_cursor cursor = {.position = 100, .returned_count = 1};
    cursor.returned[0] = (struct sample_range){10, 50};
    assert_int_equal(cursor_take_returned_range(&cursor, (struct sample_range){20, 30}), 1);
    assert_int_equal(cursor.returned_count, 2);
    assert_int_equal(cursor.returned[0].end, 20);
    assert_int_equal(cursor.returned[1].begin, 30);
    assert_int_equal(cursor.returned[1].end, 50);
    assert_int_equal(cursor_take_returned_range(&cursor, (struct sample_range){15, 35}), 0);
    assert_int_equal(cursor.returned_count, 2);
}

static void cursor_skips_what_its_list_has_no_row_for(void **state) {
    (void)state;
    static struct data_cursor cursor = {.position = 4 * SWARM_RETURNED_RANGES_MAX};
    for (uint64_t row = 0; row <= SWARM_RETURNED_RANGES_MAX; row++) {
        cursor_return_range(&cursor, (struct sample_range){3 * row, 3 * row + 1});
    }
    assert_int_equal(cursor.returned_count, SWARM_RETURNED_RANGES_MAX);
    assert_int_equal(cursor.returned[SWARM_RETURNED_RANGES_MAX - 1].begin,
                     3 * (SWARM_RETURNED_RANGES_MAX - 1));
}

/* ---- steps of a chain, against bitmaps of the free samples ---- */

enum { STEP_SEATS = 5, STEP_ROUNDS = 400, CHANGES = 40 };

static uint64_t step_key, drawn;

static uint64_t draw(uint64_t below) {
    return (uint64_t)(random_uniform(step_key, drawn++) * (double)below);
}

static void mark(uint8_t *free_count, struct sample_range range, int by) {
    for (uint64_t k = range.begin; k < range.end && k < SAMPLES; k++) {
        free_count[k] = (uint8_t)(free_count[k] + by);
    }
}

static void mark_cursor(uint8_t *free_count, const struct data_cursor *cursor, int by) {
    mark(free_count, (struct sample_range){cursor->position, SAMPLES}, by);
    for (uint32_t row = 0; row < cursor->returned_count; row++) {
        mark(free_count, cursor->returned[row], by);
    }
}

/* The truth: for each sample, free before = free after + assigned (OPEN) - returned. */
static bool is_right_step(const struct data_cursor *before, const struct entry *entry) {
    static uint8_t balance[SAMPLES], zero[SAMPLES];
    memset(balance, 0, sizeof balance);
    mark_cursor(balance, before, 1);
    mark_cursor(balance, &entry->cursor, -1);
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        uint64_t trained = entry->kind == ENTRY_COMMIT ? entry->members[i].samples : 0;
        for (uint32_t r = 0; r < entry->seats[i].range_count; r++) {
            for (uint64_t k = entry->seats[i].ranges[r].begin; k < entry->seats[i].ranges[r].end;
                 k++) {
                const bool is_returned = trained == 0;
                trained -= !is_returned;
                balance[k] = (uint8_t)(balance[k] + (entry->kind == ENTRY_OPEN ? -1 : is_returned));
            }
        }
    }
    return memcmp(balance, zero, sizeof balance) == 0 &&
           (entry->kind == ENTRY_OPEN || entry->cursor.position == before->position);
}

/* An OPEN that gives random numbers of samples, also short pieces of them. */
static void open_next(const struct data_cursor *cursor, struct entry *entry) {
    memset(entry, 0, sizeof *entry);
    entry->kind = ENTRY_OPEN;
    entry->cursor = *cursor;
    entry->seat_count = 1 + (uint32_t)draw(STEP_SEATS);
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        struct entry_seat *seat = &entry->seats[i];
        seat->range_count = (uint32_t)draw(SWARM_SEAT_RANGES_MAX + 1);
        for (uint32_t r = 0; r < seat->range_count; r++) {
            seat->ranges[r] = cursor_hand_out(&entry->cursor, 1 + draw(9));
        }
    }
}

/* The end of the round of an OPEN; a commit names all seats, of which some trained nothing. */
static void end_round(struct entry *entry) {
    entry->kind = draw(2) == 0 ? ENTRY_ABORT : ENTRY_COMMIT;
    if (entry->kind == ENTRY_COMMIT) {
        for (uint32_t i = 0; i < entry->seat_count; i++) {
            uint64_t samples = 0;
            for (uint32_t r = 0; r < entry->seats[i].range_count; r++) {
                samples += entry->seats[i].ranges[r].end - entry->seats[i].ranges[r].begin;
            }
            entry->members[i].samples = draw(samples + 1);
            entry->members[i].contributed = 1;
        }
    }
    cursor_return_unused(&entry->cursor, entry, entry->kind == ENTRY_COMMIT ? UINT64_MAX : 0);
}

/* Moves one bound of the cursor or of a seat's range by a few samples. */
static void change_bound(struct entry *entry) {
    uint64_t *bounds[3] = {&entry->cursor.position};
    const struct entry_seat *seat = &entry->seats[draw(entry->seat_count)];
    struct data_cursor *cursor = &entry->cursor;
    uint32_t count = 1;
    if (cursor->returned_count > 0) {
        struct sample_range *row = &cursor->returned[draw(cursor->returned_count)];
        bounds[count++] = draw(2) == 0 ? &row->begin : &row->end;
    }
    if (seat->range_count > 0 && entry->kind == ENTRY_OPEN) {
        const struct sample_range *range = &seat->ranges[draw(seat->range_count)];
        bounds[count++] = (uint64_t *)(uintptr_t)(draw(2) == 0 ? &range->begin : &range->end);
    }
    uint64_t *bound = bounds[draw(count)];
    *bound += draw(2) == 0 || *bound < 3 ? 1 + draw(3) : UINT64_MAX - draw(3);
}

static bool is_valid(const struct entry *entry) {
    const struct data_cursor *cursor = &entry->cursor;
    uint64_t least = 0;
    bool valid = cursor->position < SAMPLES;
    for (uint32_t row = 0; row < cursor->returned_count; row++) {
        const struct sample_range range = cursor->returned[row];
        valid &= range.begin >= least && range.begin < range.end && range.end <= cursor->position;
        least = range.end + 1;
    }
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        for (uint32_t r = 0; r < entry->seats[i].range_count; r++) {
            const struct sample_range range = entry->seats[i].ranges[r];
            valid &= range.begin < range.end && range.end < SAMPLES;
        }
    }
    return valid;
}

static uint32_t check_step(const struct data_cursor *before, const struct entry *entry) {
    static struct entry changed;
    uint32_t refused = 0;
    assert_true(is_right_step(before, entry));
    assert_null(cursor_step_error(before, entry));
    for (uint32_t i = 0; i < CHANGES; i++) {
        changed = *entry;
        change_bound(&changed);
        if (is_valid(&changed)) {
            const bool is_right = is_right_step(before, &changed);
            assert_int_equal(cursor_step_error(before, &changed) == NULL, is_right);
            refused += !is_right;
        }
    }
    return refused;
}

static void a_chain_accepts_exactly_the_cursors_that_use_no_sample_twice(void **state) {
    (void)state;
    static struct entry entry;
    static struct data_cursor before;
    uint32_t refused = 0;
    step_key = random_key(11, "cursor steps");
    memset(&before, 0, sizeof before);
    for (uint32_t round = 0; round < STEP_ROUNDS && before.position < SAMPLES - 200; round++) {
        open_next(&before, &entry);
        refused += check_step(&before, &entry);
        before = entry.cursor;
        end_round(&entry);
        refused += check_step(&before, &entry);
        before = entry.cursor;
    }
    assert_true(refused > 1000);
    entry = (struct entry){.kind = ENTRY_SUSPEND, .cursor = before};
    assert_null(cursor_step_error(&before, &entry));
    entry.cursor.position++;
    assert_non_null(cursor_step_error(&before, &entry));
    entry = (struct entry){.kind = ENTRY_GENESIS, .cursor.position = 1};
    assert_non_null(cursor_step_error(&before, &entry));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cursor_gives_each_sample_to_one_holder_under_random_traffic),
        cmocka_unit_test(cursor_takes_back_a_range_from_the_middle_of_a_row),
        cmocka_unit_test(cursor_skips_what_its_list_has_no_row_for),
        cmocka_unit_test(a_chain_accepts_exactly_the_cursors_that_use_no_sample_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
