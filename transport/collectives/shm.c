/* shm: opens communicators and registers memory. */
#include "transport/collectives/shm_state.h"

#include "base/limits.h"
#include "targets/os/mapping.h"
#include "transport/collectives/shm_ticket.h"

#include <unistd.h>

static const char SUBJECT[] = "shared memory";

/* The message that each rank sends when it opens the communicator. The field control.pid is 0 if
 * rank 0 could not create the shared memory. */
struct shm_hello {
    struct shm_ticket control;  /* memory of the signals; set by rank 0 only */
    struct group_hashes groups; /* hashes of the ranks of each group */
};

static enum status map_ticket(const struct shm_ticket *ticket, int rank, int writable,
                              void **address, struct fault *fault) {
    if (ticket->pid == 0) {
        return fault_set(fault, STATUS_FAILED, SUBJECT, NULL,
                         "rank %d has no memory to share; its own message gives the reason", rank);
    }
    return shm_ticket_map(ticket, rank, writable, address, fault);
}

/* Create the zeroed memory of rank 0 for the signals. */
static enum status create_control_memory(uint64_t bytes, int *fd, struct shm_ticket *ticket,
                                         struct fault *fault) {
    int made = -1;
    int failure = mapping_make_file("skep control", bytes, &made);
    if (failure != 0) {
        return fault_set_errno(fault, STATUS_FAILED, SUBJECT, "cannot be created", failure);
    }
    enum status status = shm_ticket_make(made, bytes, ticket, fault);
    if (status != OK) {
        close(made);
        return status;
    }
    *fd = made;
    return OK;
}

/* Exchange hellos, and map the control memory of rank 0. */
static enum status join_ranks(struct shm *shm, const struct shm_hello *mine, struct fault *fault) {
    struct communicator *communicator = shm->communicator;
    struct shm_hello *hellos =
        region_alloc(shm->setup.region, (size_t)communicator->world, sizeof *hellos);
    TRY(shm->setup.exchange(shm->setup.context, mine, sizeof *mine, hellos, fault));
    TRY(groups_compare(communicator, &hellos[0].groups, sizeof *hellos, SUBJECT, fault));
    if (hellos[0].control.bytes != shm_board_bytes(communicator->world) &&
        hellos[0].control.pid != 0) {
        return fault_set(fault, STATUS_INPUT, SUBJECT, NULL,
                         "rank 0 created it for a number of ranks other than %d",
                         communicator->world);
    }
    return map_ticket(&hellos[0].control, 0, 1, &shm->control, fault);
}

static void unmap_space(struct shm *shm, enum space space, uint64_t bytes) {
    for (int rank = 0; rank < shm->communicator->world; rank++) {
        if (rank != shm->communicator->rank) {
            shm_ticket_unmap(shm->arenas[space][rank], bytes);
        }
        shm->arenas[space][rank] = NULL;
    }
}

static void shm_abort(void *self) {
    struct shm *shm = self;
    shm_board_abort(&shm->board);
}

static void shm_close(void *self) {
    struct shm *shm = self;
    for (int space = 0; space < SPACE_COUNT; space++) {
        unmap_space(shm, (enum space)space, shm->communicator->space_bytes[space]);
        shm->communicator->space_bytes[space] = 0;
    }
    shm_ticket_unmap(shm->control, shm_board_bytes(shm->communicator->world));
    shm->control = NULL;
}

static const struct communicator_methods METHODS = {
    .name = "shm", .run = shm_run, .abort = shm_abort, .close = shm_close};

