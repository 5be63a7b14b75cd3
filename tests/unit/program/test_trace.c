/* Traces: overlap by hand-made times, recordings that agree with the events, files that parse. */
#include "base/file.h"
#include "base/json.h"
#include "runtime/program/trace_file.h"
#include "tests/unit/program/drawn_lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STEPS = 2, TEXT_BYTES = 1 << 20 };

static struct drawn_lanes drawn;
static struct fault fault;

static void add(struct trace *trace, enum lane lane, enum trace_kind kind, int64_t begin,
                int64_t end) {
    trace_add_record(trace, lane,
                     &(struct trace_record){.kind = kind, .begin_ns = begin, .end_ns = end});
}

/*  compute     run 0-10   wait 10-14   run 14-20   join 20-30
 *  collective      run 5---12      run 13-16 run 18------25
 *  hidden           5              2          2               */
static void overlap_counts_what_compute_covers(void **state) {
    (void)state;
    struct trace_record records[LANE_COUNT][8];
    struct trace trace = {0};
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        trace.lanes[lane] = (struct trace_lane){.records = records[lane], .capacity = 8};
    }
    add(&trace, LANE_COMPUTE, TRACE_EXECUTE, 0, 10);
    add(&trace, LANE_COMPUTE, TRACE_WAIT, 10, 14);
    add(&trace, LANE_COMPUTE, TRACE_EXECUTE, 14, 20);
    add(&trace, LANE_COMPUTE, TRACE_JOIN, 20, 30);
    add(&trace, LANE_COLLECTIVE, TRACE_EXECUTE, 5, 12);
    add(&trace, LANE_COLLECTIVE, TRACE_WAIT, 12, 13);
    add(&trace, LANE_COLLECTIVE, TRACE_EXECUTE, 13, 16);
    add(&trace, LANE_COLLECTIVE, TRACE_EXECUTE, 18, 25);
    struct trace_overlap overlap = trace_compute_overlap(&trace);
    assert_int_equal(overlap.collective_ns, 7 + 3 + 7);
    assert_int_equal(overlap.hidden_ns, 5 + 2 + 2);
    assert_int_equal(overlap.compute_ns, 16);
    assert_int_equal(overlap.waiting_ns, 14);
}

/* Of each instruction's record the place in its lane's list, in a segment that ran once. */
static const struct trace_record *record_of(const struct trace *trace, enum lane lane,
                                            uint32_t instruction) {
    const struct trace_lane *of = &trace->lanes[lane];
    for (uint32_t i = 0; i < of->count; i++) {
        if (of->records[i].kind == TRACE_EXECUTE && of->records[i].instruction == instruction) {
            return &of->records[i];
        }
    }
    fail_msg("instruction %u has no record", instruction);
    return NULL;
}

static const struct trace_record *signaller_of(const struct trace *trace, uint32_t event) {
    const struct schedule *schedule = &drawn.program.schedule;
    for (uint32_t i = 0; i < DRAWN_INSTRUCTIONS; i++) {
        if (schedule->instructions[i].signal == event) {
            return record_of(trace, (enum lane)schedule->instructions[i].lane, i);
        }
    }
    fail_msg("event %u is never raised", event);
    return NULL;
}

static void records_begin_after_what_they_waited_for(void **state) {
    (void)state;
    struct trace trace;
    drawn_lanes_init(&drawn, 4);
    drawn_lanes_fill(&drawn);
    trace_init(&trace, &drawn.program.schedule, 1, &drawn.region);
    drawn.bound.trace = &trace;
    program_execute_segment(&drawn.bound, SEGMENT_MICROBATCH);
    int waits = 0;
    for (uint32_t i = 0; i < DRAWN_INSTRUCTIONS; i++) {
        const struct instruction *instruction = &drawn.program.schedule.instructions[i];
        const struct trace_record *record = record_of(&trace, (enum lane)instruction->lane, i);
        assert_true(record->begin_ns <= record->end_ns);
        for (int k = 0; k < WAITS_MAX; k++) {
            if (instruction->waits[k] != EVENT_NONE) {
                assert_true(signaller_of(&trace, instruction->waits[k])->end_ns <=
                            record->begin_ns);
                waits++;
            }
        }
    }
    assert_true(waits > 10);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        assert_int_equal(trace.lanes[lane].dropped, 0);
    }
    drawn_lanes_finish(&drawn);
}

