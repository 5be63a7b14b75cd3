#include "runtime/schedule/estimate.h"

const char *bound_by_name(enum bound_by bound) {
    static const char *const NAMES[BOUND_COUNT] = {"arithmetic", "memory bandwidth", "host link",
                                                   "peer link"};
    ASSERT(bound < BOUND_COUNT);
    return NAMES[bound];
}

static double peak_flops(const struct schedule *schedule, const struct target *target) {
    double peak = schedule->options.compute == DTYPE_BF16 ? target->bf16_flops.value
                                                          : target->f32_flops.value;
    return peak * target->matmul_efficiency.value;
}

/* Assumed bytes per second of host memory, because the profile of a device does not state it: two
 * channels of DDR4-3200, 51 GB/s, at 80 %. Only an offloaded optimizer computes in host memory. */
static const double HOST_MEMORY_SPEED = 41e9;

static double memory_speed(const struct schedule *schedule, const struct target *target,
                           const struct instruction *instruction) {
    bool on_host = instruction->op == OP_ADAMW && schedule_executes_on_cpu(schedule, instruction);
    return on_host && !target->unified
               ? HOST_MEMORY_SPEED
               : target->memory_bandwidth.value * target->memory_efficiency.value;
}

/* The rate of the attention kernels on a GPU, as a share of the rate of matrix products. On Hopper
 * (compute capability 9.0) it was measured: rows of 4096 tokens with heads of 64, and 8192 with
 * heads of 128, reach 205 and 247 TFLOP/s forward and 94 and 150 backward, and products 782. There
 * the kernels use mma.sync, which reaches at most 62 % of the peak rate, and execute other
 * instructions between these. Elsewhere mma.sync has the full rate, and the shares follow from
 * instruction counts. */
static double attention_share(const struct target *target, enum op_kind op) {
    bool is_hopper = target->compute_major == 9;
    if (target->kind != TARGET_CUDA || (op != OP_ATTENTION && op != OP_ATTENTION_BACKWARD)) {
        return 1;
    }
    if (op == OP_ATTENTION) {
        return is_hopper ? 0.29 : 0.75;
    }
    return is_hopper ? 0.15 : 0.5;
}

struct execution_cost {
    double seconds, flops, bytes; /* duration, arithmetic and memory traffic of one instruction */
    enum bound_by bound;          /* the resource that determines the duration of the instruction */
};

/* Returns the cost of a collective: the time to receive the bytes of the other ranks of the group.
 * On a target without links between ranks, these bytes go through memory. */
static struct execution_cost collective_cost(const struct schedule *schedule,
                                             const struct target *target,
                                             const struct collective_args *args) {
    bool has_peer_link = target->peer_link_bandwidth.value > 0;
    double speed = has_peer_link ? target->peer_link_bandwidth.value * target->link_efficiency.value
                                 : target->memory_bandwidth.value * target->memory_efficiency.value;
    int others = schedule_rank_count(schedule, args->axis) - 1;
    ASSERT(others >= 0 && speed > 0);
    double bytes = (double)args->slot_bytes * (double)others;
    return (struct execution_cost){.seconds = bytes / speed, .bytes = bytes, .bound = BOUND_PEERS};
}

static struct execution_cost copy_cost(const struct target *target, int64_t count) {
    double speed = target->host_link_bandwidth.value * target->link_efficiency.value;
    ASSERT(count > 0);
    return (struct execution_cost){
        .seconds = (double)count / speed, .bytes = 2 * (double)count, .bound = BOUND_LINK};
}

static struct execution_cost kernel_cost(const struct schedule *schedule,
                                         const struct target *target,
                                         const struct instruction *instruction) {
    struct execution_cost cost = {.flops = op_flops(instruction),
                                  .bytes = op_traffic_bytes(instruction)};
    double arithmetic =
        cost.flops / (peak_flops(schedule, target) * attention_share(target, instruction->op));
    double memory = cost.bytes / memory_speed(schedule, target, instruction);
    ASSERT(cost.flops >= 0 && cost.bytes >= 0);
    cost.bound = arithmetic > memory ? BOUND_COMPUTE : BOUND_MEMORY;
    cost.seconds = arithmetic > memory ? arithmetic : memory;
    return cost;
}

static struct execution_cost instruction_cost(const struct schedule *schedule,
                                              const struct target *target,
                                              const struct instruction *instruction) {
    switch (op_work(instruction->op)) {
    case OP_WORK_NONE:
        return (struct execution_cost){.seconds = 0};
    case OP_WORK_COPY:
        return copy_cost(target, instruction->args.count);
    case OP_WORK_COLLECTIVE:
        return collective_cost(schedule, target, &instruction->args.collective);
    case OP_WORK_KERNEL:
        break;
    }
    return kernel_cost(schedule, target, instruction);
}

/* ---- the simulation ---- */

struct interval {
    double begin, end; /* start and end of the interval, in seconds from the segment's start */
};

