/* addresses: the addresses of a bound program's extents and parameters. */
#include "kernels/elementwise.h"
#include "runtime/program/program.h"

void *program_extent_address(const struct bound_program *bound, int extent) {
    ASSERT(extent >= 0 && extent < bound->program->schedule.extent_count);
    enum space space = bound->program->schedule.extents[extent].space;
    return bound->base[space] + bound->program->plan.offsets[extent];
}

const struct device_memory *program_device_memory(const struct bound_program *bound,
                                                  enum space space) {
    return bound->device != NULL && space == SPACE_DEVICE ? &bound->device->memory : NULL;
}

void program_cast_params(const struct bound_program *bound, const struct program_cast *cast) {
    if (bound->device != NULL) {
        bound->device->methods->cast(bound->device, cast);
        return;
    }
    cast_run(&bound->compute, cast->count, cast->from_dtype, cast->from, cast->to_dtype, cast->to);
}

struct param_part program_param_part(const struct bound_program *bound, int index,
                                     enum param_view view) {
    const struct schedule *schedule = &bound->program->schedule;
    const struct unit_param *slot =
        &schedule->units->params[schedule->units->position_of_param[index]];
    struct unit_view of = schedule_unit_view(schedule, slot->unit, view);
    if (of.extent == EXTENT_NONE) {
        return (struct param_part){0};
    }
    struct unit_range here = {0, schedule->units->units[slot->unit].elements};
    if (of.split) {
        here.begin = of.shard_elements * bound->ranks.index[AXIS_SHARD];
        here.end = here.begin + of.shard_elements;
    }
    struct unit_part part;
    if (!unit_find_param_part(schedule->units, index, here, &part)) {
        return (struct param_part){0};
    }
    char *base = program_extent_address(bound, of.extent);
    return (struct param_part){.first = part.first,
                               .count = part.count,
                               .dtype = of.dtype,
                               .device_memory = program_device_memory(bound, of.space),
                               .address = base + part.offset * dtype_bytes(of.dtype)};
}

struct step_scalars *program_scalars(const struct bound_program *bound) {
    return program_extent_address(bound, bound->program->schedule.host.scalars);
}