static void what_finds_no_room_is_counted_and_cleared(void **state) {
    (void)state;
    struct trace trace;
    drawn_lanes_init(&drawn, 5);
    drawn_lanes_fill(&drawn);
    trace_init(&trace, &drawn.program.schedule, 1, &drawn.region);
    drawn.bound.trace = &trace;
    uint32_t count[LANE_COUNT];
    program_execute_segment(&drawn.bound, SEGMENT_MICROBATCH);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        count[lane] = trace.lanes[lane].count;
    }
    program_execute_segment(&drawn.bound, SEGMENT_MICROBATCH);
    program_execute_segment(&drawn.bound, SEGMENT_MICROBATCH);
    assert_true(trace.lanes[LANE_COMPUTE].dropped > 0);
    assert_true(trace.lanes[LANE_COMPUTE].count <= trace.lanes[LANE_COMPUTE].capacity);
    assert_true(trace.lanes[LANE_COMPUTE].count >= count[LANE_COMPUTE]);
    const struct trace before = trace;
    drawn.bound.trace = NULL;
    program_execute_segment(&drawn.bound, SEGMENT_MICROBATCH);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        assert_int_equal(trace.lanes[lane].count, before.lanes[lane].count);
        assert_int_equal(trace.lanes[lane].dropped, before.lanes[lane].dropped);
    }
    drawn_lanes_finish(&drawn);
}

/* Complete events of one rank, and the microseconds they last together. */
struct counted {
    int64_t events;
    double duration;
};

static struct counted count_events(const struct json_node *list, int64_t rank) {
    struct counted counted = {0};
    for (size_t i = 0; i < json_child_count(list); i++) {
        struct json_node event = json_element(list, i);
        const char *phase = NULL;
        int64_t pid = -1;
        double duration = 0;
        assert_int_equal(json_get_text(&event, "ph", &phase, NULL, &fault), OK);
        assert_int_equal(json_get_i64(&event, "pid", &pid, NULL, &fault), OK);
        if (pid == rank && strcmp(phase, "X") == 0) {
            assert_int_equal(json_get_f64(&event, "dur", &duration, NULL, &fault), OK);
            counted.events++;
            counted.duration += duration;
        }
    }
    return counted;
}

static void ranks_write_one_file_in_turn(void **state) {
    (void)state;
    char path[] = "/tmp/skep_trace_XXXXXX";
    static char text[TEXT_BYTES];
    struct trace traces[2];
    drawn_lanes_init(&drawn, 6);
    drawn_lanes_fill(&drawn);
    for (int rank = 0; rank < 2; rank++) {
        trace_init(&traces[rank], &drawn.program.schedule, STEPS, &drawn.region);
        drawn.bound.trace = &traces[rank];
        for (int run = 0; run <= rank; run++) {
            program_execute_segment(&drawn.bound, SEGMENT_MICROBATCH);
        }
    }
    close(mkstemp(path));
    unlink(path);
    assert_int_equal(trace_file_begin(path, &fault), OK);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(
            trace_file_append(path, &drawn.program.schedule, &traces[rank], rank, &fault), OK);
        assert_false(file_exists(path)); /* a run that is killed here leaves no broken trace */
    }
    assert_int_equal(trace_file_end(path, &fault), OK);
    size_t length;
    assert_int_equal(file_read_text(path, text, sizeof text, &length, &fault), OK);
    unlink(path);
    struct json_document document;
    struct json_node list;
    if (json_parse(text, length, sizeof text, path, &document, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    assert_true(json_find(&document.root, "traceEvents", &list));
    for (int rank = 0; rank < 2; rank++) {
        struct counted wanted = {0};
        for (int lane = 0; lane < LANE_COUNT; lane++) {
            for (uint32_t i = 0; i < traces[rank].lanes[lane].count; i++) {
                const struct trace_record *record = &traces[rank].lanes[lane].records[i];
                wanted.events++;
                wanted.duration += (double)(record->end_ns - record->begin_ns) * 1e-3;
            }
        }
        struct counted found = count_events(&list, rank);
        assert_int_equal(found.events, wanted.events);
        assert_true(found.duration > wanted.duration - 0.01 &&
                    found.duration < wanted.duration + 0.01);
    }
    json_finish(&document);
    drawn_lanes_finish(&drawn);
}

static void a_file_that_is_not_there_is_a_fault(void **state) {
    (void)state;
    const char *path = "/nowhere/trace.json";
    assert_int_equal(trace_file_begin(path, &fault), STATUS_FAILED);
    assert_string_equal(fault.subject, "/nowhere/trace.json.new");
    assert_int_equal(trace_file_end(path, &fault), STATUS_FAILED);
    assert_string_equal(fault.subject, "/nowhere/trace.json.new");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_counts_what_compute_covers),
        cmocka_unit_test(records_begin_after_what_they_waited_for),
        cmocka_unit_test(what_finds_no_room_is_counted_and_cleared),
        cmocka_unit_test(ranks_write_one_file_in_turn),
        cmocka_unit_test(a_file_that_is_not_there_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
