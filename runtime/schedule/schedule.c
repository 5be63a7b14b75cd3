/* schedule: queries of a schedule and the options that it was built from. These functions only read
 * the schedule. */
#include "runtime/schedule/schedule.h"

static const char *const SEGMENT_NAMES[SEGMENT_COUNT] = {
    "load", "begin", "microbatch", "finish", "evaluate", "prefill", "decode", "snapshot"};

const char *segment_name(enum segment_kind kind) {
    ASSERT(kind < SEGMENT_COUNT);
    return SEGMENT_NAMES[kind];
}

bool schedule_executes_on_cpu(const struct schedule *schedule,
                              const struct instruction *instruction) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        int extent = instruction->operands[k].extent;
        if (extent != EXTENT_NONE && schedule->extents[extent].space == SPACE_DEVICE) {
            return false;
        }
    }
    return true;
}

const struct target *schedule_device(const struct schedule *schedule) {
    return schedule->target->kind == TARGET_CUDA ? schedule->target : NULL;
}

int schedule_rank_count(const struct schedule *schedule, enum rank_axis axis) {
    const struct sharding *sharding = &schedule->options.sharding;
    const int ranks[AXIS_COUNT] = {[AXIS_SHARD] = sharding->shard,
                                   [AXIS_REPLICATE] = sharding->replicate,
                                   [AXIS_WORLD] = sharding->shard * sharding->replicate};
    ASSERT(axis < AXIS_COUNT);
    return ranks[axis];
}

enum wire_sum schedule_wire_sum(const struct schedule *schedule, enum dtype wire) {
    bool rings = schedule_device(schedule) != NULL && wire == DTYPE_F32 &&
                 schedule->options.sharding.wire_sum == WIRE_SUM_RING;
    return rings ? WIRE_SUM_RING : WIRE_SUM_EXACT;
}

struct zero_stage_row schedule_zero_stage_row(const struct schedule *schedule, int unit) {
    const struct sharding *sharding = &schedule->options.sharding;
    ASSERT(unit >= 0 && unit < schedule->units->unit_count);
    return *zero_stage_row(sharding->shard > 1 ? sharding->units[unit].zero : 0);
}

int64_t schedule_shard_elements(const struct schedule *schedule, int unit) {
    ASSERT(unit >= 0 && unit < schedule->units->unit_count);
    return unit_shard_elements(&schedule->units->units[unit], schedule->options.sharding.shard);
}

bool schedule_trains_unit(const struct schedule *schedule, int unit) {
    ASSERT(unit >= 0 && unit < schedule->units->unit_count);
    return schedule->options.train && !schedule->units->units[unit].frozen;
}

bool schedule_offloads_unit(const struct schedule *schedule, int unit, enum offload kind) {
    ASSERT(kind != 0 && (kind & (kind - 1)) == 0); /* exactly one bit is set */
    return schedule_trains_unit(schedule, unit) && (schedule->options.offload & kind) != 0;
}

bool schedule_reduces_microbatches(const struct schedule *schedule) {
    return schedule_rank_count(schedule, AXIS_WORLD) > 1 &&
           schedule->options.sharding.reduce_at == REDUCE_AT_MICROBATCH;
}

bool schedule_splits_gradients(const struct schedule *schedule, int unit) {
    return schedule_zero_stage_row(schedule, unit).optimizer &&
           schedule_reduces_microbatches(schedule);
}

struct unit_view schedule_unit_view(const struct schedule *schedule, int unit,
                                    enum param_view view) {
    const struct schedule_options *options = &schedule->options;
    const struct unit_extents *of = &schedule->unit_extents[unit];
    bool trains = schedule_trains_unit(schedule, unit);
    struct zero_stage_row row = schedule_zero_stage_row(schedule, unit);
    const struct unit_view views[] = {
        [VIEW_PARAMS] = {.extent = of->params, .dtype = options->compute, .split = row.params},
        [VIEW_MASTER] = {.extent = of->master,
                         .dtype = trains ? DTYPE_F32 : options->compute,
                         .split = of->master != of->params && row.optimizer},
        [VIEW_GRADIENT] = {.extent = of->gradients,
                           .dtype = DTYPE_F32,
                           .split = schedule_splits_gradients(schedule, unit)},
        [VIEW_MOMENT1] = {.extent = of->moment1, .dtype = options->moments, .split = row.optimizer},
        [VIEW_MOMENT2] = {.extent = of->moment2, .dtype = options->moments, .split = row.optimizer},
    };
    ASSERT((size_t)view < ARRAY_COUNT(views));
    struct unit_view found = views[view];
    found.shard_elements = schedule_shard_elements(schedule, unit);
    if (found.extent != EXTENT_NONE) {
        int64_t elements =
            found.split ? found.shard_elements : schedule->units->units[unit].elements;
        ASSERT(!found.split || schedule->options.sharding.shard > 1);
        ASSERT(schedule->extents[found.extent].bytes ==
               (uint64_t)(elements * dtype_bytes(found.dtype)));
        found.space = schedule->extents[found.extent].space;
    }
    return found;
}
