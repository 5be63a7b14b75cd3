/* nccl: opens communicators and registers memory. */
#include "transport/collectives/nccl_state.h"

#include "base/limits.h"
#include "base/log.h"

/* The message that each rank sends when it opens the communicator. The first rank of a group sends
 * the id of the group. */
struct nccl_hello {
    int32_t outcome;            /* enum status: the outcome of the sending rank so far */
    struct group_hashes groups; /* hashes of the ranks of each group */
    /* [group] id; set only in the hello of the group's first rank */
    struct nccl_id ids[COLLECTIVE_GROUPS_MAX];
};

static bool has_same_ranks(const struct collective_group *a, const struct collective_group *b) {
    bool same = a->size == b->size;
    for (int i = 0; i < a->size && same; i++) {
        same = a->ranks[i] == b->ranks[i];
    }
    return same;
}

/* Groups of the same ranks in the same order share an NCCL communicator, because each
 * communicator uses device memory. The result is the same on all ranks, because they have
 * compared their groups. */
static void share_comms(struct nccl *nccl) {
    const struct communicator *communicator = nccl->communicator;
    for (int g = 0; g < communicator->group_count; g++) {
        const struct collective_group *group = &communicator->groups[g];
        nccl->comm_index[g] = -1;
        if (group->index < 0 || group->size == 1) {
            continue;
        }
        for (int before = 0; before < g && nccl->comm_index[g] < 0; before++) {
            if (nccl->comm_index[before] >= 0 &&
                has_same_ranks(group, &communicator->groups[before])) {
                nccl->comm_index[g] = nccl->comm_index[before];
            }
        }
        if (nccl->comm_index[g] < 0) {
            nccl->comm_index[g] = nccl->comm_count++;
        }
    }
}

/* Find the first group that uses a communicator. */
static int first_group_of(const struct nccl *nccl, int comm_index) {
    int group = 0;
    while (nccl->comm_index[group] != comm_index) {
        group++;
    }
    return group;
}

static enum status return_failure(const struct nccl *nccl, struct fault *fault) {
    return nccl_failure(nccl->communicator, fault);
}

/* Load the library, and create the stream and an id for every group whose first rank this is. */
static enum status prepare_hello(struct nccl *nccl, struct nccl_hello *hello, struct fault *fault) {
    TRY(nccl_library_find(&nccl->library, fault));
    TRY(cuda_device_create_stream(nccl->args.device, true, &nccl->stream, fault));
    for (int comm_index = 0; comm_index < nccl->comm_count; comm_index++) {
        int group = first_group_of(nccl, comm_index);
        if (nccl->communicator->groups[group].index == 0 &&
            nccl_check(nccl, NULL, nccl->library.ncclGetUniqueId(&hello->ids[group]),
                       "create the NCCL id of a group") != OK) {
            return return_failure(nccl, fault);
        }
    }
    return OK;
}

static enum status join_comm(struct nccl *nccl, int comm_index, const struct nccl_hello *hellos,
                             struct fault *fault) {
    int index = first_group_of(nccl, comm_index);
    const struct collective_group *group = &nccl->communicator->groups[index];
    const struct nccl_id *id = &hellos[group->ranks[0]].ids[index];
    struct nccl_config config = {.size = sizeof config,
                                 .magic = (unsigned)NCCL_CONFIG_MAGIC,
                                 .version = NCCL_CONFIG_VERSION,
                                 .blocking = 0,
                                 .cga_cluster_size = NCCL_UNSET,
                                 .ctas_min = NCCL_UNSET,
                                 .ctas_max = NCCL_UNSET,
                                 .split_share = NCCL_UNSET,
                                 .unset = NCCL_UNSET};
    struct ncclComm **comm = &nccl->comms[comm_index].comm;
    unsigned result =
        nccl->library.ncclCommInitRankConfig(comm, group->size, *id, group->index, &config);
    return nccl_check(nccl, *comm, result, "connect the ranks of a group") == OK
               ? OK
               : return_failure(nccl, fault);
}

static enum status join_comms(struct nccl *nccl, const struct nccl_hello *mine,
                              struct fault *fault) {
    const struct communicator *communicator = nccl->communicator;
    struct nccl_hello *hellos =
        region_alloc(nccl->setup.region, (size_t)communicator->world, sizeof *hellos);
    TRY(nccl->setup.exchange(nccl->setup.context, mine, sizeof *mine, hellos, fault));
    for (int rank = 0; rank < communicator->world; rank++) {
        TRY(hellos[rank].outcome == OK ? OK : groups_set_join_fault(&nccl->setup, rank, fault));
    }
    TRY(groups_compare(communicator, &hellos[0].groups, sizeof *hellos, "NCCL", fault));
    for (int comm_index = 0; comm_index < nccl->comm_count; comm_index++) {
        TRY(join_comm(nccl, comm_index, hellos, fault));
    }
    return OK;
}

