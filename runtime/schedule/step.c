#include "runtime/schedule/step.h"

#include "runtime/schedule/ranks.h"

void step_build_begin(struct schedule *schedule, const struct device_inputs *inputs) {
    schedule_begin(schedule, SEGMENT_BEGIN, 1);
    schedule_copy(schedule, SEGMENT_BEGIN, schedule->host.scalars, inputs->scalars);
    ranks_tally_send(schedule, SEGMENT_BEGIN);
    for (int unit = 0; unit < schedule->units->unit_count; unit++) {
        if (schedule_trains(schedule, unit)) {
            schedule_zero_fill(schedule, SEGMENT_BEGIN, schedule->unit_extents[unit].gradients);
        }
    }
    ranks_tally_receive(schedule, SEGMENT_BEGIN, TALLY_TOKENS);
    schedule_end(schedule, SEGMENT_BEGIN);
}

static bool reduces_here(const struct schedule *schedule, int unit) {
    return schedule_trains(schedule, unit) && schedule_ranks(schedule, AXIS_WORLD) > 1 &&
           schedule->sharding.reduce_at == REDUCE_AT_STEP;
}

/* One unit's reduction runs while the next one's is cast to the wire. */
static void add_reductions(struct schedule *schedule) {
    int before = -1;
    for (int unit = 0; unit <= schedule->units->unit_count; unit++) {
        bool reduces = unit < schedule->units->unit_count && reduces_here(schedule, unit);
        if (reduces) {
            ranks_reduce(schedule, SEGMENT_FINISH, unit, schedule->unit_extents[unit].gradients);
        }
        if (before >= 0 && (reduces || unit == schedule->units->unit_count)) {
            ranks_reduce_end(schedule, SEGMENT_FINISH, before,
                             schedule->unit_extents[before].gradients);
        }
        before = reduces ? unit : before;
    }
}

/* Over what this rank owns, so that the ranks of a replica count every gradient once. */
static void add_gradient_norm(struct schedule *schedule, int unit) {
    struct instruction *norm =
        schedule_instruction(schedule, OP_GRADIENT_NORM, SEGMENT_FINISH, LANE_COMPUTE);
    norm->operands[0] =
        ranks_owned(schedule, unit, schedule->unit_extents[unit].gradients, ACCESS_READ, DTYPE_F32);
    norm->operands[1] = schedule_whole(schedule, schedule->host.device_scalars, ACCESS_UPDATE);
    norm->args.count = schedule_slot(schedule, unit);
    schedule_workspace(schedule, norm);
}

static void add_clip(struct schedule *schedule) {
    struct instruction *clip =
        schedule_instruction(schedule, OP_CLIP, SEGMENT_FINISH, LANE_COMPUTE);
    clip->operands[0] = schedule_whole(schedule, schedule->host.device_scalars, ACCESS_UPDATE);
    clip->args.clip_norm = schedule->options.clip_norm;
}

static struct adamw_of_rank adamw_args_of(const struct schedule *schedule, int unit, bool split) {
    const struct schedule_options *options = &schedule->options;
    const struct unit *of = &schedule->units->units[unit];
    int64_t count = split ? schedule_slot(schedule, unit) : of->elements;
    int64_t decayed = of->decayed_elements;
    return (struct adamw_of_rank){.decayed_of_unit = decayed,
                                  .split = split,
                                  .run = {.count = count,
                                          .decayed = decayed < count ? decayed : count,
                                          .beta1 = options->beta1,
                                          .beta2 = options->beta2,
                                          .epsilon = options->epsilon,
                                          .weight_decay = options->weight_decay,
                                          .dtype_moments = options->moments,
                                          .dtype_params = options->compute}};
}

/* AdamW over all of a unit, or over what this rank owns of it. */
static void add_adamw(struct schedule *schedule, int unit) {
    const struct unit_extents *of = &schedule->unit_extents[unit];
    bool split = schedule_zero(schedule, unit).optimizer;
    struct instruction *adamw =
        schedule_instruction(schedule, OP_ADAMW, SEGMENT_FINISH, LANE_COMPUTE);
    const int extents[] = {of->gradients, of->master, of->moment1, of->moment2, of->params};
    const enum param_view views[] = {VIEW_GRADIENT, VIEW_MASTER, VIEW_MOMENT1, VIEW_MOMENT2,
                                     VIEW_PARAMS};
    int count = of->params == EXTENT_NONE || of->params == of->master ? 4 : 5;
    adamw->operands[0] = schedule_whole(schedule, schedule->host.device_scalars, ACCESS_READ);
    for (int k = 0; k < count; k++) {
        enum access access = op_row(OP_ADAMW)->access[1 + k];
        enum dtype dtype = schedule_unit_view(schedule, unit, views[k]).dtype;
        adamw->operands[1 + k] = split ? ranks_owned(schedule, unit, extents[k], access, dtype)
                                       : schedule_whole(schedule, extents[k], access);
    }
    adamw->args.adamw = adamw_args_of(schedule, unit, split);
    if (split && of->params != EXTENT_NONE) {
        ranks_gather_whole(schedule, SEGMENT_FINISH, unit);
    }
}

void step_build_finish(struct schedule *schedule) {
    int unit_count = schedule->units->unit_count;
    schedule_begin(schedule, SEGMENT_FINISH, 1);
    add_reductions(schedule);
    for (int unit = 0; unit < unit_count; unit++) {
        if (schedule_trains(schedule, unit)) {
            add_gradient_norm(schedule, unit);
        }
    }
    ranks_tally_send(schedule, SEGMENT_FINISH);
    ranks_tally_receive(schedule, SEGMENT_FINISH, TALLY_LOSS | TALLY_NORM);
    add_clip(schedule);
    for (int unit = 0; unit < unit_count; unit++) {
        if (schedule_trains(schedule, unit)) {
            add_adamw(schedule, unit);
        }
    }
    schedule_copy(schedule, SEGMENT_FINISH, schedule->host.device_scalars, schedule->host.scalars);
    schedule_end(schedule, SEGMENT_FINISH);
}
