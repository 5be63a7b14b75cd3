#include "runtime/schedule/rank_exchange.h"

#include "runtime/schedule/extents.h"
#include "runtime/schedule/instruction_list.h"

#include <stdio.h>

static uint64_t element_bytes(int64_t elements, enum dtype dtype) {
    ASSERT(elements > 0);
    return (uint64_t)(elements * dtype_bytes(dtype));
}

struct operand ranks_shard_operand(const struct schedule *schedule, int unit, int extent,
                                   enum access access, enum dtype dtype) {
    struct operand owned = extent_table_whole_extent(schedule, extent, access);
    uint64_t shard_bytes = element_bytes(schedule_shard_elements(schedule, unit), dtype);
    if (owned.bytes != shard_bytes) {
        ASSERT(owned.bytes == shard_bytes * (uint64_t)schedule->options.sharding.shard);
        owned.axis = AXIS_SHARD;
        owned.stride = shard_bytes;
        owned.bytes = shard_bytes;
    }
    return owned;
}

static void append_cast(struct schedule *schedule, enum segment_kind segment, struct operand from,
                        enum dtype from_dtype, struct operand to, enum dtype to_dtype) {
    struct instruction *cast = append_instruction(schedule, OP_CAST, segment, LANE_COMPUTE);
    from.access = ACCESS_READ;
    to.access = ACCESS_WRITE;
    cast->operands[CAST_FROM] = from;
    cast->operands[CAST_TO] = to;
    cast->args.cast.count = (int64_t)to.bytes / dtype_bytes(to_dtype);
    cast->args.cast.from = from_dtype;
    cast->args.cast.to = to_dtype;
    ASSERT(element_bytes(cast->args.cast.count, from_dtype) == from.bytes);
    ASSERT(element_bytes(cast->args.cast.count, to_dtype) == to.bytes);
}

/* Append the all-gather of `all_shards`, an operand that covers the shards of the whole group. */
static void append_gather(struct schedule *schedule, enum segment_kind segment, enum rank_axis axis,
                          struct operand all_shards, enum dtype dtype) {
    struct instruction *gather =
        append_instruction(schedule, OP_ALL_GATHER, segment, LANE_COLLECTIVE);
    ASSERT(schedule_rank_count(schedule, axis) > 1);
    ASSERT(all_shards.bytes % (uint64_t)schedule_rank_count(schedule, axis) == 0);
    all_shards.access = ACCESS_UPDATE;
    gather->operands[ALL_GATHER_SLOTS] = all_shards;
    gather->args.collective = (struct collective_args){
        .axis = axis,
        .wire = dtype,
        .slot_bytes = all_shards.bytes / (uint64_t)schedule_rank_count(schedule, axis)};
}

int append_split_params_gather(struct schedule *schedule, enum segment_kind segment, int unit) {
    const struct unit_extents *of = &schedule->unit_extents[unit];
    enum dtype compute = schedule->options.compute;
    enum param_view view = of->params != EXTENT_NONE ? VIEW_PARAMS : VIEW_MASTER;
    struct unit_view own = schedule_unit_view(schedule, unit, view);
    ASSERT(own.split);
    int gathered = extents_add_gathered_unit(schedule, segment, unit);
    struct operand from = extent_table_whole_extent(schedule, own.extent, ACCESS_READ);
    struct operand to = ranks_shard_operand(schedule, unit, gathered, ACCESS_WRITE, compute);
    if (own.space == SPACE_DEVICE) {
        append_cast(schedule, segment, from, own.dtype, to, compute);
    } else {
        append_operand_copy(schedule, segment, from, to);
    }
    append_gather(schedule, segment, AXIS_SHARD,
                  extent_table_whole_extent(schedule, gathered, ACCESS_UPDATE), compute);
    return gathered;
}

