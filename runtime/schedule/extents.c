/* extents: the buffers that outlive one segment: units, moments, and the inputs that the CPU
 * writes. */
#include "runtime/schedule/extents.h"

#include <stdio.h>
#include <string.h>

/* ---- units ---- */

/* The memory in which an extent of a unit is stored. */
enum placement {
    ON_DEVICE,
    ON_HOST,       /* in host memory */
    ON_HOST_COPIED /* in host memory, and copied to or from the device */
};

/* The name suffix, role and contents of one extent of a unit. */
struct extent_spec {
    const char *suffix;       /* last part of the extent's name */
    enum extent_role role;    /* use of the extent */
    enum dtype dtype;         /* type of the elements */
    bool split;               /* the extent contains only this rank's shard */
    enum placement placement; /* memory in which the extent is stored */
};

static int add_unit_extent(struct schedule *schedule, int unit, const struct extent_spec *spec) {
    const struct unit *of = &schedule->units->units[unit];
    int64_t elements = spec->split ? schedule_shard_elements(schedule, unit) : of->elements;
    ASSERT(elements > 0 && elements <= of->elements);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", of->name, spec->suffix);
    const char *full_name = region_copy_text(schedule->region, name);
    uint64_t bytes = (uint64_t)(elements * dtype_bytes(spec->dtype));
    if (spec->placement == ON_DEVICE) {
        return extent_table_add(schedule, full_name, spec->role, SPACE_DEVICE, bytes);
    }
    return extent_table_add_offloaded(schedule, full_name, spec->role,
                                      spec->placement == ON_HOST_COPIED, bytes);
}

static void add_param_extents(struct schedule *schedule, int unit, struct unit_extents *of) {
    enum dtype compute = schedule->options.compute;
    struct zero_stage_row row = schedule_zero_stage_row(schedule, unit);
    bool trains = schedule_trains_unit(schedule, unit);
    bool offloads = schedule_offloads_unit(schedule, unit, OFFLOAD_OPTIMIZER);
    bool in_host_memory = row.params && schedule_offloads_unit(schedule, unit, OFFLOAD_PARAMS);
    struct extent_spec params = {"params", ROLE_PARAMS, compute, row.params,
                                 in_host_memory ? ON_HOST_COPIED : ON_DEVICE};
    struct extent_spec master = {"master", ROLE_MASTER, DTYPE_F32, row.optimizer,
                                 offloads ? ON_HOST : ON_DEVICE};
    if (!row.params || offloads) {
        of->params = add_unit_extent(schedule, unit, &params);
    }
    if (trains && (row.params || compute != DTYPE_F32 || offloads)) {
        of->master = add_unit_extent(schedule, unit, &master);
    } else {
        of->master = row.params ? add_unit_extent(schedule, unit, &params) : of->params;
    }
    ASSERT(of->master != EXTENT_NONE);
    ASSERT(!offloads || (of->params != EXTENT_NONE && of->params != of->master));
}

static void add_training_extents(struct schedule *schedule, int unit, struct unit_extents *of) {
    const struct sharding *sharding = &schedule->options.sharding;
    ASSERT(schedule_trains_unit(schedule, unit) && of->master != EXTENT_NONE);
    enum dtype moment = schedule->options.moments;
    bool split = schedule_zero_stage_row(schedule, unit).optimizer;
    enum placement placement =
        schedule_offloads_unit(schedule, unit, OFFLOAD_OPTIMIZER) ? ON_HOST : ON_DEVICE;
    struct extent_spec gradients = {"gradients", ROLE_GRADIENTS, DTYPE_F32,
                                    schedule_splits_gradients(schedule, unit), ON_DEVICE};
    struct extent_spec moment1 = {"exp_avg", ROLE_MOMENTS, moment, split, placement};
    struct extent_spec moment2 = {"exp_avg_sq", ROLE_MOMENTS, moment, split, placement};
    of->gradients = add_unit_extent(schedule, unit, &gradients);
    of->moment1 = add_unit_extent(schedule, unit, &moment1);
    of->moment2 = add_unit_extent(schedule, unit, &moment2);
    if (schedule_reduces_microbatches(schedule)) {
        struct extent_spec local = {"gradients.local", ROLE_GRADIENTS, DTYPE_F32, false, ON_DEVICE};
        of->microbatch_gradients = add_unit_extent(schedule, unit, &local);
    }
    if (schedule_rank_count(schedule, AXIS_WORLD) > 1 && sharding->reduce != DTYPE_F32) {
        struct extent_spec wire = {"gradients.wire", ROLE_STAGING, sharding->reduce, false,
                                   ON_DEVICE};
        of->transfer_gradients = add_unit_extent(schedule, unit, &wire);
    }
}

