#include "runtime/diagnose/probe_nccl.h"

#include "base/text.h"
#include "targets/ports/cuda_device.h"
#include "targets/ports/ports.h"
#include "transport/collectives/nccl.h"
#include "transport/collectives/nccl_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_COUNT = 2,            /* Number of groups; each contains all ranks. */
    ARENA_BYTES_MAX = 64 << 20, /* maximum size of the arena of a rank */
    ARENA_BYTES_MIN = 1 << 20,  /* minimum size of the arena of a rank */
    FREE_MEMORY_DIVISOR = 16,   /* The arena uses at most 1/16 of free memory. */
    SMALL_SLOT_BYTES = 1 << 10, /* Slot size of the small collectives. */
    SLOT_ALIGN_BYTES = 256,
};

extern char **environ;

struct nccl_bench {
    const struct cuda_device *device;
    struct site *site;
    struct region *region;
    int world, sharing; /* Number of all ranks, and of the ranks on this device. */
    struct port port;   /* Memory port that reserves the arena. */
    char *arena;        /* Device memory for the collectives. */
    uint64_t bytes;     /* Size of the arena. */
    struct communicator groups[GROUP_COUNT];
    CUgraphExec graphs[GROUP_COUNT];
    CUstream stream;
};

/* ---- ranks and devices ---- */

/* The values that each rank sends to the other ranks. */
struct rank_device {
    char bus[CUDA_BUS_BYTES]; /* PCI bus id of the rank's GPU. */
    uint64_t bytes;           /* Size of the largest arena that fits on the rank's device. */
};

static enum status exchange_devices(struct nccl_bench *bench, struct probe_nccl_result *result,
                                    struct fault *fault) {
    struct rank_device own = {.bytes = ARENA_BYTES_MAX};
    struct rank_device *all = region_alloc(bench->region, (size_t)bench->world, sizeof *all);
    uint64_t free_bytes;
    enum status status = cuda_device_free_bytes(bench->device, &free_bytes, fault);
    while (status == OK && own.bytes > ARENA_BYTES_MIN &&
           FREE_MEMORY_DIVISOR * own.bytes > free_bytes) {
        own.bytes /= 2;
    }
    memcpy(own.bus, bench->device->bus, sizeof own.bus);
    status = site_agree(bench->site, status, fault);
    if (status == OK) {
        status = site_exchange(bench->site, &own, sizeof own, all, fault);
    }
    bench->bytes = own.bytes;
    for (int rank = 0; rank < bench->world && status == OK; rank++) {
        bool first = true;
        for (int before = 0; before < rank; before++) {
            first = first && strcmp(all[before].bus, all[rank].bus) != 0;
        }
        result->devices += first;
        bench->sharing += strcmp(all[rank].bus, own.bus) == 0;
        bench->bytes = all[rank].bytes < bench->bytes ? all[rank].bytes : bench->bytes;
    }
    return status;
}

/* Gives this rank a host id of its own if ranks share its device: NCCL rejects them otherwise. */
static void set_host_id(const struct nccl_bench *bench) {
    char name[32];
    if (bench->sharing > 1) {
        snprintf(name, sizeof name, "skep-probe-%d", site_launch_info(bench->site)->rank);
        (void)setenv("NCCL_HOSTID", name, 0);
    }
}

/* Describes NCCL, for example as "NCCL 2.28.9 between 2 ranks on 1 GPU, NCCL_MAX_CTAS=8": NCCL's
 * settings in the environment are appended. */
static void describe_library(const struct nccl_bench *bench, struct probe_nccl_result *result) {
    struct nccl_library library;
    struct fault fault;
    int version = 0;
    struct text text = text_over(result->description, sizeof result->description);
    if (nccl_library_find(&library, &fault) != OK) {
        return; /* join_group will fail and report the reason */
    }
    (void)library.ncclGetVersion(&version);
    text_add(&text, "NCCL %d.%d.%d between %d ranks on %d GPU%s", version / 10000,
             version / 100 % 100, version % 100, bench->world, result->devices,
             result->devices == 1 ? "" : "s");
    for (char **variable = environ; *variable != NULL; variable++) {
        if (strncmp(*variable, "NCCL_", 5) == 0 && strncmp(*variable, "NCCL_DEBUG", 10) != 0 &&
            strncmp(*variable, "NCCL_HOSTID=", 12) != 0) {
            text_add(&text, ", %.60s", *variable);
        }
    }
}

