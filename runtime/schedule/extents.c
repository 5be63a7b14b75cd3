/* extents: the buffers that outlive one segment: units, moments, and what the host fills. */
#include "runtime/schedule/extents.h"

#include <stdio.h>
#include <string.h>

/* ---- units ---- */

enum place { ON_DEVICE, ON_HOST, ON_HOST_COPIED };

/* What an extent of a unit is called, is for, and holds. */
struct extent_spec {
    const char *suffix;
    enum extent_role role;
    enum dtype dtype;
    bool split;
    enum place place;
};

static int unit_extent(struct schedule *schedule, int unit, const struct extent_spec *holding) {
    const struct unit *of = &schedule->units->units[unit];
    int64_t elements = holding->split ? schedule_shard_elements(schedule, unit) : of->elements;
    ASSERT(elements > 0 && elements <= of->elements);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", of->name, holding->suffix);
    const char *kept = region_text(schedule->region, name);
    uint64_t bytes = (uint64_t)(elements * dtype_bytes(holding->dtype));
    if (holding->place == ON_DEVICE) {
        return extent_table_add(schedule, kept, holding->role, SPACE_DEVICE, bytes);
    }
    return extent_table_add_offloaded(schedule, kept, holding->role,
                                      holding->place == ON_HOST_COPIED, bytes);
}

static void add_params(struct schedule *schedule, int unit, struct unit_extents *of) {
    enum dtype compute = schedule->options.compute;
    struct zero_row row = schedule_zero(schedule, unit);
    bool trains = schedule_trains(schedule, unit);
    bool offloads = schedule_offloads(schedule, unit, OFFLOAD_OPTIMIZER);
    bool leaves = row.params && schedule_offloads(schedule, unit, OFFLOAD_PARAMS);
    struct extent_spec params = {"params", ROLE_PARAMS, compute, row.params,
                                 leaves ? ON_HOST_COPIED : ON_DEVICE};
    struct extent_spec master = {"master", ROLE_MASTER, DTYPE_F32, row.optimizer,
                                 offloads ? ON_HOST : ON_DEVICE};
    if (!row.params || offloads) {
        of->params = unit_extent(schedule, unit, &params);
    }
    if (trains && (row.params || compute != DTYPE_F32 || offloads)) {
        of->master = unit_extent(schedule, unit, &master);
    } else {
        of->master = row.params ? unit_extent(schedule, unit, &params) : of->params;
    }
    ASSERT(of->master != EXTENT_NONE);
    ASSERT(!offloads || (of->params != EXTENT_NONE && of->params != of->master));
}

static void add_training(struct schedule *schedule, int unit, struct unit_extents *of) {
    const struct sharding *sharding = &schedule->options.sharding;
    ASSERT(schedule_trains(schedule, unit) && of->master != EXTENT_NONE);
    enum dtype moment = schedule->options.moments;
    bool split = schedule_zero(schedule, unit).optimizer;
    enum place place = schedule_offloads(schedule, unit, OFFLOAD_OPTIMIZER) ? ON_HOST : ON_DEVICE;
    struct extent_spec gradients = {"gradients", ROLE_GRADIENTS, DTYPE_F32,
                                    schedule_splits_gradients(schedule, unit), ON_DEVICE};
    struct extent_spec moment1 = {"exp_avg", ROLE_MOMENTS, moment, split, place};
    struct extent_spec moment2 = {"exp_avg_sq", ROLE_MOMENTS, moment, split, place};
    of->gradients = unit_extent(schedule, unit, &gradients);
    of->moment1 = unit_extent(schedule, unit, &moment1);
    of->moment2 = unit_extent(schedule, unit, &moment2);
    if (schedule_reduces_microbatches(schedule)) {
        struct extent_spec local = {"gradients.local", ROLE_GRADIENTS, DTYPE_F32, false, ON_DEVICE};
        of->local = unit_extent(schedule, unit, &local);
    }
    if (schedule_ranks(schedule, AXIS_WORLD) > 1 && sharding->reduce != DTYPE_F32) {
        struct extent_spec wire = {"gradients.wire", ROLE_STAGING, sharding->reduce, false,
                                   ON_DEVICE};
        of->wire = unit_extent(schedule, unit, &wire);
    }
}

/* Between an optimizer in host memory and the device: a unit's gradients out, its params in. */
static void add_offload_staging(struct schedule *schedule, int unit, struct unit_extents *of) {
    bool split = schedule_zero(schedule, unit).optimizer;
    ASSERT(of->gradients != EXTENT_NONE && of->params != EXTENT_NONE);
    struct extent_spec gradients = {"gradients.host", ROLE_STAGING, DTYPE_F32, split,
                                    ON_HOST_COPIED};
    struct extent_spec params = {"params.host", ROLE_STAGING, schedule->options.compute, split,
                                 ON_HOST_COPIED};
    of->host_gradients = unit_extent(schedule, unit, &gradients);
    bool there = schedule->extents[of->params].space != SPACE_DEVICE;
    of->host_params = there ? of->params : unit_extent(schedule, unit, &params);
}

void extents_add_units(struct schedule *schedule) {
    int unit_count = schedule->units->unit_count;
    ASSERT(unit_count > 0);
    schedule->unit_extents =
        region_alloc(schedule->region, (size_t)unit_count, sizeof *schedule->unit_extents);
    for (int unit = 0; unit < unit_count; unit++) {
        struct unit_extents *of = &schedule->unit_extents[unit];
        memset(of, 0xff, sizeof *of); /* EXTENT_NONE is -1 */
        add_params(schedule, unit, of);
        if (schedule_trains(schedule, unit)) {
            add_training(schedule, unit, of);
        }
        if (schedule_offloads(schedule, unit, OFFLOAD_OPTIMIZER)) {
            add_offload_staging(schedule, unit, of);
        }
    }
}