/* Adds the staging extents of an offloaded optimizer: through them, gradients are copied to host
 * memory and params to the device. */
static void add_offload_staging(struct schedule *schedule, int unit, struct unit_extents *of) {
    bool split = schedule_zero_stage_row(schedule, unit).optimizer;
    ASSERT(of->gradients != EXTENT_NONE && of->params != EXTENT_NONE);
    struct extent_spec gradients = {"gradients.host", ROLE_STAGING, DTYPE_F32, split,
                                    ON_HOST_COPIED};
    struct extent_spec params = {"params.host", ROLE_STAGING, schedule->options.compute, split,
                                 ON_HOST_COPIED};
    of->host_gradients = add_unit_extent(schedule, unit, &gradients);
    bool is_in_host_memory = schedule->extents[of->params].space != SPACE_DEVICE;
    of->host_params = is_in_host_memory ? of->params : add_unit_extent(schedule, unit, &params);
}

void extents_add_units(struct schedule *schedule) {
    int unit_count = schedule->units->unit_count;
    ASSERT(unit_count > 0);
    schedule->unit_extents =
        region_alloc(schedule->region, (size_t)unit_count, sizeof *schedule->unit_extents);
    for (int unit = 0; unit < unit_count; unit++) {
        struct unit_extents *of = &schedule->unit_extents[unit];
        memset(of, 0xff, sizeof *of); /* EXTENT_NONE is -1 */
        add_param_extents(schedule, unit, of);
        if (schedule_trains_unit(schedule, unit)) {
            add_training_extents(schedule, unit, of);
        }
        if (schedule_offloads_unit(schedule, unit, OFFLOAD_OPTIMIZER)) {
            add_offload_staging(schedule, unit, of);
        }
    }
}

/* Adds the staging buffer that receives the shards of the other ranks. Sums are computed in parts,
 * and one at a time on their lane, so all sums share one buffer, which has the size that the
 * largest sum needs. On a CPU, the arenas of other ranks are read directly, so no staging is
 * needed. */
void extents_add_sum_staging(struct schedule *schedule) {
    enum dtype wire = schedule->options.sharding.reduce;
    int world = schedule_rank_count(schedule, AXIS_WORLD);
    uint64_t bytes = 0;
    schedule->sum_staging = EXTENT_NONE;
    if (schedule_device(schedule) == NULL || world == 1 || !schedule->options.train ||
        schedule_wire_sum(schedule, wire) == WIRE_SUM_RING) {
        return;
    }
    for (int unit = 0; unit < schedule->units->unit_count; unit++) {
        if (schedule_trains_unit(schedule, unit)) {
            uint64_t whole = (uint64_t)(schedule->units->units[unit].elements * dtype_bytes(wire));
            bytes = whole > bytes ? whole : bytes;
        }
    }
    if (bytes == 0) {
        return;
    }
    uint64_t bytes_min = (uint64_t)world * SUM_STAGING_MIN;
    /* this rank's own shard is read in place and needs no staging */
    bytes -= bytes / (uint64_t)world;
    bytes = bytes > SUM_STAGING_MAX ? SUM_STAGING_MAX : bytes;
    bytes = bytes < bytes_min ? bytes_min : bytes;
    ASSERT(bytes >= bytes_min && (bytes <= SUM_STAGING_MAX || bytes == bytes_min));
    schedule->sum_staging =
        extent_table_add(schedule, "gradients.summed", ROLE_STAGING, SPACE_DEVICE, bytes);
}

int extents_add_gathered_unit(struct schedule *schedule, enum segment_kind segment, int unit) {
    ASSERT(schedule_zero_stage_row(schedule, unit).params);
    char suffix[NAME_BYTES];
    snprintf(suffix, sizeof suffix, "params.gathered%s%s", segment == SEGMENT_MICROBATCH ? "" : ".",
             segment == SEGMENT_MICROBATCH ? "" : segment_name(segment));
    struct extent_spec gathered = {suffix, ROLE_GATHERED, schedule->options.compute, false,
                                   ON_DEVICE};
    return add_unit_extent(schedule, unit, &gathered);
}

/* ---- inputs that the CPU writes ---- */