/* ---- memory ---- */

/* Reads the device memory that this process uses. The ranks synchronize before and after the
 * reading, so that none allocates meanwhile. */
static enum status read_used_memory(const struct nccl_bench *bench, uint64_t *bytes,
                                    struct fault *fault) {
    struct nvml nvml;
    uint64_t free_bytes = 0;
    enum status status = site_agree(bench->site, OK, fault);
    if (status == OK) {
        status = cuda_device_free_bytes(bench->device, &free_bytes, fault);
    }
    int64_t own = nvml_open(&nvml) ? nvml_process_bytes(&nvml, bench->device->bus) : -1;
    *bytes = own > 0 ? (uint64_t)own
                     : (bench->device->memory_bytes - free_bytes) / (uint64_t)bench->sharing;
    return site_agree(bench->site, status, fault);
}

/* ---- a group ---- */

/* Enqueues every kind of collective in two sizes, because NCCL uses different algorithms for short
 * and long messages. */
static void enqueue_all_collectives(struct nccl_bench *bench, struct communicator *group) {
    static const enum collective_kind KINDS[] = {COLLECTIVE_ALL_GATHER,     COLLECTIVE_ALL_TO_ALL,
                                                 COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALL_REDUCE,
                                                 COLLECTIVE_BROADCAST,      COLLECTIVE_BARRIER};
    uint64_t half = bench->bytes / 2;
    uint64_t large = half / (uint64_t)bench->world / SLOT_ALIGN_BYTES * SLOT_ALIGN_BYTES;
    const uint64_t slots[] = {SMALL_SLOT_BYTES < large ? SMALL_SLOT_BYTES : large, large};
    for (size_t size = 0; size < ARRAY_COUNT(slots); size++) {
        for (size_t i = 0; i < ARRAY_COUNT(KINDS); i++) {
            const struct collective_call call = {.kind = KINDS[i],
                                                 .space = SPACE_DEVICE,
                                                 .wire = DTYPE_F32,
                                                 .to = half,
                                                 .slot_bytes = slots[size]};
            nccl_enqueue(group, &call, bench->stream);
        }
    }
}

