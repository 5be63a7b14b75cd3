/* trace: records the execution time and lane of each instruction of some steps, and the waits of
 * each lane. */
#ifndef SKEP_PROGRAM_TRACE_H
#define SKEP_PROGRAM_TRACE_H

#include "base/region.h"
#include "runtime/schedule/schedule.h"

#include <stdint.h>

enum trace_kind {
    /* execution of an instruction, including waits of a collective for other ranks */
    TRACE_EXECUTE,
    TRACE_WAIT, /* wait of an instruction for an event of another lane */
    TRACE_JOIN  /* wait of the compute lane for all other lanes at the end of a segment */
};

struct trace_record {
    int64_t begin_ns, end_ns; /* times of clock_monotonic_ns, which all ranks on a machine share */
    /* index of the instruction; of a join: of the last instruction of the segment */
    uint32_t instruction;
    uint32_t event;       /* event of a TRACE_WAIT */
    enum trace_kind kind; /* execution, wait or join */
};

/* The records of one lane. Each lane appends to its own list. */
struct trace_lane {
    struct trace_record *records;
    uint32_t count, capacity; /* number of records, and space for records */
    uint32_t dropped;         /* number of records that did not fit */
};

struct trace {
    struct trace_lane lanes[LANE_COUNT];
};

/* trace_init: reserve space for `steps` whole steps (begin, microbatches, finish).
 * memory  in `region`; nothing is allocated later */
void trace_init(struct trace *trace, const struct schedule *schedule, int64_t steps,
                struct region *region);

/* trace_add_record: append a record, from the thread of `lane`. Counts records that do not fit.
 * Never allocates. */
void trace_add_record(struct trace *trace, enum lane lane, const struct trace_record *record);

/* Total times of a trace, which show how far communication overlaps with compute. */
struct trace_overlap {
    int64_t collective_ns; /* total execution time of the collective lane's instructions */
    int64_t hidden_ns;     /* part of collective_ns during which the compute lane was executing */
    int64_t compute_ns;    /* total execution time of the compute lane's instructions */
    int64_t waiting_ns;    /* total time of the compute lane's waits and joins */
};
struct trace_overlap trace_compute_overlap(const struct trace *trace);

#endif
