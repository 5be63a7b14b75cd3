#include "runtime/data/sample_assignment.h"

#include "base/bytes.h"
#include "base/check.h"

/* Returns the end of the assigned range that contains `sample`, or `sample` if no range contains
 * it. */
static uint64_t assigned_range_end(const struct sample_assignment *assignment, uint64_t sample) {
    for (uint32_t i = 0; i < assignment->assigned_count; i++) {
        if (sample >= assignment->assigned[i].begin && sample < assignment->assigned[i].end) {
            return assignment->assigned[i].end;
        }
    }
    return sample;
}

/* True if all samples of `trained` are assigned; `trained` may cover several adjacent assigned
 * ranges. */
static bool is_assigned(const struct sample_assignment *assignment,
                        const struct sample_range *trained) {
    uint64_t at = trained->begin;
    uint64_t next = assigned_range_end(assignment, at);
    while (next > at && next < trained->end) {
        at = next;
        next = assigned_range_end(assignment, at);
    }
    return next >= trained->end;
}

bool assignment_set_ranges(struct sample_assignment *assignment, const struct sample_range *ranges,
                           uint32_t count) {
    ASSERT(count <= SWARM_SEAT_RANGES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        assignment->assigned[i] = ranges[i];
    }
    assignment->assigned_count = count;
    /* assignment_mark_trained adds at most one range for each assigned range, so `trained` always
     * has space. */
    bool all_assigned = assignment->trained_count <= ASSIGNMENT_TRAINED_MAX - SWARM_SEAT_RANGES_MAX;
    for (uint32_t i = 0; i < assignment->trained_count; i++) {
        all_assigned = all_assigned && is_assigned(assignment, &assignment->trained[i]);
    }
    return all_assigned;
}

void assignment_clear_trained(struct sample_assignment *assignment) {
    assignment->trained_count = 0;
    assignment->tokens = 0;
}

uint64_t assignment_trained_samples(const struct sample_assignment *assignment) {
    uint64_t samples = 0;
    for (uint32_t i = 0; i < assignment->trained_count; i++) {
        samples += assignment->trained[i].end - assignment->trained[i].begin;
    }
    return samples;
}

/* Returns the first sample at or after `sample` that is not trained. */
static uint64_t next_untrained_sample(const struct sample_assignment *assignment, uint64_t sample) {
    for (uint32_t i = 0; i < assignment->trained_count; i++) {
        const struct sample_range *trained = &assignment->trained[i];
        if (sample >= trained->begin && sample < trained->end) {
            sample = trained->end;
        }
    }
    return sample;
}

bool assignment_next_window(const struct sample_assignment *assignment, struct sample_order *order,
                            struct assignment_position *position, int64_t *window) {
    for (; position->range < assignment->assigned_count; position->range++, position->sample = 0) {
        const struct sample_range *range = &assignment->assigned[position->range];
        uint64_t from = max_u64(position->sample, range->begin);
        uint64_t at = next_untrained_sample(assignment, from);
        if (at < range->end && at <= DATA_CURSOR_MAX) {
            position->sample = at + 1;
            *window = sample_order_window(order, at);
            return true;
        }
    }
    return false;
}

/* Adds a trained range, and merges it with all ranges that overlap or adjoin it. */
static void add_trained(struct sample_assignment *assignment, struct sample_range range) {
    uint32_t separate_count = 0;
    struct sample_range joined = range;
    for (uint32_t i = 0; i < assignment->trained_count; i++) {
        struct sample_range old = assignment->trained[i];
        if (old.end < joined.begin || old.begin > joined.end) {
            assignment->trained[separate_count++] = old;
            continue;
        }
        joined.begin = min_u64(old.begin, joined.begin);
        joined.end = max_u64(old.end, joined.end);
    }
    ASSERT(separate_count < ASSIGNMENT_TRAINED_MAX);
    uint32_t at = separate_count;
    for (; at > 0 && assignment->trained[at - 1].begin > joined.begin; at--) {
        assignment->trained[at] = assignment->trained[at - 1];
    }
    assignment->trained[at] = joined;
    assignment->trained_count = separate_count + 1;
}

void assignment_mark_trained(struct sample_assignment *assignment,
                             const struct assignment_position *from,
                             const struct assignment_position *to, int64_t tokens) {
    for (uint32_t i = from->range; i < assignment->assigned_count && i <= to->range; i++) {
        struct sample_range range = assignment->assigned[i];
        if (i == from->range && from->sample > range.begin) {
            range.begin = from->sample;
        }
        if (i == to->range && to->sample < range.end) {
            range.end = to->sample;
        }
        if (range.begin < range.end) {
            add_trained(assignment, range);
        }
    }
    assignment->tokens += tokens;
}