static CUresult capture_graph(struct nccl_bench *bench, int index) {
    const struct cuda_driver *driver = &bench->device->driver;
    CUgraph graph = NULL;
    CUresult result =
        driver->cuStreamBeginCapture(bench->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    enqueue_all_collectives(bench, &bench->groups[index]);
    result = driver->cuStreamEndCapture(bench->stream, &graph);
    if (result == CUDA_SUCCESS) {
        result = driver->cuGraphInstantiateWithFlags(&bench->graphs[index], graph, 0);
    }
    if (graph != NULL) {
        (void)driver->cuGraphDestroy(graph);
    }
    return result;
}

/* Executes every collective in one group. A failure is returned on this rank only. The other ranks
 * wait in the graph until they are aborted. */
static enum status run_group_collectives(struct nccl_bench *bench, int index, struct fault *fault) {
    struct communicator *group = &bench->groups[index];
    TRY(nccl_register(group, SPACE_DEVICE, bench->arena, bench->bytes, fault));
    CUresult result = capture_graph(bench, index);
    enum status status = nccl_failure(group, fault);
    if (status == OK && result == CUDA_SUCCESS) {
        result = bench->device->driver.cuGraphLaunch(bench->graphs[index], bench->stream);
    }
    if (status == OK && result == CUDA_SUCCESS) {
        status = nccl_wait(group, bench->stream, &result, fault);
    }
    return status != OK || result == CUDA_SUCCESS
               ? status
               : cuda_device_fault(bench->device, result, STATUS_FAILED, "run collectives", fault);
}

static void destroy_graphs(void *context) {
    struct nccl_bench *bench = context;
    for (int i = 0; i < GROUP_COUNT; i++) {
        if (bench->graphs[i] != NULL) {
            (void)bench->device->driver.cuGraphExecDestroy(bench->graphs[i]);
            bench->graphs[i] = NULL;
        }
    }
}

/* Creates the communicator of one group. Returns the same status on all ranks. */
static enum status join_group(struct nccl_bench *bench, int index, struct fault *fault) {
    const struct launch_info *where = site_launch_info(bench->site);
    int *ranks = region_alloc(bench->region, (size_t)bench->world, sizeof *ranks);
    for (int rank = 0; rank < bench->world; rank++) {
        ranks[rank] = rank;
    }
    const struct collective_group group = {
        .ranks = ranks, .size = bench->world, .index = where->rank};
    const struct nccl_args args = {.rank = where->rank,
                                   .world = bench->world,
                                   .groups = &group,
                                   .group_count = 1,
                                   .exchange = groups_exchange_on_site,
                                   .context = bench->site,
                                   .device = bench->device,
                                   .release_graphs = destroy_graphs,
                                   .callback_context = bench,
                                   .sum_in_rings = true,
                                   .staging = bench->arena,
                                   .staging_bytes = sizeof(float)};
    return nccl_open(&args, bench->region, &bench->groups[index], fault);
}

static enum status measure_group(struct nccl_bench *bench, int index, uint64_t *taken,
                                 struct fault *fault) {
    uint64_t before;
    uint64_t after;
    TRY(read_used_memory(bench, &before, fault));
    TRY(join_group(bench, index, fault));
    TRY(run_group_collectives(bench, index, fault));
    TRY(read_used_memory(bench, &after, fault));
    *taken = after > before ? after - before : 0;
    return OK;
}

/* ---- all of it ---- */

/* Releases all objects. Graphs are destroyed before the communicators whose calls they captured.
 * After a failure, other ranks may have exited, so the communicators are aborted. */
static void close_bench(struct nccl_bench *bench, enum status status) {
    destroy_graphs(bench);
    for (int i = 0; i < GROUP_COUNT; i++) {
        if (bench->groups[i].methods == NULL) {
            continue;
        }
        if (status != OK) {
            communicator_abort(&bench->groups[i]);
        }
        communicator_close(&bench->groups[i]);
    }
    if (bench->stream != NULL) {
        (void)bench->device->driver.cuStreamDestroy(bench->stream);
    }
    port_finish(&bench->port);
}

static enum status open_bench(struct nccl_bench *bench, struct fault *fault) {
    static const struct target HERE = {.name = "this machine", .kind = TARGET_CUDA};
    void *arena;
    int unused;
    enum status status = port_init(&bench->port, &HERE, fault);
    if (status == OK) {
        status =
            port_reserve_shared(&bench->port, SPACE_DEVICE, bench->bytes, &arena, &unused, fault);
    }
    if (status == OK) {
        bench->arena = arena;
        status = cuda_device_create_stream(bench->device, false, &bench->stream, fault);
    }
    return site_agree(bench->site, status, fault);
}

/* Sets the results to the maxima over all ranks. */
static enum status find_max_memory_over_ranks(struct nccl_bench *bench,
                                              const uint64_t taken[GROUP_COUNT],
                                              struct probe_nccl_result *result,
                                              struct fault *fault) {
    uint64_t(*all)[GROUP_COUNT] = region_alloc(bench->region, (size_t)bench->world, sizeof *all);
    enum status status =
        site_exchange(bench->site, taken, GROUP_COUNT * sizeof taken[0], all, fault);
    for (int rank = 0; rank < bench->world && status == OK; rank++) {
        result->bytes = all[rank][0] > result->bytes ? all[rank][0] : result->bytes;
        result->group_bytes =
            all[rank][1] > result->group_bytes ? all[rank][1] : result->group_bytes;
    }
    result->ranks = status == OK ? bench->world : 0;
    return status;
}

enum status probe_nccl(const struct cuda_device *device, struct site *site, struct region *region,
                       struct probe_nccl_result *result, struct fault *fault) {
    uint64_t taken[GROUP_COUNT] = {0};
    struct nccl_bench bench = {
        .device = device, .site = site, .region = region, .world = site_launch_info(site)->world};
    enum status status = exchange_devices(&bench, result, fault);
    if (status == OK) {
        set_host_id(&bench);
        describe_library(&bench, result);
        status = open_bench(&bench, fault);
    }
    for (int i = 0; i < GROUP_COUNT && status == OK; i++) {
        status = measure_group(&bench, i, &taken[i], fault);
    }
    if (status == OK) {
        status = find_max_memory_over_ranks(&bench, taken, result, fault);
    }
    bool joined = bench.groups[0].methods != NULL;
    close_bench(&bench, status);
    if (status != OK && status != STATUS_LOST && !joined) {
        snprintf(result->description, sizeof result->description, "no NCCL: %.150s", fault->reason);
        return OK;
    }
    return status;
}
