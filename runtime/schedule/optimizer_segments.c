#include "runtime/schedule/optimizer_segments.h"

#include "runtime/schedule/instruction_list.h"
#include "runtime/schedule/rank_exchange.h"

void build_begin_segment(struct schedule *schedule, const struct device_inputs *inputs) {
    ASSERT(schedule->options.train);
    begin_segment(schedule, SEGMENT_BEGIN, 1);
    append_extent_copy(schedule, SEGMENT_BEGIN, schedule->host.scalars, inputs->scalars);
    append_tally_send(schedule, SEGMENT_BEGIN);
    for (int unit = 0; unit < schedule->units->unit_count; unit++) {
        if (schedule_trains_unit(schedule, unit)) {
            append_zero_fill(schedule, SEGMENT_BEGIN, schedule->unit_extents[unit].gradients);
        }
    }
    append_tally_receive(schedule, SEGMENT_BEGIN, TALLY_TOKENS);
    /* the CPU reads the sum of the token counts of all ranks, because it counts only those of this
     * rank */
    if (schedule->tallies != EXTENT_NONE) {
        append_extent_copy(schedule, SEGMENT_BEGIN, inputs->scalars, schedule->host.scalars);
    }
    end_segment(schedule, SEGMENT_BEGIN);
}

static bool reduces_at_finish(const struct schedule *schedule, int unit) {
    ASSERT(unit >= 0 && unit < schedule->units->unit_count);
    return schedule_trains_unit(schedule, unit) && schedule_rank_count(schedule, AXIS_WORLD) > 1 &&
           schedule->options.sharding.reduce_at == REDUCE_AT_STEP;
}

/* Appends the reductions at the end of a step. The reduction of one unit overlaps with the cast of
 * the next unit. */
static void append_late_reductions(struct schedule *schedule) {
    int before = -1;
    for (int unit = 0; unit <= schedule->units->unit_count; unit++) {
        bool reduces = unit < schedule->units->unit_count && reduces_at_finish(schedule, unit);
        if (reduces) {
            append_gradient_reduction(schedule, SEGMENT_FINISH, unit,
                                      schedule->unit_extents[unit].gradients);
        }
        ASSERT(before < unit);
        if (before >= 0 && (reduces || unit == schedule->units->unit_count)) {
            append_reduction_end(schedule, SEGMENT_FINISH, before,
                                 schedule->unit_extents[before].gradients);
        }
        before = reduces ? unit : before;
    }
}

/* Appends the norm of this rank's shard of the gradients. It covers only the shard, so that the
 * ranks of a replica count every gradient once. */
static void append_gradient_norm(struct schedule *schedule, int unit) {
    ASSERT(schedule_trains_unit(schedule, unit));
    struct instruction *norm =
        append_instruction(schedule, OP_GRADIENT_NORM, SEGMENT_FINISH, LANE_COMPUTE);
    norm->operands[GRADIENT_NORM_GRADIENTS] = ranks_shard_operand(
        schedule, unit, schedule->unit_extents[unit].gradients, ACCESS_READ, DTYPE_F32);
    norm->operands[GRADIENT_NORM_SCALARS] =
        extent_table_whole_extent(schedule, schedule->host.device_scalars, ACCESS_UPDATE);
    norm->args.count = schedule_shard_elements(schedule, unit);
    add_workspace(schedule, norm);
}

static void append_clip(struct schedule *schedule) {
    struct instruction *clip = append_instruction(schedule, OP_CLIP, SEGMENT_FINISH, LANE_COMPUTE);
    clip->operands[CLIP_SCALARS] =
        extent_table_whole_extent(schedule, schedule->host.device_scalars, ACCESS_UPDATE);
    ASSERT(schedule->options.clip_norm >= 0);
    clip->args.clip_norm = schedule->options.clip_norm;
}

static struct adamw_of_rank make_adamw_args(const struct schedule *schedule, int unit, bool split) {
    const struct schedule_options *options = &schedule->options;
    const struct unit *of = &schedule->units->units[unit];
    int64_t count = split ? schedule_shard_elements(schedule, unit) : of->elements;
    int64_t decayed = of->decayed_elements;
    ASSERT(count > 0 && count <= of->elements);
    ASSERT(decayed >= 0 && decayed <= of->elements);
    return (struct adamw_of_rank){.unit_decayed_elements = decayed,
                                  .split = split,
                                  .first_rank = {.count = count,
                                                 .decayed = decayed < count ? decayed : count,
                                                 .epsilon = options->epsilon,
                                                 .dtype_moments = options->moments,
                                                 .dtype_params = options->compute,
                                                 .rounding = options->rounding,
                                                 .stream = (uint32_t)unit}};
}

