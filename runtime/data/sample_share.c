#include "runtime/data/sample_share.h"

#include "base/check.h"

/* Where the given range that holds `sample` ends; `sample` itself when none does. */
static uint64_t given_until(const struct sample_assignment *share, uint64_t sample) {
    for (uint32_t i = 0; i < share->given_count; i++) {
        if (sample >= share->given[i].begin && sample < share->given[i].end) {
            return share->given[i].end;
        }
    }
    return sample;
}

/* What was trained may go over from one given range into another that touches it. */
static bool is_given(const struct sample_assignment *share, const struct sample_range *trained) {
    uint64_t at = trained->begin;
    uint64_t next = given_until(share, at);
    while (next > at && next < trained->end) {
        at = next;
        next = given_until(share, at);
    }
    return next >= trained->end;
}

bool assignment_set(struct sample_assignment *share, const struct sample_range *ranges,
                    uint32_t count) {
    ASSERT(count <= SWARM_SEAT_RANGES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        share->given[i] = ranges[i];
    }
    share->given_count = count;
    /* Each range given adds one place at most, so marks always have room. */
    bool all = share->trained_count <= ASSIGNMENT_TRAINED_MAX - SWARM_SEAT_RANGES_MAX;
    for (uint32_t i = 0; i < share->trained_count; i++) {
        all = all && is_given(share, &share->trained[i]);
    }
    return all;
}

void assignment_clear_trained(struct sample_assignment *share) {
    share->trained_count = 0;
    share->tokens = 0;
}

/* Where training goes on at or behind `sample`. */
static uint64_t behind_trained(const struct sample_assignment *share, uint64_t sample) {
    for (uint32_t i = 0; i < share->trained_count; i++) {
        const struct sample_range *trained = &share->trained[i];
        if (sample >= trained->begin && sample < trained->end) {
            sample = trained->end;
        }
    }
    return sample;
}

bool assignment_next(const struct sample_assignment *share, struct sample_order *order,
                     struct assignment_position *place, int64_t *window) {
    for (; place->range < share->given_count; place->range++, place->sample = 0) {
        const struct sample_range *range = &share->given[place->range];
        uint64_t from = place->sample > range->begin ? place->sample : range->begin;
        uint64_t at = behind_trained(share, from);
        if (at < range->end && at <= DATA_CURSOR_MAX) {
            place->sample = at + 1;
            *window = sample_order_window(order, at);
            return true;
        }
    }
    return false;
}

/* One more trained range, joined with those that it meets. */
static void add(struct sample_assignment *share, struct sample_range range) {
    uint32_t kept = 0;
    struct sample_range joined = range;
    for (uint32_t i = 0; i < share->trained_count; i++) {
        struct sample_range old = share->trained[i];
        if (old.end < joined.begin || old.begin > joined.end) {
            share->trained[kept++] = old;
            continue;
        }
        joined.begin = old.begin < joined.begin ? old.begin : joined.begin;
        joined.end = old.end > joined.end ? old.end : joined.end;
    }
    ASSERT(kept < ASSIGNMENT_TRAINED_MAX);
    uint32_t at = kept;
    for (; at > 0 && share->trained[at - 1].begin > joined.begin; at--) {
        share->trained[at] = share->trained[at - 1];
    }
    share->trained[at] = joined;
    share->trained_count = kept + 1;
}

void assignment_mark_trained(struct sample_assignment *share,
                             const struct assignment_position *from,
                             const struct assignment_position *to, int64_t tokens) {
    for (uint32_t i = from->range; i < share->given_count && i <= to->range; i++) {
        struct sample_range range = share->given[i];
        if (i == from->range && from->sample > range.begin) {
            range.begin = from->sample;
        }
        if (i == to->range && to->sample < range.end) {
            range.end = to->sample;
        }
        if (range.begin < range.end) {
            add(share, range);
        }
    }
    share->tokens += tokens;
}