/* The execution interval of each instruction of a segment, per lane, in listed order. */
struct timeline {
    struct interval *lanes[LANE_COUNT]; /* busy intervals of each lane */
    int counts[LANE_COUNT];             /* number of intervals of each lane */
    double *signalled_at; /* [event]: the time at which the event is signalled, in seconds */
};

static struct timeline allocate_timeline(const struct schedule *schedule,
                                         const struct segment *segment, struct region *region) {
    ASSERT(segment->first <= segment->end);
    size_t count = segment->end - segment->first + 1;
    struct timeline timeline = {
        .signalled_at = region_alloc(region, (size_t)schedule->event_count + 1, sizeof(double))};
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        timeline.lanes[lane] = region_alloc(region, count, sizeof(struct interval));
    }
    return timeline;
}

static double lane_end_seconds(const struct timeline *timeline, int lane) {
    int count = timeline->counts[lane];
    ASSERT(lane >= 0 && lane < LANE_COUNT && count >= 0);
    return count == 0 ? 0 : timeline->lanes[lane][count - 1].end;
}

static void simulate_instruction(struct timeline *timeline, const struct instruction *instruction,
                                 double seconds) {
    int lane = instruction->lane;
    double begin = lane_end_seconds(timeline, lane);
    for (int k = 0; k < WAITS_MAX; k++) {
        uint32_t event = instruction->waits[k];
        double signalled = event == EVENT_NONE ? 0 : timeline->signalled_at[event];
        ASSERT(signalled >= 0);
        begin = signalled > begin ? signalled : begin;
    }
    ASSERT(lane < LANE_COUNT && seconds >= 0);
    double end = begin + seconds;
    timeline->lanes[lane][timeline->counts[lane]++] = (struct interval){begin, end};
    if (instruction->signal != EVENT_NONE) {
        timeline->signalled_at[instruction->signal] = end;
    }
}

/* Returns the time in seconds during which both lanes are busy. */
static double overlap_seconds(const struct timeline *timeline, enum lane a, enum lane b) {
    ASSERT(a != b && a < LANE_COUNT && b < LANE_COUNT);
    double sum = 0;
    int i = 0;
    int j = 0;
    while (i < timeline->counts[a] && j < timeline->counts[b]) {
        struct interval x = timeline->lanes[a][i];
        struct interval y = timeline->lanes[b][j];
        double begin = x.begin > y.begin ? x.begin : y.begin;
        double end = x.end < y.end ? x.end : y.end;
        sum += end > begin ? end - begin : 0;
        i += x.end <= y.end;
        j += x.end > y.end;
    }
    return sum;
}

struct segment_estimate estimate_segment(const struct schedule *schedule,
                                         const struct target *target, enum segment_kind kind) {
    const struct segment *segment = &schedule->segments[kind];
    struct segment_estimate estimate = {.seconds = 0};
    struct region scratch = {0};
    struct timeline timeline = allocate_timeline(schedule, segment, &scratch);
    for (uint32_t i = segment->first; i < segment->end; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        struct execution_cost cost = instruction_cost(schedule, target, instruction);
        simulate_instruction(&timeline, instruction, cost.seconds);
        estimate.seconds_bound[cost.bound] += cost.seconds;
        estimate.flops += cost.flops;
        estimate.bytes += cost.bytes;
        estimate.collective_seconds += instruction->lane == LANE_COLLECTIVE ? cost.seconds : 0;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        double end = lane_end_seconds(&timeline, lane);
        estimate.seconds = end > estimate.seconds ? end : estimate.seconds;
    }
    ASSERT(estimate.collective_seconds <= estimate.seconds * (1 + 1e-9));
    estimate.hidden_seconds = overlap_seconds(&timeline, LANE_COMPUTE, LANE_COLLECTIVE);
    ASSERT(estimate.hidden_seconds <= estimate.seconds * (1 + 1e-9));
    region_finish(&scratch);
    return estimate;
}

static void add_estimate(struct segment_estimate *sum, const struct segment_estimate *part,
                         double times) {
    ASSERT(times >= 0 && part->seconds >= 0);
    sum->seconds += times * part->seconds;
    sum->collective_seconds += times * part->collective_seconds;
    sum->hidden_seconds += times * part->hidden_seconds;
    sum->flops += times * part->flops;
    sum->bytes += times * part->bytes;
    for (int bound = 0; bound < BOUND_COUNT; bound++) {
        sum->seconds_bound[bound] += times * part->seconds_bound[bound];
    }
}

struct segment_estimate estimate_step(const struct schedule *schedule,
                                      const struct target *target) {
    static const enum segment_kind PARTS[] = {SEGMENT_BEGIN, SEGMENT_MICROBATCH, SEGMENT_FINISH};
    struct segment_estimate sum = {.seconds = 0};
    for (size_t i = 0; i < ARRAY_COUNT(PARTS); i++) {
        struct segment_estimate part = estimate_segment(schedule, target, PARTS[i]);
        add_estimate(&sum, &part, (double)schedule->segments[PARTS[i]].repeat);
    }
    return sum;
}
