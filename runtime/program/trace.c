#include "runtime/program/trace.h"
#include "base/bytes.h"

static uint32_t wait_count(const struct instruction *instruction) {
    uint32_t count = 0;
    for (int k = 0; k < WAITS_MAX; k++) {
        count += instruction->waits[k] != EVENT_NONE;
    }
    return count;
}

void trace_init(struct trace *trace, const struct schedule *schedule, int64_t steps,
                struct region *region) {
    uint64_t records[LANE_COUNT] = {0};
    for (int kind = SEGMENT_BEGIN; kind <= SEGMENT_FINISH; kind++) {
        const struct segment *segment = &schedule->segments[kind];
        uint64_t runs = (uint64_t)(steps * segment->repeat);
        for (uint32_t i = segment->first; i < segment->end; i++) {
            const struct instruction *instruction = &schedule->instructions[i];
            records[instruction->lane] += runs * (1 + wait_count(instruction));
        }
        records[LANE_COMPUTE] += runs; /* joins */
    }
    *trace = (struct trace){0};
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        ASSERT(records[lane] <= UINT32_MAX);
        trace->lanes[lane].capacity = (uint32_t)records[lane];
        trace->lanes[lane].records =
            region_alloc(region, records[lane] + 1, sizeof(struct trace_record));
    }
}

void trace_add_record(struct trace *trace, enum lane lane, const struct trace_record *record) {
    struct trace_lane *into = &trace->lanes[lane];
    if (into->count == into->capacity) {
        into->dropped++;
        return;
    }
    into->records[into->count++] = *record;
}

/* Returns the time during which both records overlap. */
static int64_t compute_overlap_ns(const struct trace_record *a, const struct trace_record *b) {
    return max_i64(0, min_i64(a->end_ns, b->end_ns) - max_i64(a->begin_ns, b->begin_ns));
}

/* Returns the part of the record `of` during which the compute lane executed instructions. A lane's
 * records are ordered by time, so each search starts where the last one ended. */
static int64_t compute_hidden_ns(const struct trace_lane *compute, const struct trace_record *of,
                                 uint32_t *from) {
    while (*from < compute->count && compute->records[*from].end_ns <= of->begin_ns) {
        (*from)++;
    }
    int64_t hidden = 0;
    for (uint32_t i = *from; i < compute->count && compute->records[i].begin_ns < of->end_ns; i++) {
        if (compute->records[i].kind == TRACE_EXECUTE) {
            hidden += compute_overlap_ns(&compute->records[i], of);
        }
    }
    return hidden;
}

struct trace_overlap trace_compute_overlap(const struct trace *trace) {
    struct trace_overlap overlap = {0};
    const struct trace_lane *compute = &trace->lanes[LANE_COMPUTE];
    const struct trace_lane *collective = &trace->lanes[LANE_COLLECTIVE];
    for (uint32_t i = 0; i < compute->count; i++) {
        const struct trace_record *record = &compute->records[i];
        int64_t took = record->end_ns - record->begin_ns;
        overlap.compute_ns += record->kind == TRACE_EXECUTE ? took : 0;
        overlap.waiting_ns += record->kind != TRACE_EXECUTE ? took : 0;
    }
    uint32_t from = 0;
    for (uint32_t i = 0; i < collective->count; i++) {
        const struct trace_record *record = &collective->records[i];
        if (record->kind == TRACE_EXECUTE) {
            overlap.collective_ns += record->end_ns - record->begin_ns;
            overlap.hidden_ns += compute_hidden_ns(compute, record, &from);
        }
    }
    return overlap;
}