/* Closing in order needs all ranks, so a communicator that failed is aborted instead. The
 * timeout is needed because the loss of a rank may not be detected at this stage. */
static void close_comm(struct nccl *nccl, struct nccl_shared_comm *shared) {
    const struct nccl_library *library = &nccl->library;
    struct ncclComm *comm = shared->comm;
    if (shared->registered != NULL) {
        (void)library->ncclCommDeregister(comm, shared->registered);
    }
    if (nccl_check(nccl, comm, library->ncclCommFinalize(comm), "close a communicator") == OK) {
        (void)library->ncclCommDestroy(comm);
        shared->comm = NULL;
    }
}

static void nccl_close(void *self) {
    struct nccl *nccl = self;
    nccl->operation_timeout_ms = NCCL_LEAVE_MS;
    for (int i = 0; i < nccl->comm_count && !nccl->has_failed && !atomic_load(&nccl->is_aborted);
         i++) {
        if (nccl->comms[i].comm != NULL) {
            close_comm(nccl, &nccl->comms[i]);
        }
    }
    nccl_abort_calls(nccl);
    if (nccl->stream != NULL) {
        (void)nccl->args.device->driver.cuStreamDestroy(nccl->stream);
        nccl->stream = NULL;
    }
}

static const struct communicator_methods METHODS = {
    .name = "nccl", .run = nccl_run, .abort = nccl_request_abort, .close = nccl_close};

static struct nccl *allocate_state(const struct nccl_args *args, struct region *region,
                                   struct communicator *communicator) {
    struct nccl *nccl = region_alloc(region, 1, sizeof *nccl);
    nccl->communicator = communicator;
    nccl->args = *args;
    nccl->setup = (struct group_setup){.exchange = args->exchange,
                                       .context = args->context,
                                       .world = args->world,
                                       .region = region,
                                       .subject = "NCCL"};
    nccl->operation_timeout_ms = NCCL_OPEN_S * 1000;
    share_comms(nccl);
    return nccl;
}

enum status nccl_open(const struct nccl_args *args, struct region *region,
                      struct communicator *communicator, struct fault *fault) {
    ASSERT(args->world > 0 && args->world <= RANKS_MAX);
    ASSERT(args->rank >= 0 && args->rank < args->world);
    struct communicator opened = {.methods = &METHODS, .rank = args->rank, .world = args->world};
    groups_copy(args->groups, args->group_count, region, &opened);
    struct nccl *nccl = allocate_state(args, region, &opened);
    struct nccl_hello *hello = region_alloc(region, 1, sizeof *hello);
    groups_hash(&opened, &hello->groups);
    opened.self = nccl;
    enum status prepared = prepare_hello(nccl, hello, fault);
    hello->outcome = prepared;
    struct fault other;
    enum status joined = join_comms(nccl, hello, prepared == OK ? fault : &other);
    enum status status =
        groups_agree_on_outcome(&nccl->setup, prepared == OK ? joined : prepared, fault);
    if (status != OK) {
        nccl->has_failed = true;
        nccl_close(nccl);
        return status;
    }
    *communicator = opened;
    nccl->communicator = communicator;
    return OK;
}

/* If NCCL rejects the memory, it copies through its own buffers instead, so this is not a
 * failure. */
static enum status register_memory(struct nccl *nccl, struct nccl_shared_comm *shared,
                                   void *address, uint64_t bytes, struct fault *fault) {
    unsigned result =
        nccl->library.ncclCommRegister(shared->comm, address, bytes, &shared->registered);
    if (result == NCCL_IN_PROGRESS) {
        return nccl_await_operation(nccl, shared->comm, "register the arena") == OK
                   ? OK
                   : return_failure(nccl, fault);
    }
    if (result != NCCL_SUCCESS) {
        shared->registered = NULL;
    }
    if (result != NCCL_SUCCESS &&
        /* log this once: the other communicators give the same result */
        shared == &nccl->comms[0]) {
        log_line(LOG_INFO, "NCCL cannot register the arena (%s): collectives are slower",
                 nccl->library.ncclGetErrorString(result));
    }
    return OK;
}

enum status nccl_register(struct communicator *communicator, enum space space, void *address,
                          uint64_t bytes, struct fault *fault) {
    struct nccl *nccl = communicator->self;
    ASSERT(communicator->methods == &METHODS && space < SPACE_COUNT);
    ASSERT(bytes > 0 && communicator->space_bytes[space] == 0);
    for (int i = 0; space == SPACE_DEVICE && i < nccl->comm_count; i++) {
        TRY(register_memory(nccl, &nccl->comms[i], address, bytes, fault));
    }
    nccl->space_addresses[space] = address;
    communicator->space_bytes[space] = bytes;
    return OK;
}
