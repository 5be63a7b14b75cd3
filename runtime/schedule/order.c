#include "runtime/schedule/order.h"

static const struct operand *operand_at(const struct instruction *instruction, int index) {
    return index < OPERANDS_MAX ? &instruction->operands[index] : &instruction->workspace;
}

enum { TOUCHES_MAX = OPERANDS_MAX + 1 };

static bool same_extent_conflict(const struct instruction *a, const struct instruction *b) {
    for (int i = 0; i < TOUCHES_MAX; i++) {
        for (int j = 0; j < TOUCHES_MAX; j++) {
            const struct operand *x = operand_at(a, i);
            const struct operand *y = operand_at(b, j);
            if (x->extent != EXTENT_NONE && x->extent == y->extent &&
                ((x->access | y->access) & ACCESS_WRITE)) {
                return true;
            }
        }
    }
    return false;
}

static void add_wait(struct schedule *schedule, struct instruction *before,
                     struct instruction *after) {
    if (before->signal == EVENT_NONE) {
        before->signal = ++schedule->event_count;
    }
    for (int i = 0; i < WAITS_MAX; i++) {
        if (after->waits[i] == before->signal) {
            return;
        }
        if (after->waits[i] == EVENT_NONE) {
            after->waits[i] = before->signal;
            return;
        }
    }
    ASSERT(false && "more waits than a record holds");
}

/* For `after`: the latest earlier instruction of each other lane that it conflicts with; a wait for
 * it covers that lane's earlier ones. */
static void wait_for_conflicts(struct schedule *schedule, uint32_t after_index) {
    struct instruction *after = &schedule->instructions[after_index];
    uint32_t first = schedule->segments[after->segment].first;
    bool covered[LANE_COUNT] = {false};
    covered[after->lane] = true;
    for (uint32_t i = after_index; i > first; i--) {
        struct instruction *before = &schedule->instructions[i - 1];
        if (!covered[before->lane] && same_extent_conflict(before, after)) {
            add_wait(schedule, before, after);
            covered[before->lane] = true;
        }
    }
}

static bool segment_has_lanes(const struct schedule *schedule, const struct segment *segment) {
    for (uint32_t i = segment->first; i < segment->end; i++) {
        if (schedule->instructions[i].lane != LANE_COMPUTE) {
            return true;
        }
    }
    return false;
}

void order_add_waits(struct schedule *schedule) {
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        const struct segment *segment = &schedule->segments[kind];
        if (!segment_has_lanes(schedule, segment)) {
            continue;
        }
        for (uint32_t i = segment->first; i < segment->end; i++) {
            wait_for_conflicts(schedule, i);
        }
    }
}

/* How many instructions of each lane are known to be done before one begins. */
struct vector_clock {
    uint32_t done[LANES_MAX];
};

static void clock_join(struct vector_clock *into, const struct vector_clock *from) {
    for (int lane = 0; lane < LANES_MAX; lane++) {
        into->done[lane] =
            from->done[lane] > into->done[lane] ? from->done[lane] : into->done[lane];
    }
}

static bool bytes_overlap(const struct schedule *schedule, const struct operand *a,
                          const struct operand *b) {
    const struct extent *x = &schedule->extents[a->extent];
    const struct extent *y = &schedule->extents[b->extent];
    uint64_t x_first = x->offset + a->offset;
    uint64_t y_first = y->offset + b->offset;
    return x->space == y->space && x_first < y_first + b->bytes && y_first < x_first + a->bytes;
}

static bool conflict(const struct schedule *schedule, const struct instruction *a,
                     const struct instruction *b, int *a_extent, int *b_extent) {
    for (int i = 0; i < TOUCHES_MAX; i++) {
        for (int j = 0; j < TOUCHES_MAX; j++) {
            const struct operand *x = operand_at(a, i);
            const struct operand *y = operand_at(b, j);
            if (x->extent != EXTENT_NONE && y->extent != EXTENT_NONE &&
                ((x->access | y->access) & ACCESS_WRITE) && bytes_overlap(schedule, x, y)) {
                *a_extent = x->extent;
                *b_extent = y->extent;
                return true;
            }
        }
    }
    return false;
}

struct verification {
    const struct schedule *schedule;
    struct vector_clock *after; /* per instruction: what is done once it is */
    uint32_t *place;            /* per instruction: its number in its lane, from 1 */
    struct vector_clock *event; /* per event: the clock of its signaller */
};

static void find_clocks(struct verification *verification, const struct segment *segment) {
    const struct schedule *schedule = verification->schedule;
    struct vector_clock lane_clock[LANES_MAX] = {0};
    for (uint32_t i = segment->first; i < segment->end; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        struct vector_clock *clock = &lane_clock[instruction->lane];
        for (int k = 0; k < WAITS_MAX; k++) {
            if (instruction->waits[k] != EVENT_NONE) {
                clock_join(clock, &verification->event[instruction->waits[k]]);
            }
        }
        verification->place[i] = ++clock->done[instruction->lane];
        verification->after[i] = *clock;
        if (instruction->signal != EVENT_NONE) {
            verification->event[instruction->signal] = *clock;
        }
    }
}

static enum status verify_pair(const struct verification *verification, uint32_t before,
                               uint32_t after, struct fault *fault) {
    const struct schedule *schedule = verification->schedule;
    const struct instruction *a = &schedule->instructions[before];
    const struct instruction *b = &schedule->instructions[after];
    int a_extent;
    int b_extent;
    if (a->lane == b->lane ||
        verification->after[after].done[a->lane] >= verification->place[before] ||
        !conflict(schedule, a, b, &a_extent, &b_extent)) {
        return OK;
    }
    return fault_set(fault, STATUS_FAILED, "schedule", "this is a bug; please report it",
                     "instruction %u (%s, \"%s\") may run beside %u (%s, \"%s\") on the same bytes",
                     after, op_row(b->op)->name, schedule->extents[b_extent].name, before,
                     op_row(a->op)->name, schedule->extents[a_extent].name);
}

static enum status verify_segment(struct verification *verification, const struct segment *segment,
                                  struct fault *fault) {
    find_clocks(verification, segment);
    for (uint32_t after = segment->first; after < segment->end; after++) {
        for (uint32_t before = segment->first; before < after; before++) {
            enum status status = verify_pair(verification, before, after, fault);
            if (status != OK) {
                return status;
            }
        }
    }
    return OK;
}

enum status order_verify(const struct schedule *schedule, struct region *region,
                         struct fault *fault) {
    size_t count = (size_t)schedule->instruction_count;
    struct verification verification = {
        .schedule = schedule,
        .after = region_alloc(region, count, sizeof(struct vector_clock)),
        .place = region_alloc(region, count, sizeof(uint32_t)),
        .event =
            region_alloc(region, (size_t)schedule->event_count + 1, sizeof(struct vector_clock))};
    enum status status = OK;
    for (int kind = 0; kind < SEGMENT_COUNT && status == OK; kind++) {
        const struct segment *segment = &schedule->segments[kind];
        if (segment_has_lanes(schedule, segment)) {
            status = verify_segment(&verification, segment, fault);
        }
    }
    return status;
}