/* The operands of AdamW other than master and moments. */
struct adamw_inputs {
    /* extents of the operands; params is EXTENT_NONE where kernels read the master */
    int scalars, gradients, params;
};

/* Returns the part of an extent that this rank optimizes: all of it, or its shard. */
static struct operand optimized_part_of_extent(const struct schedule *schedule, int unit,
                                               int extent, enum access access, enum dtype dtype) {
    ASSERT(extent >= 0 && extent < schedule->extent_count);
    return schedule_zero_stage_row(schedule, unit).optimizer
               ? ranks_shard_operand(schedule, unit, extent, access, dtype)
               : extent_table_whole_extent(schedule, extent, access);
}

static void append_adamw(struct schedule *schedule, int unit, const struct adamw_inputs *from) {
    const struct unit_extents *of = &schedule->unit_extents[unit];
    const struct op_row *row = op_row(OP_ADAMW);
    enum dtype moments = schedule->options.moments;
    const int extents[ADAMW_OPERANDS] = {
        [ADAMW_SCALARS] = EXTENT_NONE, [ADAMW_GRADIENTS] = from->gradients,
        [ADAMW_MASTER] = of->master,   [ADAMW_MOMENT1] = of->moment1,
        [ADAMW_MOMENT2] = of->moment2, [ADAMW_PARAMS] = from->params};
    const enum dtype dtypes[ADAMW_OPERANDS] = {[ADAMW_GRADIENTS] = DTYPE_F32,
                                               [ADAMW_MASTER] = DTYPE_F32,
                                               [ADAMW_MOMENT1] = moments,
                                               [ADAMW_MOMENT2] = moments,
                                               [ADAMW_PARAMS] = schedule->options.compute};
    struct instruction *adamw =
        append_instruction(schedule, OP_ADAMW, SEGMENT_FINISH, LANE_COMPUTE);
    adamw->operands[ADAMW_SCALARS] =
        extent_table_whole_extent(schedule, from->scalars, ACCESS_READ);
    for (int k = ADAMW_GRADIENTS; k < ADAMW_OPERANDS; k++) {
        if (extents[k] != EXTENT_NONE) {
            adamw->operands[k] = optimized_part_of_extent(schedule, unit, extents[k],
                                                          row->operands[k].access, dtypes[k]);
        }
    }
    ASSERT(adamw->operands[ADAMW_GRADIENTS].bytes == adamw->operands[ADAMW_MASTER].bytes);
    ASSERT(adamw->operands[ADAMW_MOMENT1].bytes == adamw->operands[ADAMW_MOMENT2].bytes);
    adamw->args.adamw =
        make_adamw_args(schedule, unit, schedule_zero_stage_row(schedule, unit).optimizer);
}

/* Append the gather of a unit's params if every rank keeps them whole and each rank has updated
 * only its shard. */
static void append_params_gather(struct schedule *schedule, int unit) {
    struct zero_stage_row row = schedule_zero_stage_row(schedule, unit);
    if (row.optimizer && !row.params) {
        append_whole_params_gather(schedule, SEGMENT_FINISH, unit);
    }
}

static void append_device_optimizer(struct schedule *schedule, int unit) {
    ASSERT(schedule_trains_unit(schedule, unit) &&
           !schedule_offloads_unit(schedule, unit, OFFLOAD_OPTIMIZER));
    const struct unit_extents *of = &schedule->unit_extents[unit];
    struct adamw_inputs extents = {.scalars = schedule->host.device_scalars,
                                   .gradients = of->gradients,
                                   .params = of->params == of->master ? EXTENT_NONE : of->params};
    append_adamw(schedule, unit, &extents);
    append_params_gather(schedule, unit);
}

/* ---- an optimizer in host memory ---- */

