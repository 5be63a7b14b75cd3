/* connect: a session as one rank of several: what it asks the others, and its arenas among theirs.
 */
#include "base/log.h"
#include "build_config.h"
#include "runtime/session/session.h"
#include "transport/collectives/shm.h"
#if SKEP_CUDA
#include "runtime/program/cuda_ranks.h"
#include "targets/ports/cuda_device.h"
#endif

int session_ranks(const struct session *session) {
    return session->site == NULL ? 1 : site_launch_info(session->site)->world;
}

bool session_is_rank0(const struct session *session) {
    return session->site == NULL || site_launch_info(session->site)->rank == 0;
}

/* A device that failed is this rank's outcome, whatever it was about to agree to. It asks nobody:
 * the others may be in a collective that waits for this rank, and learn of it from site_fail. */
enum status session_agree(const struct session *session, enum status mine, struct fault *fault) {
    struct fault failure;
    if (session->bound.program != NULL && program_failure(&session->bound, &failure) != OK) {
        *fault = mine == OK ? failure : *fault;
        return mine == OK ? failure.status : mine;
    }
    return session->site == NULL ? mine : site_agree(session->site, mine, fault);
}

static enum status agree_of(void *context, enum status mine, struct fault *fault) {
    return session_agree(context, mine, fault);
}

struct checkpoint_ranks session_checkpoint_site(struct session *session) {
    return (struct checkpoint_ranks){.rank = session->bound.ranks.of[AXIS_WORLD],
                                     .world = session_ranks(session),
                                     .agree = agree_of,
                                     .context = session};
}

/* This rank's group along each axis: ranks `apart` from each other, from `first` on. */
static void list_groups(const struct rank_indices *ranks, struct region *region,
                        struct collective_group groups[static AXIS_COUNT]) {
    int shard = ranks->size[AXIS_SHARD];
    const int first[AXIS_COUNT] = {ranks->of[AXIS_REPLICATE] * shard, ranks->of[AXIS_SHARD], 0};
    const int apart[AXIS_COUNT] = {1, shard, 1};
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        int size = ranks->size[axis];
        int *members = region_alloc(region, (size_t)size, sizeof *members);
        for (int i = 0; i < size; i++) {
            members[i] = first[axis] + i * apart[axis];
        }
        groups[axis] =
            (struct collective_group){.ranks = members, .size = size, .index = ranks->of[axis]};
    }
}

static enum status register_arenas(struct session *session, struct fault *fault) {
    const struct bound_program *bound = &session->bound;
    enum status status = OK;
    for (int space = 0; space < SPACE_COUNT && status == OK; space++) {
        if (bound->shared[space]) {
            status =
                shm_register(&session->communicator, (enum space)space, bound->fd[space],
                             bound->base[space], session->program.plan.peak_bytes[space], fault);
        }
    }
    return status;
}

static enum status open_shared(struct session *session, const struct collective_group *groups,
                               struct fault *fault) {
    enum status status = shm_open_site(session->site, groups, AXIS_COUNT, &session->region,
                                       &session->communicator, fault);
    return status == OK ? register_arenas(session, fault) : status;
}

static enum status open_ranks(struct session *session, struct fault *fault) {
    struct collective_group groups[AXIS_COUNT];
    list_groups(&session->bound.ranks, &session->region, groups);
#if SKEP_CUDA
    if (program_waits(&session->bound)) {
        return cuda_ranks_open(&session->bound, session->site, groups, &session->region,
                               &session->communicator, fault);
    }
#endif
    return open_shared(session, groups, fault);
}

/* What the driver counts, of all processes, beside what the plan promises. */
static void tell_memory(const struct session *session) {
#if SKEP_CUDA
    const struct cuda_device *device = session->bound.port.cuda;
    uint64_t left;
    struct fault untold;
    if (device != NULL && cuda_device_free(device, &left, &untold) == OK) {
        log_line(LOG_DEBUG, "device memory: %llu bytes planned, %llu declared, %llu taken",
                 (unsigned long long)session->program.plan.peak_bytes[SPACE_DEVICE],
                 (unsigned long long)target_declared_bytes(session->target, SPACE_DEVICE),
                 (unsigned long long)(device->memory_bytes - left));
    }
#else
    (void)session;
#endif
}

/* Nobody begins to rehearse before all are there to answer. */
enum status session_connect(struct session *session, struct fault *fault) {
    if (session->site == NULL) {
        return OK;
    }
    enum status status = open_ranks(session, fault);
    if (status == OK) {
        status = program_connect(&session->bound, &session->communicator, fault);
    }
    if (!program_waits(&session->bound)) {
        return status;
    }
    status = session_agree(session, status, fault);
    if (status == OK) {
        status = program_rehearse(&session->bound, fault);
    }
    if (status == OK) {
        session_load_constants(session);
        tell_memory(session);
    }
    return status;
}
