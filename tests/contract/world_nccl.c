/* Ranks as processes with a GPU each, emulated or this machine's, over NCCL. What a test fills and
 * reads is the host's copy of the device's memory. */
#include "tests/contract/world_nccl.h"

#include "kernels/cuda/launch/table.h"
#include "transport/collectives/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

bool world_nccl_in_rings;

enum { STAGING_BYTES = 24 << 10 /* so that larger sums come in pieces */ };

/* The one rank of this process. */
static struct {
    struct cuda_device *device;
    struct cuda_kernel_table kernels;
    struct cuda_failure failure;
    struct cuda_compute compute;
    CUstream stream;
    CUdeviceptr spaces[SPACE_COUNT];
    CUgraphExec kept; /* NULL: none */
} own;

static bool must(struct member *member, CUresult result, const char *action) {
    if (result != CUDA_SUCCESS) {
        outcome_fail(member->outcome, "cannot %s: CUDA error %d", action, (int)result);
    }
    return result == CUDA_SUCCESS;
}

static void copy(struct member *member, CUdeviceptr to, CUdeviceptr from, uint64_t bytes) {
    const struct cuda_driver *driver = &own.device->driver;
    if (bytes > 0 && must(member, driver->cuMemcpyAsync(to, from, bytes, own.stream), "copy")) {
        (void)must(member, driver->cuStreamSynchronize(own.stream), "finish a copy");
    }
}

static void push(struct member *member, enum space space, uint64_t bytes) {
    copy(member, own.spaces[space], (CUdeviceptr)(uintptr_t)member->memory[space], bytes);
}

static void pull(struct member *member, enum space space, uint64_t bytes) {
    copy(member, (CUdeviceptr)(uintptr_t)member->memory[space], own.spaces[space], bytes);
}

static CUresult add(void *context, const struct nccl_sum *sum) {
    (void)context;
    own.compute.stream = sum->stream;
    cuda_wire_sum_run(
        &own.compute,
        &(struct cuda_wire_sum_args){
            .wire = sum->wire,
            .size = sum->size,
            .index = sum->index,
            .others_stride = (int64_t)(sum->stride_bytes / (uint64_t)dtype_bytes(sum->wire)),
            .count = (int64_t)sum->elements,
            .own = sum->own,
            .others = sum->others,
            .to = sum->to});
    return own.failure.result;
}

static void forget(void *context) {
    (void)context;
    if (own.kept != NULL) {
        (void)own.device->driver.cuGraphExecDestroy(own.kept);
        own.kept = NULL;
    }
}

static enum status open_device(struct fault *fault) {
    enum status status = cuda_device_acquire(&own.device, fault);
    if (status == OK) {
        status = cuda_kernel_table_init(&own.device->driver, &own.kernels, fault);
    }
    if (status == OK) {
        status = cuda_device_create_stream(own.device, false, &own.stream, fault);
    }
    own.compute = (struct cuda_compute){
        .driver = &own.device->driver, .table = &own.kernels, .failure = &own.failure};
    return status;
}

/* Several ranks may have one device, which NCCL allows where they say that they are of different
 * machines. Each emulated one has an order of its own. */
static void set_environment(int rank) {
    char text[32];
    snprintf(text, sizeof text, "skep-%d", rank);
    setenv("NCCL_HOSTID", text, 1);
    setenv("LOCAL_RANK", "0", 1);
    snprintf(text, sizeof text, "%d", rank + 1);
    setenv("SKEP_EMULATED_SEED", text, 1);
    setenv("RANK", text, 1);
}

/* SPACE_HOST is pinned memory, which a device reaches, too. */
static enum status open_spaces(struct member *member, struct fault *fault) {
    const struct cuda_driver *driver = &own.device->driver;
    void *pinned = NULL;
    if (!must(member, driver->cuMemAlloc(&own.spaces[SPACE_DEVICE], member->bytes), "allocate") ||
        !must(member, driver->cuMemHostAlloc(&pinned, member->bytes, 0), "allocate")) {
        return fault_set(fault, STATUS_FAILED, "memory", NULL, "there is none");
    }
    own.spaces[SPACE_HOST] = (CUdeviceptr)(uintptr_t)pinned;
    enum status status =
        nccl_register(&member->communicator, SPACE_DEVICE,
                      (void *)(uintptr_t)own.spaces[SPACE_DEVICE], member->bytes, fault);
    if (status == OK) {
        status = nccl_register(&member->communicator, SPACE_HOST, pinned, member->bytes, fault);
    }
    member->memory[SPACE_DEVICE] = calloc(1, member->bytes);
    member->memory[SPACE_HOST] = calloc(1, member->bytes);
    member->push = push;
    member->pull = pull;
    return status;
}

static enum status open_rank(struct processes_seat *seat, struct member *member,
                             struct region *region, struct fault *fault) {
    CUdeviceptr staging = 0;
    enum status status = open_device(fault);
    if (status == OK &&
        !must(member, own.device->driver.cuMemAlloc(&staging, STAGING_BYTES), "allocate")) {
        status = fault_set(fault, STATUS_FAILED, "memory", NULL, "there is none");
    }
    const struct nccl_args args = {.rank = member->rank,
                                   .world = member->layout->world,
                                   .groups = member->groups.groups,
                                   .group_count = LAYOUT_GROUPS,
                                   .exchange = processes_exchange,
                                   .context = seat,
                                   .device = own.device,
                                   .add = add,
                                   .release_graphs = forget,
                                   .sum_in_rings = world_nccl_in_rings,
                                   .staging = (void *)(uintptr_t)staging,
                                   .staging_bytes = STAGING_BYTES};
    if (status == OK) {
        status = nccl_open(&args, region, &member->communicator, fault);
    }
    return status == OK ? open_spaces(member, fault) : status;
}

void run_nccl_member(struct processes *processes, struct member *member, member_body *body,
                     void *context) {
    struct fault fault;
    struct region region = {0};
    struct processes_seat seat = {processes, member->rank};
    set_environment(member->rank);
    if (open_rank(&seat, member, &region, &fault) != OK) {
        outcome_fail(member->outcome, "%s: %s", fault.subject, fault.reason);
        return;
    }
    body(member, context);
    communicator_close(&member->communicator);
    free(member->memory[SPACE_DEVICE]);
    free(member->memory[SPACE_HOST]);
    region_finish(&region);
    member->outcome->ended = true;
}

const struct cuda_driver *world_nccl_driver(void) {
    return &own.device->driver;
}

void world_nccl_keep(CUgraphExec graph) {
    own.kept = graph;
}

bool world_nccl_has_device(void) {
    struct cuda_driver driver;
    struct fault fault;
    pid_t id = fork(); /* a driver that was woken does not survive a fork */
    if (id == 0) {
        _exit(cuda_driver_open(&driver, &fault) == OK ? 0 : 1);
    }
    int status = 1;
    ASSERT(waitpid(id, &status, 0) == id);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
