#include "runtime/inner_training/member_replica.h"

#include "build_config.h"
#if SKEP_CUDA
#include "runtime/program/cuda_program.h"
#include "runtime/swarm/replica/replica_cuda.h"
#endif

void *swarm_extent_address(const struct session *session, enum swarm_extent extent) {
    int index = session->program.schedule.resident[extent];
    return index == EXTENT_NONE ? NULL : program_extent_address(&session->bound, index);
}

/* With several ranks, whose masters are shards, makes the replica use a flat copy on rank 0, in
 * which the masters are gathered. */
static void use_flat_copy(struct session *session, float *copy, struct replica *replica) {
    struct flat_span *part = region_alloc(&session->region, 1, sizeof *part);
    *part = (struct flat_span){0, replica->shape.slices.parameter_count, copy, NULL};
    replica->parts = part;
    replica->part_count = 1;
}

/* Makes the replica use the masters, in blueprint order, as its flat space. */
static void use_masters_as_flat(struct session *session, struct replica *replica) {
    int count = session->blueprint.param_count;
    struct flat_span *parts = region_alloc(&session->region, (size_t)count, sizeof *parts);
    int64_t begin = 0;
    for (int i = 0; i < count; i++) {
        struct param_part master = program_param_part(&session->bound, i, VIEW_MASTER);
        int64_t elements = param_elements(&session->blueprint.params[i]);
        ASSERT(master.dtype == DTYPE_F32 && master.first == 0 && master.count == elements);
        parts[i] = (struct flat_span){begin, elements, master.address, master.device_memory};
        begin += elements;
    }
    replica->parts = parts;
    replica->part_count = count;
}

/* Binds the replica to the GPU, if the target has one. A build without CUDA has already rejected a
 * GPU target when the program was bound. */
static enum status bind_device(struct session *session, struct replica *replica,
                               struct fault *fault) {
#if SKEP_CUDA
    if (swarm_device_computes_on_replica(session->target)) {
        struct replica_cuda *made = region_alloc(&session->region, 1, sizeof *made);
        const struct replica_cuda_args args = {
            .compute = cuda_program_compute(&session->bound),
            .gpu = session->bound.port.cuda,
            .device_slots = swarm_extent_address(session, SWARM_EXTENT_DEVICE_SLOTS)};
        return replica_cuda_init(&args, replica, made, fault);
    }
#endif
    (void)session;
    (void)replica;
    (void)fault;
    return OK;
}

enum status swarm_replica_bind(struct session *session, const struct replica_shape *shape,
                               struct replica *replica, struct fault *fault) {
    ASSERT(session->resident_count == SWARM_EXTENT_COUNT);
    struct hash *names = swarm_extent_address(session, SWARM_EXTENT_LEAF_HASHES);
    *replica = (struct replica){
        .shape = *shape,
        .compute = &session->bound.compute,
        .params = swarm_extent_address(session, SWARM_EXTENT_PARAMS),
        .momentum = swarm_extent_address(session, SWARM_EXTENT_MOMENTUM),
        .feedback = swarm_extent_address(session, SWARM_EXTENT_FEEDBACK),
        .residual = swarm_extent_address(session, SWARM_EXTENT_RESIDUAL),
        .contribution = swarm_extent_address(session, SWARM_EXTENT_CONTRIBUTION),
        .results = swarm_extent_address(session, SWARM_EXTENT_RESULTS),
        .slots = swarm_extent_address(session, SWARM_EXTENT_CONTRIBUTION_SLOTS),
        .residual_sources = swarm_extent_address(session, SWARM_EXTENT_RESIDUAL_SOURCES),
        .leaves = names,
        .voted_leaves = names + replica_leaf_count(&shape->slices),
        .scratch = swarm_extent_address(session, SWARM_EXTENT_OUTER_SCRATCH),
    };
    replica_bind_declared(replica, swarm_extent_address(session, SWARM_EXTENT_DECLARED));
    float *inner = swarm_extent_address(session, SWARM_EXTENT_INNER_WEIGHTS);
    if (inner != NULL) {
        use_flat_copy(session, inner, replica);
    } else {
        use_masters_as_flat(session, replica);
    }
    return bind_device(session, replica, fault);
}
