#include "runtime/swarm/ledger/entry.h"

#include "base/check.h"

#include <string.h>

/* The list stays ascending, and adjacent ranges are merged, so that it needs as few rows as
 * possible. */
static void remove_row(struct data_cursor *cursor, uint32_t row) {
    cursor->returned_count -= 1;
    memmove(&cursor->returned[row], &cursor->returned[row + 1],
            (cursor->returned_count - row) * sizeof(cursor->returned[0]));
}

static bool insert_row(struct data_cursor *cursor, uint32_t row, struct sample_range range) {
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
        remove_row(cursor, 0);
    }
    return range;
}

bool cursor_reclaim(struct data_cursor *cursor, struct sample_range range) {
    for (uint32_t row = 0; row < cursor->returned_count; row++) {
        struct sample_range *have = &cursor->returned[row];
        if (range.begin < have->begin || range.end > have->end) {
            continue;
        }
        struct sample_range tail = {range.end, have->end};
        bool has_head = have->begin < range.begin;
        bool has_tail = tail.begin < tail.end;
        if (has_head && has_tail) {
            if (!insert_row(cursor, row + 1, tail)) {
                return false;
            }
            cursor->returned[row].end = range.begin;
        } else if (has_head) {
            have->end = range.begin;
        } else if (has_tail) {
            *have = tail;
        } else {
            remove_row(cursor, row);
        }
        return true;
    }
    return false;
}

void cursor_return(struct data_cursor *cursor, struct sample_range range) {
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
        remove_row(cursor, row);
    } else if (joins_before) {
        before->end = range.end;
    } else if (joins_after) {
        after->begin = range.begin;
    } else {
        /* If the list is full, the range is dropped, and its samples are never used. */
        (void)insert_row(cursor, row, range);
    }
}
