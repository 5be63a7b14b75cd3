#include "runtime/swarm/ledger/entry.h"

#include "base/check.h"

#include <stdbool.h>
#include <string.h>

/* Removes element `row` of the returned ranges. */
static void remove_returned_range(struct data_cursor *cursor, uint32_t row) {
    cursor->returned_count -= 1;
    memmove(&cursor->returned[row], &cursor->returned[row + 1],
            (cursor->returned_count - row) * sizeof(cursor->returned[0]));
}

/* Inserts a range before element `row` of the returned ranges. Returns false if the list is
 * full. */
static bool insert_returned_range(struct data_cursor *cursor, uint32_t row,
                                  struct sample_range range) {
    if (cursor->returned_count == SWARM_RETURNED_RANGES_MAX) {
        return false;
    }
    memmove(&cursor->returned[row + 1], &cursor->returned[row],
            (cursor->returned_count - row) * sizeof(cursor->returned[0]));
    cursor->returned[row] = range;
    cursor->returned_count += 1;
    return true;
}

struct sample_range cursor_hand_out(struct data_cursor *cursor, uint64_t count) {
    ASSERT(count > 0);
    struct sample_range range = {cursor->position, cursor->position + count};
    if (cursor->returned_count == 0) {
        cursor->position += count;
        return range;
    }
    struct sample_range *first = &cursor->returned[0];
    range.begin = first->begin;
    range.end = first->end - first->begin > count ? first->begin + count : first->end;
    first->begin = range.end;
    if (first->begin == first->end) {
        remove_returned_range(cursor, 0);
    }
    return range;
}

bool cursor_take_returned_range(struct data_cursor *cursor, struct sample_range range) {
    for (uint32_t row = 0; row < cursor->returned_count; row++) {
        struct sample_range *have = &cursor->returned[row];
        if (range.begin < have->begin || range.end > have->end) {
            continue;
        }
        struct sample_range tail = {range.end, have->end};
        bool has_head = have->begin < range.begin;
        bool has_tail = tail.begin < tail.end;
        if (has_head && has_tail) {
            if (!insert_returned_range(cursor, row + 1, tail)) {
                return false;
            }
            cursor->returned[row].end = range.begin;
        } else if (has_head) {
            have->end = range.begin;
        } else if (has_tail) {
            *have = tail;
        } else {
            remove_returned_range(cursor, row);
        }
        return true;
    }
    return false;
}

void cursor_return_range(struct data_cursor *cursor, struct sample_range range) {
    ASSERT(range.begin <= range.end && range.end <= cursor->position);
    if (range.begin == range.end) {
        return;
    }
    uint32_t row = 0;
    while (row < cursor->returned_count && cursor->returned[row].begin < range.begin) {
        row++;
    }
    struct sample_range *before = row > 0 ? &cursor->returned[row - 1] : NULL;
    struct sample_range *after = row < cursor->returned_count ? &cursor->returned[row] : NULL;
    ASSERT((before == NULL || before->end <= range.begin) &&
           (after == NULL || after->begin >= range.end));
    bool joins_before = before != NULL && before->end == range.begin;
    bool joins_after = after != NULL && after->begin == range.end;
    if (joins_before && joins_after) {
        before->end = after->end;
        remove_returned_range(cursor, row);
    } else if (joins_before) {
        before->end = range.end;
    } else if (joins_after) {
        after->begin = range.begin;
    } else {
        /* If the list is full, the range is dropped, and its samples are never used. */
        (void)insert_returned_range(cursor, row, range);
    }
}

void cursor_return_unused(struct data_cursor *cursor, const struct entry *entry, uint64_t used) {
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        const struct entry_seat *seat = &entry->seats[i];
        uint64_t trained = (used >> i & 1) != 0 ? entry->members[i].samples : 0;
        for (uint32_t r = 0; r < seat->range_count; r++) {
            struct sample_range range = seat->ranges[r];
            const uint64_t samples = range.end - range.begin;
            const uint64_t kept = trained < samples ? trained : samples;
            range.begin += kept;
            trained -= kept;
            cursor_return_range(cursor, range);
        }
    }
}