void append_whole_params_gather(struct schedule *schedule, enum segment_kind segment, int unit) {
    int params = schedule->unit_extents[unit].params;
    ASSERT(schedule_zero_stage_row(schedule, unit).optimizer &&
           !schedule_zero_stage_row(schedule, unit).params);
    append_gather(schedule, segment, AXIS_SHARD,
                  extent_table_whole_extent(schedule, params, ACCESS_UPDATE),
                  schedule->options.compute);
}

/* Append the reduce-scatter of `sums`, which begins with the shards of the whole group, over the
 * ranks of `axis`, into this rank's shard. */
static void append_reduce_scatter(struct schedule *schedule, enum segment_kind segment,
                                  enum rank_axis axis, struct operand sums, int wire) {
    enum dtype reduce = schedule->options.sharding.reduce;
    ASSERT(schedule_rank_count(schedule, axis) > 1);
    ASSERT((wire == EXTENT_NONE) == (reduce == DTYPE_F32));
    struct operand from = sums;
    if (wire != EXTENT_NONE) {
        from = (struct operand){
            .extent = wire, .bytes = element_bytes((int64_t)(sums.bytes / sizeof(float)), reduce)};
        append_cast(schedule, segment, sums, DTYPE_F32, from, reduce);
    }
    struct instruction *scatter =
        append_instruction(schedule, OP_REDUCE_SCATTER, segment, LANE_COLLECTIVE);
    ASSERT(from.bytes % (uint64_t)schedule_rank_count(schedule, axis) == 0);
    from.access = ACCESS_READ;
    sums.access = ACCESS_UPDATE;
    scatter->operands[REDUCE_SCATTER_FROM] = from;
    scatter->operands[REDUCE_SCATTER_TO] = sums;
    enum dtype wire_dtype = wire == EXTENT_NONE ? DTYPE_F32 : reduce;
    scatter->args.collective = (struct collective_args){
        .axis = axis,
        .wire = wire_dtype,
        .slot_bytes = from.bytes / (uint64_t)schedule_rank_count(schedule, axis),
        .sum = schedule_wire_sum(schedule, wire_dtype)};
    if (schedule->sum_staging != EXTENT_NONE) {
        scatter->workspace =
            extent_table_whole_extent(schedule, schedule->sum_staging, ACCESS_WRITE);
    }
}

/* Append the instructions that add the sums of the other shard groups to this rank's shard of
 * `sums`, and, if each rank has the unit's gradients whole, gather the total. */
static void append_sum_across_replicas(struct schedule *schedule, enum segment_kind segment,
                                       int unit, int sums) {
    const struct sharding *sharding = &schedule->options.sharding;
    if (sharding->replicate > 1) {
        struct operand own = ranks_shard_operand(schedule, unit, sums, ACCESS_UPDATE, DTYPE_F32);
        append_reduce_scatter(schedule, segment, AXIS_REPLICATE, own,
                              schedule->unit_extents[unit].transfer_gradients);
        append_gather(schedule, segment, AXIS_REPLICATE, own, DTYPE_F32);
    }
    if (sharding->shard > 1 && !schedule_zero_stage_row(schedule, unit).optimizer) {
        append_gather(schedule, segment, AXIS_SHARD,
                      extent_table_whole_extent(schedule, sums, ACCESS_UPDATE), DTYPE_F32);
    }
}

/* Whether the gradients are cast to the transfer dtype a second time, for the sum across replicas.
 * The second cast waits for the first sum and blocks the compute lane, so it is listed as late as
 * possible. */
static bool needs_second_cast(const struct schedule *schedule, int unit) {
    const struct sharding *sharding = &schedule->options.sharding;
    return schedule->unit_extents[unit].transfer_gradients != EXTENT_NONE && sharding->shard > 1 &&
           sharding->replicate > 1;
}

void append_gradient_reduction(struct schedule *schedule, enum segment_kind segment, int unit,
                               int sums) {
    ASSERT(schedule_trains_unit(schedule, unit));
    if (schedule->options.sharding.shard > 1) {
        append_reduce_scatter(schedule, segment, AXIS_SHARD,
                              extent_table_whole_extent(schedule, sums, ACCESS_UPDATE),
                              schedule->unit_extents[unit].transfer_gradients);
    }
    if (!needs_second_cast(schedule, unit)) {
        append_sum_across_replicas(schedule, segment, unit, sums);
    }
}

