/* comm_open: creates the arena of each rank, which all ranks map, and connects the groups of ranks.
 * */
#include "runtime/diagnose/comm.h"

#include "targets/probe/detect.h"
#include "transport/collectives/shm.h"

#include <stdio.h>

const char *comm_group_name(enum comm_group group) {
    static const char *const NAMES[COMM_GROUP_COUNT] = {"all", "neighbours", "apart", "reversed"};
    ASSERT(group < COMM_GROUP_COUNT);
    return NAMES[group];
}

static int smallest_prime_divisor(int number) {
    for (int divisor = 2; divisor * divisor <= number; divisor++) {
        if (number % divisor == 0) {
            return divisor;
        }
    }
    return number;
}

static void list_groups(const struct comm *comm, struct collective_group groups[COMM_GROUP_COUNT]) {
    int row = smallest_prime_divisor(comm->world);
    const int first[COMM_GROUP_COUNT] = {0, comm->rank / row * row, comm->rank % row,
                                         comm->world - 1};
    const int apart[COMM_GROUP_COUNT] = {1, 1, row, -1};
    const int size[COMM_GROUP_COUNT] = {comm->world, row, comm->world / row, comm->world};
    for (int g = 0; g < COMM_GROUP_COUNT; g++) {
        int *ranks = region_alloc(comm->region, (size_t)size[g], sizeof *ranks);
        groups[g] = (struct collective_group){.ranks = ranks, .size = size[g]};
        for (int i = 0; i < size[g]; i++) {
            ranks[i] = first[g] + i * apart[g];
            groups[g].index = ranks[i] == comm->rank ? i : groups[g].index;
        }
    }
}

static enum status reserve_arena(struct comm *comm, int *fd, struct fault *fault) {
    void *address;
    enum status status = port_init(&comm->port, target_detect(comm->region), fault);
    if (status == OK) {
        status = port_reserve_shared(&comm->port, SPACE_DEVICE, comm->bytes, &address, fd, fault);
    }
    if (status == OK) {
        comm->arena = address;
    } else if (status == STATUS_FIT) {
        snprintf(fault->remedy, sizeof fault->remedy, "free memory, or reduce --bytes");
    }
    return site_agree(comm->site, status, fault);
}

enum status comm_open(struct site *site, struct region *region, uint64_t bytes, struct comm *comm,
                      struct fault *fault) {
    struct collective_group groups[COMM_GROUP_COUNT];
    int fd;
    const struct launch_info *launch = site_launch_info(site);
    *comm = (struct comm){.site = site,
                          .region = region,
                          .rank = launch->rank,
                          .world = launch->world,
                          .bytes = bytes};
    TRY(reserve_arena(comm, &fd, fault));
    list_groups(comm, groups);
    TRY(shm_open_site(site, groups, COMM_GROUP_COUNT, region, &comm->communicator, fault));
    return shm_register(&comm->communicator, SPACE_DEVICE, fd, comm->arena, bytes, fault);
}

void comm_close(struct comm *comm) {
    if (comm->communicator.methods != NULL) {
        communicator_close(&comm->communicator);
    }
    if (comm->arena != NULL) {
        port_finish(&comm->port);
    }
}
