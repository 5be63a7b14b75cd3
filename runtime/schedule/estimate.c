#include "runtime/schedule/estimate.h"

#include <string.h>

const char *bound_name(enum bound_by bound) {
    static const char *const NAMES[BOUND_COUNT] = {"arithmetic", "memory bandwidth", "host link"};
    ASSERT(bound < BOUND_COUNT);
    return NAMES[bound];
}

/* Pairs (query, key) that causal attention computes, over all rows and heads. Documents packed into
 * a row only make it less. */
static double attention_pairs(const struct attention_args *args) {
    double time = (double)args->time;
    double window = args->window > 0 && args->window < args->time ? (double)args->window : time;
    double pairs = window * (window + 1) / 2 + (time - window) * window;
    return pairs * (double)(args->rows * args->heads);
}

/* Multiply-adds of the products only, two operations each: forward has 2 products, backward 5. */
static double instruction_flops(const struct instruction *instruction, int64_t context) {
    const union kernel_args *args = &instruction->args;
    const struct head_loss_args *head = &args->head_loss;
    switch (instruction->op) {
    case OP_LINEAR:
    case OP_LINEAR_DX:
    case OP_LINEAR_DW:
        return 2.0 * (double)args->matmul.m * (double)args->matmul.n * (double)args->matmul.k;
    case OP_HEAD_LOSS:
        return 2.0 * (double)head->tokens * (double)head->dim * (double)head->vocab;
    case OP_HEAD_LOSS_GRADIENT:
        return 6.0 * (double)head->tokens * (double)head->dim * (double)head->vocab;
    case OP_ATTENTION:
        return 4.0 * attention_pairs(&args->attention) * (double)args->attention.head_dim;
    case OP_ATTENTION_BACKWARD:
        return 10.0 * attention_pairs(&args->attention) * (double)args->attention.head_dim;
    case OP_ATTENTION_CACHED:
        return 4.0 * (double)(args->attention.time * args->attention.heads * context) *
               (double)args->attention.head_dim;
    default:
        return 0;
    }
}

/* Logits of a chunk are written by the product, read and written by the softmax, and read by the
 * two products of the gradient. */
static double head_bytes(const struct head_loss_args *args) {
    double passes = args->gradient ? 5 : 2;
    return passes * (double)args->tokens * (double)args->vocab * sizeof(float);
}

static double instruction_bytes(const struct instruction *instruction) {
    double bytes = 0;
    for (int k = 0; k < OPERANDS_MAX; k++) {
        const struct operand *operand = &instruction->operands[k];
        if (operand->extent != EXTENT_NONE) {
            double passes = operand->access == ACCESS_UPDATE ? 2 : 1;
            bytes += passes * (double)operand->bytes;
        }
    }
    if (instruction->op == OP_HEAD_LOSS || instruction->op == OP_HEAD_LOSS_GRADIENT) {
        bytes += head_bytes(&instruction->args.head_loss);
    }
    if (instruction->op == OP_EMBEDDING || instruction->op == OP_EMBEDDING_BACKWARD) {
        const struct embedding_args *args = &instruction->args.embedding;
        bytes = 3.0 * (double)args->tokens * (double)args->dim * sizeof(float);
    }
    return bytes;
}

static double peak_flops(const struct schedule *schedule, const struct target *target) {
    double peak = schedule->options.compute == DTYPE_BF16 ? target->bf16_flops.value
                                                          : target->f32_flops.value;
    return peak * target->matmul_efficiency.value;
}

struct cost {
    double seconds, flops, bytes;
    enum bound_by bound;
};

static struct cost instruction_cost(const struct schedule *schedule, const struct target *target,
                                    const struct instruction *instruction) {
    struct cost cost = {.flops = instruction_flops(instruction, schedule->options.context),
                        .bytes = instruction_bytes(instruction)};
    if (instruction->op == OP_COPY) {
        cost.bound = BOUND_LINK;
        cost.seconds = (double)instruction->args.count /
                       (target->host_link_bandwidth.value * target->link_efficiency.value);
        return cost;
    }
    double arithmetic = cost.flops / peak_flops(schedule, target);
    double memory = cost.bytes / (target->memory_bandwidth.value * target->memory_efficiency.value);
    cost.bound = arithmetic > memory ? BOUND_COMPUTE : BOUND_MEMORY;
    cost.seconds = arithmetic > memory ? arithmetic : memory;
    return cost;
}

struct segment_estimate estimate_segment(const struct schedule *schedule,
                                         const struct target *target, enum segment_kind kind) {
    struct segment_estimate estimate = {.seconds = 0};
    const struct segment *segment = &schedule->segments[kind];
    double lane_time[LANE_COUNT] = {0};
    for (uint32_t i = segment->first; i < segment->end; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        struct cost cost = instruction_cost(schedule, target, instruction);
        double begin = lane_time[instruction->lane];
        /* A waited-for event belongs to the latest earlier instruction of the other lane that
         * signalled it; lanes are few, so the other lane's time so far is a tight bound. */
        for (int lane = 0; instruction->waits[0] != EVENT_NONE && lane < LANE_COUNT; lane++) {
            begin = lane_time[lane] > begin ? lane_time[lane] : begin;
        }
        lane_time[instruction->lane] = begin + cost.seconds;
        estimate.seconds_bound[cost.bound] += cost.seconds;
        estimate.flops += cost.flops;
        estimate.bytes += cost.bytes;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        estimate.seconds = lane_time[lane] > estimate.seconds ? lane_time[lane] : estimate.seconds;
    }
    return estimate;
}

static void add_times(struct segment_estimate *sum, const struct segment_estimate *part,
                      double times) {
    sum->seconds += times * part->seconds;
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
        add_times(&sum, &part, (double)schedule->segments[PARTS[i]].repeat);
    }
    return sum;
}