/* Add an input on the device as *device. Where the CPU cannot access device memory, also add a copy
 * in pinned memory for the CPU to write. Returns the extent that the CPU writes. */
static int add_input_extents(struct schedule *schedule, const char *name, enum extent_role role,
                             uint64_t bytes, int *device) {
    *device = extent_table_add(schedule, name, role, SPACE_DEVICE, bytes);
    if (schedule->target->unified) {
        return *device;
    }
    char staged[NAME_BYTES];
    snprintf(staged, sizeof staged, "%s.staged", name);
    return extent_table_add(schedule, region_copy_text(schedule->region, staged), ROLE_STAGING,
                            SPACE_PINNED, bytes);
}

static int64_t batch_tokens_max(const struct schedule_options *options) {
    ASSERT(options->sequence >= 1 && options->microbatch >= 1 && options->prefill >= 0);
    int64_t tokens = options->sequence * options->microbatch;
    return tokens > options->prefill ? tokens : options->prefill;
}

struct device_inputs extents_add_inputs(struct schedule *schedule) {
    const struct schedule_options *options = &schedule->options;
    const struct blueprint *blueprint = schedule->blueprint;
    struct cpu_extents *host = &schedule->host;
    struct device_inputs device = {.rope_table = EXTENT_NONE};
    *host = (struct cpu_extents){.rope_table = EXTENT_NONE,
                                 .logits = EXTENT_NONE,
                                 .next_logits = EXTENT_NONE,
                                 .device_staging = EXTENT_NONE};
    uint64_t bytes = (uint64_t)batch_tokens_max(options) * sizeof(int32_t);
    host->ids = add_input_extents(schedule, "batch.ids", ROLE_BATCH, bytes, &device.ids);
    host->positions =
        add_input_extents(schedule, "batch.positions", ROLE_BATCH, bytes, &device.positions);
    host->labels = add_input_extents(schedule, "batch.labels", ROLE_BATCH, bytes, &device.labels);
    host->scalars = add_input_extents(schedule, "scalars", ROLE_SCALARS,
                                      sizeof(struct step_scalars), &device.scalars);
    host->device_scalars = device.scalars;
    schedule->tallies = EXTENT_NONE;
    int world = schedule_rank_count(schedule, AXIS_WORLD);
    if (world > 1) {
        bytes = (uint64_t)world * sizeof(struct rank_tally);
        schedule->tallies =
            extent_table_add(schedule, "tallies", ROLE_SCALARS, SPACE_DEVICE, bytes);
    }
    if (blueprint->rope.kind != ROPE_NONE) {
        int64_t positions =
            options->sequence > options->context ? options->sequence : options->context;
        bytes = (uint64_t)(positions * blueprint->head_dim) * sizeof(float);
        host->rope_table =
            add_input_extents(schedule, "rope_table", ROLE_CONSTANTS, bytes, &device.rope_table);
    }
    /* Space for one row and its last label, in the widest token file format. */
    bytes = (uint64_t)(options->sequence + 1) * sizeof(uint32_t);
    host->raw_tokens = extent_table_add(schedule, "batch.raw", ROLE_STAGING, SPACE_HOST, bytes);
    host->staging = extent_table_add(schedule, "files.staging", ROLE_STAGING, SPACE_HOST,
                                     options->staging_bytes);
    if (!schedule->target->unified) {
        host->device_staging = extent_table_add(schedule, "device.staging", ROLE_STAGING,
                                                SPACE_PINNED, options->staging_bytes);
    }
    return device;
}

void extents_add_resident(struct schedule *schedule) {
    const struct schedule_options *options = &schedule->options;
    ASSERT(options->resident_count >= 0);
    schedule->resident = region_alloc(schedule->region, (size_t)options->resident_count + 1,
                                      sizeof *schedule->resident);
    for (int i = 0; i < options->resident_count; i++) {
        const struct resident_extent *spec = &options->resident[i];
        ASSERT(spec->role == ROLE_OUTER || spec->role == ROLE_EXCHANGE);
        schedule->resident[i] =
            spec->bytes == 0
                ? EXTENT_NONE
                : extent_table_add(schedule, spec->name, spec->role, spec->space, spec->bytes);
    }
}

int extents_add_result(struct schedule *schedule, const char *name, uint64_t bytes, int *host) {
    int device;
    *host = add_input_extents(schedule, name, ROLE_ACTIVATIONS, bytes, &device);
    return device;
}
