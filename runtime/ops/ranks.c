/* ranks: operations between the ranks of a site. runtime/schedule/rank_exchange.c sets their
 * arguments; transport executes the collectives. */
#include "runtime/ops/operation.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/elementwise.h"
#include "kernels/cuda/launch/optimizer.h"
#endif

const char *rank_axis_name(enum rank_axis axis) {
    static const char *const NAMES[AXIS_COUNT] = {"shard", "replicate", "world"};
    ASSERT(axis < AXIS_COUNT);
    return NAMES[axis];
}

const struct operand *op_collective_from(const struct instruction *instruction) {
    ASSERT(op_work(instruction->op) == OP_WORK_COLLECTIVE);
    int from = instruction->op == OP_ALL_GATHER ? ALL_GATHER_SLOTS : REDUCE_SCATTER_FROM;
    return &instruction->operands[from];
}

const struct operand *op_collective_to(const struct instruction *instruction) {
    ASSERT(op_work(instruction->op) == OP_WORK_COLLECTIVE);
    int to = instruction->op == OP_ALL_GATHER ? ALL_GATHER_SLOTS : REDUCE_SCATTER_TO;
    return &instruction->operands[to];
}

static void append_all_gather_text(const union kernel_args *args, struct text *line) {
    const struct collective_args *of = &args->collective;
    text_add(line, " over %s %s slot %llu", rank_axis_name(of->axis), dtype_name(of->wire),
             (unsigned long long)of->slot_bytes);
}

/* Appends the arguments of a reduce-scatter. Only a sum by ring is named: an exact sum between GPUs
 * is recognised by its workspace, the staging buffer. */
static void append_reduce_scatter_text(const union kernel_args *args, struct text *line) {
    append_all_gather_text(args, line);
    text_add(line, "%s", args->collective.sum == WIRE_SUM_RING ? " by ring" : "");
}

const struct operation all_gather_operation = {.work = OP_WORK_COLLECTIVE,
                                               .text = append_all_gather_text};

const struct operation reduce_scatter_operation = {.work = OP_WORK_COLLECTIVE,
                                                   .text = append_reduce_scatter_text};

KERNEL_CALLS(accumulate, add_run, &call->args->elementwise, call->addresses[ACCUMULATE_SUM],
             call->addresses[ACCUMULATE_ADDEND], call->addresses[ACCUMULATE_SUM])

OPERATION(accumulate, .text = op_append_elementwise_text);

/* ---- tallies ---- */

static void append_tally_text(const union kernel_args *args, struct text *line) {
    const struct tally_args *of = &args->tally;
    text_add(line, " of %d ranks%s%s", of->ranks, of->parts & TALLY_TOKENS ? " tokens" : "",
             of->parts & TALLY_LOSS ? " loss" : "");
    if (of->parts & TALLY_NORM) {
        text_add(line, " norm over %d", of->shard_size);
    }
}

SERIAL_KERNEL_CALLS(tally_out, tally_out, call->addresses[TALLY_OUT_SCALARS],
                    call->addresses[TALLY_OUT_TALLY])
SERIAL_KERNEL_CALLS(tally_in, tally_in, &call->args->tally, call->addresses[TALLY_IN_TALLIES],
                    call->addresses[TALLY_IN_SCALARS])

const struct operation tally_out_operation = {.run = run_tally_out,
                                              .enqueue = ON_CUDA(enqueue_tally_out)};

OPERATION(tally_in, .text = append_tally_text);