static void append_gradient_copy_to_host(struct schedule *schedule, int unit) {
    ASSERT(schedule_offloads_unit(schedule, unit, OFFLOAD_OPTIMIZER));
    const struct unit_extents *of = &schedule->unit_extents[unit];
    append_operand_copy(
        schedule, SEGMENT_FINISH,
        optimized_part_of_extent(schedule, unit, of->gradients, ACCESS_READ, DTYPE_F32),
        extent_table_whole_extent(schedule, of->host_gradients, ACCESS_WRITE));
}

static void append_updated_params_copy(struct schedule *schedule, int unit) {
    const struct unit_extents *of = &schedule->unit_extents[unit];
    ASSERT(of->host_params != EXTENT_NONE && of->params != EXTENT_NONE);
    if (of->host_params != of->params) {
        append_operand_copy(schedule, SEGMENT_FINISH,
                            extent_table_whole_extent(schedule, of->host_params, ACCESS_READ),
                            optimized_part_of_extent(schedule, unit, of->params, ACCESS_WRITE,
                                                     schedule->options.compute));
    }
    append_params_gather(schedule, unit);
}

static void append_host_params_release(struct schedule *schedule, int unit) {
    const struct unit_extents *of = &schedule->unit_extents[unit];
    ASSERT(schedule_offloads_unit(schedule, unit, OFFLOAD_OPTIMIZER) &&
           of->host_params != EXTENT_NONE);
    if (of->host_params != of->params) {
        struct instruction *release =
            append_instruction(schedule, OP_RELEASE, SEGMENT_FINISH, LANE_COMPUTE);
        release->operands[RELEASE_EXTENT] =
            extent_table_whole_extent(schedule, of->host_params, ACCESS_UPDATE);
    }
}

static int next_offloaded_unit(const struct schedule *schedule, int unit) {
    ASSERT(unit >= -1 && unit < schedule->units->unit_count);
    do {
        unit++;
    } while (unit < schedule->units->unit_count &&
             !schedule_offloads_unit(schedule, unit, OFFLOAD_OPTIMIZER));
    return unit;
}

/* While the CPU updates one unit, the gradients of the next unit are copied out and the params of
 * the previous one are copied in.
 *
 *   compute   adamw 1           adamw 2   release 1   adamw 3   release 2
 *   copies    out 2   in 1      out 3     in 2        out 4     in 3
 */
static void append_offloaded_optimizer(struct schedule *schedule) {
    int unit_count = schedule->units->unit_count;
    int unit = next_offloaded_unit(schedule, -1);
    int before = -1;
    if (unit < unit_count) {
        append_gradient_copy_to_host(schedule, unit);
    }
    while (unit < unit_count) {
        const struct unit_extents *of = &schedule->unit_extents[unit];
        struct adamw_inputs extents = {.scalars = schedule->host.scalars,
                                       .gradients = of->host_gradients,
                                       .params = of->host_params};
        int next = next_offloaded_unit(schedule, unit);
        ASSERT(before < unit && unit < next);
        if (next < unit_count) {
            append_gradient_copy_to_host(schedule, next);
        }
        append_adamw(schedule, unit, &extents);
        if (before >= 0) {
            append_host_params_release(schedule, before);
        }
        append_updated_params_copy(schedule, unit);
        before = unit;
        unit = next;
    }
}

void build_finish_segment(struct schedule *schedule) {
    int unit_count = schedule->units->unit_count;
    ASSERT(schedule->options.train);
    begin_segment(schedule, SEGMENT_FINISH, 1);
    append_late_reductions(schedule);
    for (int unit = 0; unit < unit_count; unit++) {
        if (schedule_trains_unit(schedule, unit)) {
            append_gradient_norm(schedule, unit);
        }
    }
    append_tally_send(schedule, SEGMENT_FINISH);
    append_tally_receive(schedule, SEGMENT_FINISH, TALLY_LOSS | TALLY_NORM);
    append_clip(schedule);
    append_extent_copy(schedule, SEGMENT_FINISH, schedule->host.device_scalars,
                       schedule->host.scalars);
    for (int unit = 0; unit < unit_count; unit++) {
        if (schedule_trains_unit(schedule, unit) &&
            !schedule_offloads_unit(schedule, unit, OFFLOAD_OPTIMIZER)) {
            append_device_optimizer(schedule, unit);
        }
    }
    append_offloaded_optimizer(schedule);
    end_segment(schedule, SEGMENT_FINISH);
}
