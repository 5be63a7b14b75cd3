/* nccl: opens communicators and registers memory. */
#include "transport/collectives/nccl_state.h"

#include "base/limits.h"
#include "base/log.h"

/* Sent by each rank when it opens the communicator, with ids for the groups whose first rank it
 * is. */
struct nccl_hello {
    int32_t outcome;
    struct group_hashes groups;
    struct nccl_id ids[COLLECTIVE_GROUPS_MAX];
};

static bool has_same_ranks(const struct collective_group *a, const struct collective_group *b) {
    bool same = a->size == b->size;
    for (int i = 0; i < a->size && same; i++) {
        same = a->ranks[i] == b->ranks[i];
    }
    return same;
}

/* Groups of the same ranks in the same order share an NCCL communicator, because each uses device
 * memory. All ranks get the same result, because they have compared their groups. */
static void share_rings(struct nccl *nccl) {
    const struct communicator *communicator = nccl->communicator;
    for (int g = 0; g < communicator->group_count; g++) {
        const struct collective_group *group = &communicator->groups[g];
        nccl->ring_of[g] = -1;
        if (group->index < 0 || group->size == 1) {
            continue;
        }
        for (int before = 0; before < g && nccl->ring_of[g] < 0; before++) {
            if (nccl->ring_of[before] >= 0 &&
                has_same_ranks(group, &communicator->groups[before])) {
                nccl->ring_of[g] = nccl->ring_of[before];
            }
        }
        if (nccl->ring_of[g] < 0) {
            nccl->ring_of[g] = nccl->ring_count++;
        }
    }
}

/* The first group that uses the ring. */
static int group_of_ring(const struct nccl *nccl, int ring) {
    int group = 0;
    while (nccl->ring_of[group] != ring) {
        group++;
    }
    return group;
}

static enum status failure(const struct nccl *nccl, struct fault *fault) {
    return nccl_failure(nccl->communicator, fault);
}

/* Load the library, and create the stream and an id for every group whose first rank this is. */
static enum status prepare_hello(struct nccl *nccl, struct nccl_hello *hello, struct fault *fault) {
    TRY(nccl_library_find(&nccl->library, fault));
    TRY(cuda_device_stream(nccl->args.device, true, &nccl->stream, fault));
    for (int ring = 0; ring < nccl->ring_count; ring++) {
        int group = group_of_ring(nccl, ring);
        if (nccl->communicator->groups[group].index == 0 &&
            nccl_check(nccl, NULL, nccl->library.ncclGetUniqueId(&hello->ids[group]),
                       "create the id of a group") != OK) {
            return failure(nccl, fault);
        }
    }
    return OK;
}

static enum status join_ring(struct nccl *nccl, int ring, const struct nccl_hello *hellos,
                             struct fault *fault) {
    int index = group_of_ring(nccl, ring);
    const struct collective_group *group = &nccl->communicator->groups[index];
    const struct nccl_id *id = &hellos[group->ranks[0]].ids[index];
    struct nccl_config config = {.size = sizeof config,
                                 .magic = (unsigned)NCCL_CONFIG_MAGIC,
                                 .version = NCCL_CONFIG_VERSION,
                                 .blocking = 0,
                                 .cga_cluster_size = NCCL_UNSET,
                                 .ctas_least = NCCL_UNSET,
                                 .ctas_most = NCCL_UNSET,
                                 .split_share = NCCL_UNSET,
                                 .unset = NCCL_UNSET};
    struct ncclComm **comm = &nccl->rings[ring].comm;
    unsigned result =
        nccl->library.ncclCommInitRankConfig(comm, group->size, *id, group->index, &config);
    return nccl_check(nccl, *comm, result, "join the ranks of a group") == OK
               ? OK
               : failure(nccl, fault);
}

static enum status join(struct nccl *nccl, const struct nccl_hello *mine, struct fault *fault) {
    const struct communicator *communicator = nccl->communicator;
    struct nccl_hello *hellos =
        region_alloc(nccl->setup.region, (size_t)communicator->world, sizeof *hellos);
    TRY(nccl->setup.exchange(nccl->setup.context, mine, sizeof *mine, hellos, fault));
    for (int rank = 0; rank < communicator->world; rank++) {
        TRY(hellos[rank].outcome == OK ? OK : groups_fault_for(&nccl->setup, rank, fault));
    }
    TRY(groups_compare(communicator, &hellos[0].groups, sizeof *hellos, "NCCL", fault));
    for (int ring = 0; ring < nccl->ring_count; ring++) {
        TRY(join_ring(nccl, ring, hellos, fault));
    }
    return OK;
}