/* Collects the ranges of all seats in ascending order. Returns their number. */
static uint32_t collect_sorted_ranges(const struct entry *entry, struct sample_range *sorted) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        for (uint32_t r = 0; r < entry->seats[i].range_count; r++) {
            const struct sample_range range = entry->seats[i].ranges[r];
            uint32_t at = count++;
            for (; at > 0 && sorted[at - 1].begin > range.begin; at--) {
                sorted[at] = sorted[at - 1];
            }
            sorted[at] = range;
        }
    }
    return count;
}

/* Whether the samples that were free in `before` are exactly those that are free after `entry`
 * and those of its seats, each once: together, the two must cover each free range of `before`
 * without gaps and overlaps. The last free range begins at the position of the cursor and has no
 * end. */
static bool assigns_exactly_its_ranges(const struct data_cursor *before,
                                       const struct entry *entry) {
    struct sample_range taken[SWARM_MEMBERS_MAX * SWARM_SEAT_RANGES_MAX];
    const struct data_cursor *after = &entry->cursor;
    const uint32_t taken_count = collect_sorted_ranges(entry, taken);
    uint32_t next_taken = 0, next_free = 0;
    for (uint32_t row = 0; row <= before->returned_count; row++) {
        const bool is_last = row == before->returned_count;
        const uint64_t end = is_last ? after->position : before->returned[row].end;
        uint64_t at = is_last ? before->position : before->returned[row].begin;
        while (at < end) {
            if (next_free < after->returned_count && after->returned[next_free].begin == at) {
                at = after->returned[next_free++].end;
            } else if (next_taken < taken_count && taken[next_taken].begin == at) {
                at = taken[next_taken++].end;
            } else {
                return false;
            }
        }
        if (at != end) {
            return false;
        }
    }
    return next_taken == taken_count && next_free == after->returned_count;
}

static bool are_cursors_equal(const struct data_cursor *a, const struct data_cursor *b) {
    return a->position == b->position && a->returned_count == b->returned_count &&
           memcmp(a->returned, b->returned, a->returned_count * sizeof a->returned[0]) == 0;
}

/* Whether all samples of a range are assigned, so that it may be returned. */
static bool is_range_assigned(const struct data_cursor *cursor, struct sample_range range) {
    bool is_free = range.end > cursor->position;
    for (uint32_t row = 0; row < cursor->returned_count; row++) {
        is_free |=
            range.begin < cursor->returned[row].end && cursor->returned[row].begin < range.end;
    }
    return !is_free;
}

/* Whether a COMMIT or ABORT returns exactly the unused samples. Its seats have the ranges of the
 * round's OPEN, all of which are assigned in `before`. */
static bool returns_unused_samples(const struct data_cursor *before, const struct entry *entry) {
    struct data_cursor expected = *before;
    uint64_t used = 0;
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        for (uint32_t r = 0; r < entry->seats[i].range_count; r++) {
            if (!is_range_assigned(before, entry->seats[i].ranges[r])) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        used |= entry->members[i].contributed > 0 ? (uint64_t)1 << i : 0;
    }
    cursor_return_unused(&expected, entry, used);
    return are_cursors_equal(&expected, &entry->cursor);
}

const char *cursor_step_error(const struct data_cursor *before, const struct entry *entry) {
    switch (entry->kind) {
    case ENTRY_GENESIS:
        return entry->cursor.position == 0
                   ? NULL
                   : "is a genesis, but its data cursor has samples in use already";
    case ENTRY_OPEN:
        return assigns_exactly_its_ranges(before, entry) ? NULL
                                                         : "assigns samples that were not free, or "
                                                           "changes the data cursor in another way";
    case ENTRY_COMMIT:
    case ENTRY_ABORT:
        return returns_unused_samples(before, entry)
                   ? NULL
                   : "has a data cursor that does not return exactly the samples that no member "
                     "trained on";
    case ENTRY_SUSPEND:
        return are_cursors_equal(before, &entry->cursor)
                   ? NULL
                   : "only suspends a member, but also changes the data cursor";
    case ENTRY_ROLLBACK:
        break;
    }
    return NULL;
}
