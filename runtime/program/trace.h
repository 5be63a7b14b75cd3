/* trace: when each instruction of some steps ran, on which lane, and what each lane waited for. */
#ifndef SKEP_PROGRAM_TRACE_H
#define SKEP_PROGRAM_TRACE_H

#include "base/region.h"
#include "runtime/schedule/schedule.h"

#include <stdint.h>

enum trace_kind {
    TRACE_RUN,  /* an instruction; a collective's waits for other ranks lie within it */
    TRACE_WAIT, /* an instruction waits for an event of another lane */
    TRACE_JOIN  /* the compute lane waits for the others at a segment's end */
};

struct trace_record {
    int64_t begin_ns, end_ns; /* clock_monotonic_ns: one clock for all ranks of a machine */
    uint32_t instruction;     /* that runs, or waits; of a join the segment's last */
    uint32_t event;           /* of a wait */
    enum trace_kind kind;
};

/* Each lane writes its own list. */
struct trace_lane {
    struct trace_record *records;
    uint32_t count, capacity;
    uint32_t dropped; /* found no room */
};

struct trace {
    struct trace_lane lanes[LANE_COUNT];
};

/* trace_init: room for `steps` whole steps (begin, microbatches, finish).
 * memory  in `region`: nothing is allocated later */
void trace_init(struct trace *trace, const struct schedule *schedule, int64_t steps,
                struct region *region);

/* trace_add: from the thread of `lane`; what finds no room is counted. Never allocates. */
void trace_add(struct trace *trace, enum lane lane, const struct trace_record *record);

/* How far communication hides behind compute. */
struct trace_overlap {
    int64_t collective_ns; /* the collective lane's instructions */
    int64_t hidden_ns;     /* of it, while the compute lane ran an instruction */
    int64_t compute_ns;    /* the compute lane's instructions */
    int64_t waiting_ns;    /* the compute lane's waits and joins */
};
struct trace_overlap trace_overlap(const struct trace *trace);

#endif
