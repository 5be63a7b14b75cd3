#include "runtime/shard/volumes.h"

/* Return the bytes that a rank receives when a group of `ranks` gathers or reduces `elements`:
 * all but its own shard. */
static uint64_t bytes_from_others(int64_t elements, int ranks, enum dtype wire) {
    return (uint64_t)(elements / ranks * (ranks - 1) * dtype_bytes(wire));
}

static void add_gather_volumes(const struct volume_args *args, struct step_volumes *volumes) {
    for (int i = 0; i < args->spans->gather_count; i++) {
        const struct gather_span *span = &args->spans->gathers[i];
        int64_t elements = args->units->units[span->unit].elements;
        uint64_t bytes = bytes_from_others(elements, args->sharding->shard, args->compute) *
                         (uint64_t)args->accumulation;
        if (span->first < args->forward_count) {
            volumes->gather_forward += bytes;
        } else {
            volumes->gather_backward += bytes;
        }
    }
}

static void add_reduce_volumes(const struct volume_args *args, struct step_volumes *volumes) {
    const struct sharding *sharding = args->sharding;
    bool each_microbatch = sharding->reduce_at == REDUCE_AT_MICROBATCH;
    uint64_t times = each_microbatch ? (uint64_t)args->accumulation : 1;
    for (int i = 0; i < args->spans->reduce_count; i++) {
        int unit = args->spans->reduces[i].unit;
        int64_t elements = args->units->units[unit].elements;
        int64_t shard_elements = elements / sharding->shard;
        volumes->reduce += bytes_from_others(elements, sharding->shard, sharding->reduce) * times;
        volumes->between_replicas +=
            (bytes_from_others(shard_elements, sharding->replicate, sharding->reduce) +
             bytes_from_others(shard_elements, sharding->replicate, DTYPE_F32)) *
            times;
        const struct zero_stage_row *row = zero_stage_row(sharding->units[unit].zero);
        if (!row->optimizer) {
            volumes->gather_reduced_gradients +=
                bytes_from_others(elements, sharding->shard, DTYPE_F32) * times;
        } else if (!row->params) {
            volumes->gather_params += bytes_from_others(elements, sharding->shard, args->compute);
        }
    }
}

struct step_volumes volumes_of_step(const struct volume_args *args) {
    ASSERT(args->accumulation >= 1 && args->sharding->replicate >= 1);
    struct step_volumes volumes = {0};
    add_gather_volumes(args, &volumes);
    add_reduce_volumes(args, &volumes);
    return volumes;
}