/* Closing in order needs all ranks, so a communicator that failed is aborted instead. A rank may
 * also be lost now without detection, hence the timeout. */
static void leave_ring(struct nccl *nccl, struct nccl_ring *ring) {
    const struct nccl_library *library = &nccl->library;
    struct ncclComm *comm = ring->comm;
    if (ring->registered != NULL) {
        (void)library->ncclCommDeregister(comm, ring->registered);
    }
    if (nccl_check(nccl, comm, library->ncclCommFinalize(comm), "close a communicator") == OK) {
        (void)library->ncclCommDestroy(comm);
        ring->comm = NULL;
    }
}

static void nccl_close(void *self) {
    struct nccl *nccl = self;
    nccl->settle_ms = NCCL_LEAVE_MS;
    for (int i = 0; i < nccl->ring_count && !nccl->failed && !atomic_load(&nccl->ended); i++) {
        if (nccl->rings[i].comm != NULL) {
            leave_ring(nccl, &nccl->rings[i]);
        }
    }
    nccl_abandon(nccl);
    if (nccl->stream != NULL) {
        (void)nccl->args.device->driver.cuStreamDestroy(nccl->stream);
        nccl->stream = NULL;
    }
}

static const struct communicator_methods METHODS = {
    .name = "nccl", .run = nccl_run, .abort = nccl_end, .close = nccl_close};

static struct nccl *new_state(const struct nccl_args *args, struct region *region,
                              struct communicator *communicator) {
    struct nccl *nccl = region_alloc(region, 1, sizeof *nccl);
    nccl->communicator = communicator;
    nccl->args = *args;
    nccl->setup = (struct group_setup){.exchange = args->exchange,
                                       .context = args->context,
                                       .world = args->world,
                                       .region = region,
                                       .subject = "NCCL"};
    nccl->settle_ms = NCCL_OPEN_S * 1000;
    share_rings(nccl);
    return nccl;
}

enum status nccl_open(const struct nccl_args *args, struct region *region,
                      struct communicator *communicator, struct fault *fault) {
    ASSERT(args->world > 0 && args->world <= RANKS_MAX);
    ASSERT(args->rank >= 0 && args->rank < args->world);
    struct communicator opened = {.methods = &METHODS, .rank = args->rank, .world = args->world};
    groups_copy(args->groups, args->group_count, region, &opened);
    struct nccl *nccl = new_state(args, region, &opened);
    struct nccl_hello *hello = region_alloc(region, 1, sizeof *hello);
    groups_hash(&opened, &hello->groups);
    opened.self = nccl;
    enum status prepared = prepare_hello(nccl, hello, fault);
    hello->outcome = prepared;
    struct fault other;
    enum status joined = join(nccl, hello, prepared == OK ? fault : &other);
    enum status status = groups_agree(&nccl->setup, prepared == OK ? joined : prepared, fault);
    if (status != OK) {
        nccl->failed = true;
        nccl_close(nccl);
        return status;
    }
    *communicator = opened;
    nccl->communicator = communicator;
    return OK;
}

/* A rejection is not a failure: NCCL then copies through its own buffers. */
static enum status register_with(struct nccl *nccl, struct nccl_ring *ring, void *address,
                                 uint64_t bytes, struct fault *fault) {
    unsigned result = nccl->library.ncclCommRegister(ring->comm, address, bytes, &ring->registered);
    if (result == NCCL_IN_PROGRESS) {
        return nccl_settle(nccl, ring->comm, "register the arena") == OK ? OK
                                                                         : failure(nccl, fault);
    }
    if (result != NCCL_SUCCESS) {
        ring->registered = NULL;
    }
    if (result != NCCL_SUCCESS &&
        ring == &nccl->rings[0]) { /* the other rings have the same result */
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
    for (int i = 0; space == SPACE_DEVICE && i < nccl->ring_count; i++) {
        TRY(register_with(nccl, &nccl->rings[i], address, bytes, fault));
    }
    nccl->spaces[space] = address;
    communicator->space_bytes[space] = bytes;
    return OK;
}