static struct shm *allocate_state(const struct shm_args *args, struct region *region,
                                  struct communicator *communicator) {
    size_t world = (size_t)args->world;
    struct shm *shm = region_alloc(region, 1, sizeof *shm);
    shm->communicator = communicator;
    shm->setup = (struct group_setup){.exchange = args->exchange,
                                      .context = args->context,
                                      .world = args->world,
                                      .region = region,
                                      .subject = SUBJECT};
    shm->sources = region_alloc(region, world, sizeof *shm->sources);
    shm->scratch = region_alloc(region, SHM_SUM_BLOCK, sizeof *shm->scratch);
    for (int space = 0; space < SPACE_COUNT; space++) {
        shm->arenas[space] = region_alloc(region, world, sizeof *shm->arenas[space]);
    }
    return shm;
}

enum status shm_open_communicator(const struct shm_args *args, struct region *region,
                                  struct communicator *communicator, struct fault *fault) {
    ASSERT(args->world > 0 && args->world <= RANKS_MAX);
    ASSERT(args->rank >= 0 && args->rank < args->world);
    struct communicator opened = {.methods = &METHODS, .rank = args->rank, .world = args->world};
    groups_copy(args->groups, args->group_count, region, &opened);
    struct shm *shm = allocate_state(args, region, &opened);
    struct shm_hello *hello = region_alloc(region, 1, sizeof *hello);
    groups_hash(&opened, &hello->groups);
    enum status status = OK;
    int fd = -1;
    if (args->rank == 0) {
        status = create_control_memory(shm_board_bytes(args->world), &fd, &hello->control, fault);
    }
    struct fault other;
    enum status joined = join_ranks(shm, hello, status == OK ? fault : &other);
    status = groups_agree_on_outcome(&shm->setup, status == OK ? joined : status, fault);
    if (fd >= 0) {
        close(fd);
    }
    if (status != OK) {
        shm_ticket_unmap(shm->control, shm_board_bytes(args->world));
        return status;
    }
    shm_board_init(&shm->board, shm->control, args->rank, args->world);
    opened.self = shm;
    *communicator = opened;
    shm->communicator = communicator;
    return OK;
}

/* Maps the memory of every peer, after a check that all have the same number of bytes. */
static enum status map_space(struct shm *shm, enum space space, const struct shm_ticket *tickets,
                             struct fault *fault) {
    int own = shm->communicator->rank;
    for (int rank = 0; rank < shm->communicator->world; rank++) {
        if (tickets[rank].pid != 0 && tickets[rank].bytes != tickets[own].bytes) {
            return fault_set(fault, STATUS_INPUT, SUBJECT, "start all ranks with the same plan",
                             "rank %d reserves %llu bytes, but rank %d reserves %llu", rank,
                             (unsigned long long)tickets[rank].bytes, own,
                             (unsigned long long)tickets[own].bytes);
        }
        if (rank != own) {
            void *mapped = NULL;
            TRY(map_ticket(&tickets[rank], rank, 0, &mapped, fault));
            shm->arenas[space][rank] = mapped;
        }
    }
    return OK;
}

enum status shm_register(struct communicator *communicator, enum space space, int fd, void *address,
                         uint64_t bytes, struct fault *fault) {
    struct shm *shm = communicator->self;
    ASSERT(communicator->methods == &METHODS && space < SPACE_COUNT);
    ASSERT(bytes > 0 && communicator->space_bytes[space] == 0);
    struct shm_ticket ticket = {0};
    struct shm_ticket *tickets =
        region_alloc(shm->setup.region, (size_t)communicator->world, sizeof *tickets);
    enum status made = shm_ticket_make(fd, bytes, &ticket, fault);
    struct fault other;
    struct fault *first = made == OK ? fault : &other;
    enum status status =
        shm->setup.exchange(shm->setup.context, &ticket, sizeof ticket, tickets, first);
    if (status == OK && made == OK) {
        status = map_space(shm, space, tickets, first);
    }
    status = groups_agree_on_outcome(&shm->setup, made == OK ? status : made, fault);
    if (status != OK) {
        unmap_space(shm, space, bytes);
        return status;
    }
    shm->own[space] = address;
    shm->arenas[space][communicator->rank] = address;
    communicator->space_bytes[space] = bytes;
    return OK;
}