void append_reduction_end(struct schedule *schedule, enum segment_kind segment, int unit,
                          int sums) {
    int wire = schedule->unit_extents[unit].transfer_gradients;
    if (needs_second_cast(schedule, unit)) {
        append_sum_across_replicas(schedule, segment, unit, sums);
    }
    if (wire != EXTENT_NONE) {
        struct instruction *release =
            append_instruction(schedule, OP_RELEASE, segment, LANE_COMPUTE);
        release->operands[RELEASE_EXTENT] =
            extent_table_whole_extent(schedule, wire, ACCESS_UPDATE);
    }
}

void append_step_gradient_sum(struct schedule *schedule, enum segment_kind segment, int unit) {
    const struct unit_extents *of = &schedule->unit_extents[unit];
    ASSERT(schedule_reduces_microbatches(schedule) && of->microbatch_gradients != EXTENT_NONE);
    struct operand total = extent_table_whole_extent(schedule, of->gradients, ACCESS_UPDATE);
    struct operand sums =
        extent_table_whole_extent(schedule, of->microbatch_gradients, ACCESS_READ);
    if (total.bytes != sums.bytes) {
        sums =
            ranks_shard_operand(schedule, unit, of->microbatch_gradients, ACCESS_READ, DTYPE_F32);
    }
    ASSERT(total.bytes == sums.bytes);
    struct instruction *accumulate =
        append_instruction(schedule, OP_ACCUMULATE, segment, LANE_COMPUTE);
    accumulate->operands[ACCUMULATE_ADDEND] = sums;
    accumulate->operands[ACCUMULATE_SUM] = total;
    accumulate->args.elementwise = (struct elementwise_args){
        .count = (int64_t)(total.bytes / sizeof(float)), .dtype = DTYPE_F32};
}

void append_tally_send(struct schedule *schedule, enum segment_kind segment) {
    if (schedule->tallies == EXTENT_NONE) {
        return;
    }
    ASSERT(schedule->extents[schedule->tallies].bytes ==
           (uint64_t)schedule_rank_count(schedule, AXIS_WORLD) * sizeof(struct rank_tally));
    struct instruction *out = append_instruction(schedule, OP_TALLY_OUT, segment, LANE_COMPUTE);
    out->operands[TALLY_OUT_SCALARS] =
        extent_table_whole_extent(schedule, schedule->host.device_scalars, ACCESS_READ);
    out->operands[TALLY_OUT_TALLY] = (struct operand){.extent = schedule->tallies,
                                                      .access = ACCESS_WRITE,
                                                      .axis = AXIS_WORLD,
                                                      .bytes = sizeof(struct rank_tally),
                                                      .stride = sizeof(struct rank_tally)};
    append_gather(schedule, segment, AXIS_WORLD,
                  extent_table_whole_extent(schedule, schedule->tallies, ACCESS_UPDATE), DTYPE_F32);
}

void append_tally_receive(struct schedule *schedule, enum segment_kind segment, unsigned parts) {
    if (schedule->tallies == EXTENT_NONE) {
        return;
    }
    ASSERT(parts != 0 && schedule_rank_count(schedule, AXIS_WORLD) > 1);
    struct instruction *in = append_instruction(schedule, OP_TALLY_IN, segment, LANE_COMPUTE);
    in->operands[TALLY_IN_TALLIES] =
        extent_table_whole_extent(schedule, schedule->tallies, ACCESS_READ);
    in->operands[TALLY_IN_SCALARS] =
        extent_table_whole_extent(schedule, schedule->host.device_scalars, ACCESS_UPDATE);
    in->args.tally = (struct tally_args){.ranks = schedule_rank_count(schedule, AXIS_WORLD),
                                         .shard_size = schedule->options.sharding.shard,
                                         .parts = parts};
}