/* The other ranks' slots of the largest sum, or a piece of them: sums are made piece by piece, one
 * at a time on their lane, so all share one buffer. Peers' arenas are read where they lie on a
 * processor, and need none. */
void extents_add_sum_staging(struct schedule *schedule) {
    enum dtype wire = schedule->options.sharding.reduce;
    int world = schedule_ranks(schedule, AXIS_WORLD);
    uint64_t most = 0;
    schedule->sum_staging = EXTENT_NONE;
    if (schedule_device(schedule) == NULL || world == 1 || !schedule->options.train ||
        schedule_wire_sum(schedule, wire) == WIRE_SUM_RING) {
        return;
    }
    for (int unit = 0; unit < schedule->units->unit_count; unit++) {
        if (schedule_trains(schedule, unit)) {
            uint64_t whole = (uint64_t)(schedule->units->units[unit].elements * dtype_bytes(wire));
            most = whole > most ? whole : most;
        }
    }
    if (most == 0) {
        return;
    }
    uint64_t least = (uint64_t)world * SUM_STAGING_LEAST;
    most -= most / (uint64_t)world; /* the own slot is summed from where it lies */
    most = most > SUM_STAGING_MOST ? SUM_STAGING_MOST : most;
    most = most < least ? least : most;
    ASSERT(most >= least && (most <= SUM_STAGING_MOST || most == least));
    schedule->sum_staging =
        extent_table_add(schedule, "gradients.summed", ROLE_STAGING, SPACE_DEVICE, most);
}

int extents_add_gathered(struct schedule *schedule, enum segment_kind segment, int unit) {
    ASSERT(schedule_zero(schedule, unit).params);
    char suffix[NAME_BYTES];
    snprintf(suffix, sizeof suffix, "params.gathered%s%s", segment == SEGMENT_MICROBATCH ? "" : ".",
             segment == SEGMENT_MICROBATCH ? "" : segment_name(segment));
    struct extent_spec gathered = {suffix, ROLE_GATHERED, schedule->options.compute, false,
                                   ON_DEVICE};
    return unit_extent(schedule, unit, &gathered);
}

/* ---- what the host fills ---- */

/* What one buffer of the host looks like from both sides: the device's, and the pinned one that the
 * host fills when it cannot reach the device's. */
static int host_extent(struct schedule *schedule, const char *name, enum extent_role role,
                       uint64_t bytes, int *device) {
    *device = extent_table_add(schedule, name, role, SPACE_DEVICE, bytes);
    if (schedule->target->unified) {
        return *device;
    }
    char staged[NAME_BYTES];
    snprintf(staged, sizeof staged, "%s.staged", name);
    return extent_table_add(schedule, region_text(schedule->region, staged), ROLE_STAGING,
                            SPACE_PINNED, bytes);
}

static int64_t batch_tokens_max(const struct schedule_options *options) {
    ASSERT(options->sequence >= 1 && options->microbatch >= 1 && options->prefill >= 0);
    int64_t tokens = options->sequence * options->microbatch;
    return tokens > options->prefill ? tokens : options->prefill;
}

struct device_inputs extents_add_host(struct schedule *schedule) {
    const struct schedule_options *options = &schedule->options;
    const struct blueprint *blueprint = schedule->blueprint;
    struct host_extents *host = &schedule->host;
    struct device_inputs device = {.rope_table = EXTENT_NONE};
    *host = (struct host_extents){.rope_table = EXTENT_NONE,
                                  .logits = EXTENT_NONE,
                                  .next_logits = EXTENT_NONE,
                                  .device_staging = EXTENT_NONE};
    uint64_t bytes = (uint64_t)batch_tokens_max(options) * sizeof(int32_t);
    host->ids = host_extent(schedule, "batch.ids", ROLE_BATCH, bytes, &device.ids);
    host->positions =
        host_extent(schedule, "batch.positions", ROLE_BATCH, bytes, &device.positions);
    host->labels = host_extent(schedule, "batch.labels", ROLE_BATCH, bytes, &device.labels);
    host->scalars = host_extent(schedule, "scalars", ROLE_SCALARS, sizeof(struct step_scalars),
                                &device.scalars);
    host->device_scalars = device.scalars;
    schedule->tallies = EXTENT_NONE;
    int world = schedule_ranks(schedule, AXIS_WORLD);
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
            host_extent(schedule, "rope_table", ROLE_CONSTANTS, bytes, &device.rope_table);
    }
    /* One row with its last label, in the widest form that token files have. */
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
    ASSERT(options->kept_count >= 0);
    schedule->kept =
        region_alloc(schedule->region, (size_t)options->kept_count + 1, sizeof *schedule->kept);
    for (int i = 0; i < options->kept_count; i++) {
        const struct resident_extent *kept = &options->kept[i];
        ASSERT(kept->role == ROLE_OUTER || kept->role == ROLE_EXCHANGE);
        schedule->kept[i] = kept->bytes == 0 ? EXTENT_NONE
                                             : extent_table_add(schedule, kept->name, kept->role,
                                                                kept->space, kept->bytes);
    }
}

int extents_add_result(struct schedule *schedule, const char *name, uint64_t bytes, int *host) {
    int device;
    *host = host_extent(schedule, name, ROLE_ACTIVATIONS, bytes, &device);
    return device;
}
