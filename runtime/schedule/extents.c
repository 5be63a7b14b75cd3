/* extents: the buffers that outlive one segment: units, moments, and what the host fills. */
#include "runtime/schedule/extents.h"

#include <stdio.h>
#include <string.h>

int schedule_named_extent(struct schedule *schedule, const char *name, enum extent_role role,
                          enum space space, uint64_t bytes) {
    return schedule_extent(
        schedule, (struct extent){.name = name, .role = role, .space = space, .bytes = bytes});
}

static int unit_extent(struct schedule *schedule, int unit, const char *suffix,
                       enum extent_role role, enum dtype dtype) {
    const struct unit *of = &schedule->units->units[unit];
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", of->name, suffix);
    return schedule_named_extent(schedule, region_text(schedule->region, name), role, SPACE_DEVICE,
                                 (uint64_t)(of->elements * dtype_bytes(dtype)));
}

void extents_add_units(struct schedule *schedule) {
    const struct schedule_options *options = &schedule->options;
    int unit_count = schedule->units->unit_count;
    schedule->unit_extents =
        region_alloc(schedule->region, (size_t)unit_count, sizeof *schedule->unit_extents);
    for (int unit = 0; unit < unit_count; unit++) {
        struct unit_extents *of = &schedule->unit_extents[unit];
        memset(of, 0xff, sizeof *of); /* EXTENT_NONE is -1 */
        of->params = unit_extent(schedule, unit, "params", ROLE_PARAMS, options->compute);
        of->master = of->params;
        if (!options->train) {
            continue;
        }
        if (options->compute != DTYPE_F32) {
            of->master = unit_extent(schedule, unit, "master", ROLE_MASTER, DTYPE_F32);
        }
        of->gradients = unit_extent(schedule, unit, "gradients", ROLE_GRADIENTS, DTYPE_F32);
        of->moment1 = unit_extent(schedule, unit, "exp_avg", ROLE_MOMENTS, options->moments);
        of->moment2 = unit_extent(schedule, unit, "exp_avg_sq", ROLE_MOMENTS, options->moments);
    }
}

struct unit_view schedule_unit_view(const struct schedule *schedule, int unit,
                                    enum param_view view) {
    const struct schedule_options *options = &schedule->options;
    const struct unit_extents *of = &schedule->unit_extents[unit];
    const int extents[] = {of->params, of->master, of->gradients, of->moment1, of->moment2};
    const enum dtype dtypes[] = {options->compute, options->train ? DTYPE_F32 : options->compute,
                                 DTYPE_F32, options->moments, options->moments};
    ASSERT((size_t)view < ARRAY_COUNT(extents));
    return (struct unit_view){.extent = extents[view],
                              .dtype = dtypes[view],
                              .slot = schedule->units->units[unit].elements};
}

/* What one buffer of the host looks like from both sides: the device's, and the pinned one that the
 * host fills when it cannot reach the device's. */
static int host_extent(struct schedule *schedule, const char *name, enum extent_role role,
                       uint64_t bytes, int *device) {
    *device = schedule_named_extent(schedule, name, role, SPACE_DEVICE, bytes);
    if (schedule->options.unified) {
        return *device;
    }
    char staged[NAME_BYTES];
    snprintf(staged, sizeof staged, "%s.staged", name);
    return schedule_named_extent(schedule, region_text(schedule->region, staged), ROLE_STAGING,
                                 SPACE_PINNED, bytes);
}

static int64_t batch_tokens_max(const struct schedule_options *options) {
    int64_t tokens = options->sequence * options->microbatch;
    return tokens > options->prefill ? tokens : options->prefill;
}

struct device_inputs extents_add_host(struct schedule *schedule) {
    const struct schedule_options *options = &schedule->options;
    const struct blueprint *blueprint = schedule->blueprint;
    struct host_extents *host = &schedule->host;
    struct device_inputs device = {.rope_table = EXTENT_NONE};
    *host = (struct host_extents){
        .rope_table = EXTENT_NONE, .logits = EXTENT_NONE, .next_logits = EXTENT_NONE};
    uint64_t bytes = (uint64_t)batch_tokens_max(options) * sizeof(int32_t);
    host->ids = host_extent(schedule, "batch.ids", ROLE_BATCH, bytes, &device.ids);
    host->positions =
        host_extent(schedule, "batch.positions", ROLE_BATCH, bytes, &device.positions);
    host->labels = host_extent(schedule, "batch.labels", ROLE_BATCH, bytes, &device.labels);
    host->scalars = host_extent(schedule, "scalars", ROLE_SCALARS, sizeof(struct step_scalars),
                                &device.scalars);
    host->device_scalars = device.scalars;
    if (blueprint->rope != ROPE_NONE) {
        int64_t positions =
            options->sequence > options->context ? options->sequence : options->context;
        bytes = (uint64_t)(positions * blueprint->head_dim) * sizeof(float);
        host->rope_table =
            host_extent(schedule, "rope_table", ROLE_CONSTANTS, bytes, &device.rope_table);
    }
    /* One row with its last label, in the widest form that token files have. */
    bytes = (uint64_t)(options->sequence + 1) * sizeof(uint32_t);
    host->raw_tokens =
        schedule_named_extent(schedule, "batch.raw", ROLE_STAGING, SPACE_HOST, bytes);
    host->staging = schedule_named_extent(schedule, "files.staging", ROLE_STAGING, SPACE_HOST,
                                          options->staging_bytes);
    return device;
}

int extents_add_result(struct schedule *schedule, const char *name, uint64_t bytes, int *host) {
    int device;
    *host = host_extent(schedule, name, ROLE_ACTIVATIONS, bytes, &device);
    return device;
}
