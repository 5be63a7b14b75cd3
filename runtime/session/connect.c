/* connect: connects a session with the other ranks of its site: agreement on outcomes, and
 * collectives over their arenas. */
#include "base/log.h"
#include "build_config.h"
#include "runtime/session/session.h"
#include "transport/collectives/shm.h"
#if SKEP_CUDA
#include "runtime/program/cuda_ranks.h"
#include "targets/ports/cuda_device.h"
#endif

int session_rank_count(const struct session *session) {
    ASSERT(session->site == NULL || session->ranks == site_launch_info(session->site)->world);
    return session->ranks > 1 ? session->ranks : 1;
}

bool session_is_rank0(const struct session *session) {
    return session->site == NULL || site_launch_info(session->site)->rank == 0;
}

/* If the device of this rank has failed, that failure is the outcome. This rank then reports it
 * with site_report_failure and does not wait for the other ranks, because they may be in a
 * collective that waits for this rank. */
enum status session_agree(const struct session *session, enum status mine, struct fault *fault) {
    struct fault failure;
    if (session->bound.program != NULL && program_failure(&session->bound, &failure) != OK) {
        *fault = mine == OK ? failure : *fault;
        return mine == OK ? failure.status : mine;
    }
    return session->site == NULL ? mine : site_agree(session->site, mine, fault);
}

static enum status agree_between_ranks(void *context, enum status mine, struct fault *fault) {
    return session_agree(context, mine, fault);
}

struct checkpoint_ranks session_checkpoint_ranks(struct session *session) {
    return (struct checkpoint_ranks){.rank = session->bound.ranks.index[AXIS_WORLD],
                                     .world = session_rank_count(session),
                                     .agree = agree_between_ranks,
                                     .context = session};
}

/* Lists this rank's group along each dimension of the mesh, and the group of all ranks. */
static void list_groups(const struct session *session, struct region *region,
                        struct collective_group groups[static AXIS_COUNT]) {
    static const unsigned DIMS[AXIS_COUNT] = {[AXIS_SHARD] = 1U << MESH_SHARD,
                                              [AXIS_REPLICATE] = 1U << MESH_REPLICATE,
                                              [AXIS_WORLD] = (1U << MESH_DIMS) - 1};
    const struct rank_indices *ranks = &session->bound.ranks;
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        int *members = region_alloc(region, (size_t)ranks->size[axis], sizeof *members);
        struct collective_group *group = &groups[axis];
        group->ranks = members;
        group->size = mesh_list_group(&session->mesh, DIMS[axis], ranks->index[AXIS_WORLD], members,
                                      &group->index);
        ASSERT(group->size == ranks->size[axis] && group->index == ranks->index[axis]);
    }
}

static enum status register_arenas(struct session *session, struct fault *fault) {
    const struct bound_program *bound = &session->bound;
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (bound->shared[space]) {
            TRY(shm_register(&session->communicator, (enum space)space, bound->fd[space],
                             bound->base[space], session->program.plan.peak_bytes[space], fault));
        }
    }
    return OK;
}

static enum status open_shared_memory_communicator(struct session *session,
                                                   const struct collective_group *groups,
                                                   struct fault *fault) {
    TRY(shm_open_site(session->site, groups, AXIS_COUNT, &session->region, &session->communicator,
                      fault));
    return register_arenas(session, fault);
}

static enum status open_communicator(struct session *session, struct fault *fault) {
    struct collective_group groups[AXIS_COUNT];
    list_groups(session, &session->region, groups);
#if SKEP_CUDA
    if (program_needs_rehearsal(&session->bound)) {
        return cuda_ranks_open(&session->bound, session->site, groups, &session->region,
                               &session->communicator, fault);
    }
#endif
    return open_shared_memory_communicator(session, groups, fault);
}

/* Logs the device memory that the driver counts for all processes, to compare it with the plan. */
static void log_device_memory(const struct session *session) {
#if SKEP_CUDA
    const struct cuda_device *device = session->bound.port.cuda;
    uint64_t left;
    struct fault ignored;
    if (device != NULL && cuda_device_free_bytes(device, &left, &ignored) == OK) {
        log_line(LOG_DEBUG, "device memory: %llu bytes planned, %llu declared, %llu in use",
                 (unsigned long long)session->program.plan.peak_bytes[SPACE_DEVICE],
                 (unsigned long long)target_declared_bytes(session->target, SPACE_DEVICE),
                 (unsigned long long)(device->memory_bytes - left));
    }
#else
    (void)session;
#endif
}

/* No rank starts its rehearsal before all ranks have connected, because a rehearsal executes
 * collectives. */
enum status session_connect(struct session *session, struct fault *fault) {
    if (session->site == NULL) {
        return OK;
    }
    enum status status = open_communicator(session, fault);
    if (status == OK) {
        status = program_connect(&session->bound, &session->communicator, fault);
    }
    if (!program_needs_rehearsal(&session->bound)) {
        return status;
    }
    status = session_agree(session, status, fault);
    if (status == OK) {
        activity_begin("warming up the GPUs", 0);
        status = program_rehearse(&session->bound, fault);
        activity_end(false);
    }
    if (status == OK) {
        session_load_constants(session);
        log_device_memory(session);
    }
    return status;
}
