/* port_cuda: the blocks of a plan in GPU memory and in pinned memory. */
#include "base/bytes.h"
#include "base/log.h"
#include "targets/ports/cuda_device.h"
#include "targets/ports/nvml.h"
#include "targets/ports/port_kinds.h"

#include <stdio.h>
#include <string.h>

enum {
    PROCESSES_LISTED = 3, /* processes that a fault names when device memory is short */
    SUBJECT_BYTES = 256,  /* size of the subject of a fault */
};

static const char *device_subject(const struct port *port, char subject[static SUBJECT_BYTES]) {
    snprintf(subject, SUBJECT_BYTES, "target %.100s: device %d, %.80s", port->target->name,
             port->cuda->ordinal, port->cuda->name);
    return subject;
}

/* ---- checks of the device against the profile ---- */

/* Plans and kernels work on the profile's architecture and on all later ones. */
static enum status check_capability(const struct port *port, struct fault *fault) {
    const struct target *target = port->target;
    const struct cuda_device *device = port->cuda;
    char subject[SUBJECT_BYTES];
    int promised = target->compute_major * 10 + target->compute_minor;
    if (device->compute_major * 10 + device->compute_minor >= promised) {
        return OK;
    }
    return fault_set(
        fault, STATUS_INPUT, device_subject(port, subject),
        "use a different profile, or create one for this device with skep probe --write",
        "has compute capability %d.%d, but the profile requires %d.%d", device->compute_major,
        device->compute_minor, target->compute_major, target->compute_minor);
}

enum status port_cuda_init(struct port *port, struct fault *fault) {
    TRY(cuda_device_acquire(&port->cuda, fault));
    enum status status = check_capability(port, fault);
    if (status != OK) {
        cuda_device_release(port->cuda);
    }
    return status;
}

void port_cuda_finish(struct port *port) {
    cuda_device_release(port->cuda);
}

/* ---- device memory ---- */

/* Returns the device memory that this process uses after the arena is reserved: what the target
 * declares for kernels, cuBLASLt and NCCL. The context exists already, and the memory of other
 * programs is not free. */
static uint64_t count_later_bytes(const struct target *target) {
    static const char CUBLAS[] = "cuBLAS";
    static const char NCCL[] = "NCCL";
    const struct target_space *space = &target->spaces[SPACE_DEVICE];
    uint64_t bytes = 0;
    for (int i = 0; i < space->declared_use_count; i++) {
        const struct target_declared_use *use = &space->declared[i];
        bool is_later = strncmp(use->name, CUBLAS, sizeof CUBLAS - 1) == 0 ||
                        strncmp(use->name, NCCL, sizeof NCCL - 1) == 0;
        bytes += is_later && use->per == PER_PROCESS ? use->bytes : 0;
    }
    return bytes;
}

static enum status set_device_memory_fault(const struct port *port, uint64_t need, uint64_t later,
                                           uint64_t have, struct fault *fault) {
    struct nvml nvml;
    char subject[SUBJECT_BYTES];
    char needed[24];
    char left[24];
    char more[24];
    char libraries[64] = "";
    char holders[256];
    struct text list = text_over(holders, sizeof holders);
    if (nvml_open(&nvml)) {
        nvml_list_largest_processes(&nvml, port->cuda->bus, PROCESSES_LISTED, &list);
    }
    if (later > 0) {
        snprintf(libraries, sizeof libraries, ", and kernels, cuBLASLt and NCCL %s more",
                 text_format_bytes(later, more));
    }
    return fault_set(fault, STATUS_FIT, device_subject(port, subject),
                     "free device memory, lower limits.device or use a smaller batch",
                     "device arena needs %s%s, but %s are free now%s%s",
                     text_format_bytes(need, needed), libraries, text_format_bytes(have, left),
                     list.length > 0 ? "; held by " : "", list.bytes);
}

static const char *error_name(const struct cuda_driver *driver, CUresult result) {
    const char *name = "an unknown error";
    (void)driver->cuGetErrorName(result, &name);
    return name;
}

/* NCCL registers memory for collectives only if it consists of whole granules of one allocation
 * that other processes can import and network adapters can access. */
static CUmemAllocationProp allocation_properties(const struct cuda_device *device, bool exported) {
    CUmemAllocationProp wanted = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->device}};
    if (exported) {
        wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    wanted.allocFlags.gpuDirectRDMACapable = device->has_rdma;
    return wanted;
}

/* The driver's call that failed first while memory was mapped. */
struct mapping_failure {
    const char *call; /* NULL: none failed */
    CUresult result;
};

static bool succeeds(CUresult result, const char *call, struct mapping_failure *failure) {
    if (result != CUDA_SUCCESS && failure->call == NULL) {
        *failure = (struct mapping_failure){call, result};
    }
    return result == CUDA_SUCCESS;
}

static bool map_handle(const struct cuda_driver *driver, CUdeviceptr address, size_t bytes,
                       CUmemGenericAllocationHandle handle, const CUmemLocation *location,
                       struct mapping_failure *failure) {
    const CUmemAccessDesc access = {.location = *location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (!succeeds(driver->cuMemMap(address, bytes, 0, handle, 0), "cuMemMap", failure)) {
        return false;
    }
    if (!succeeds(driver->cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess", failure)) {
        (void)driver->cuMemUnmap(address, bytes);
        return false;
    }
    return true;
}

static bool map_block(const struct cuda_driver *driver, const CUmemAllocationProp *wanted,
                      struct port_block *block, struct mapping_failure *failure) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    size_t bytes = block->mapped_bytes;
    if (!succeeds(driver->cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve",
                  failure)) {
        return false;
    }
    if (!succeeds(driver->cuMemCreate(&handle, bytes, wanted, 0), "cuMemCreate", failure)) {
        (void)driver->cuMemAddressFree(address, bytes);
        return false;
    }
    if (!map_handle(driver, address, bytes, handle, &wanted->location, failure)) {
        (void)driver->cuMemRelease(handle);
        (void)driver->cuMemAddressFree(address, bytes);
        return false;
    }
    block->address = (void *)(uintptr_t)address;
    block->handle = handle;
    return true;
}

/* If the system forbids exportable memory, map memory that cannot be exported. */
static bool map_device_memory(const struct cuda_device *device, struct port_block *block,
                              struct mapping_failure *failure) {
    const struct cuda_driver *driver = &device->driver;
    for (int exported = device->can_export; device->can_map && exported >= 0; exported--) {
        CUmemAllocationProp wanted = allocation_properties(device, exported);
        size_t unit = 0;
        if (!succeeds(driver->cuMemGetAllocationGranularity(&unit, &wanted,
                                                            CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                      "cuMemGetAllocationGranularity", failure)) {
            continue;
        }
        block->mapped_bytes = (uint64_t)round_up((int64_t)block->bytes, (int64_t)unit);
        if (map_block(driver, &wanted, block, failure)) {
            return true;
        }
    }
    return false;
}

/* The driver of Windows, also in WSL2, refuses to map memory that is free, often with the error
 * "out of memory". Whatever cannot be mapped is therefore allocated. */
static CUresult allocate_device_memory(const struct cuda_device *device, struct port_block *block,
                                       struct mapping_failure *failure) {
    if (map_device_memory(device, block, failure)) {
        return CUDA_SUCCESS;
    }
    CUdeviceptr address;
    block->mapped_bytes = block->bytes;
    CUresult result = device->driver.cuMemAlloc(&address, block->bytes);
    if (result == CUDA_SUCCESS) {
        block->address = (void *)(uintptr_t)address;
        block->handle = 0;
    }
    return result;
}

static void free_device_memory(const struct cuda_device *device, const struct port_block *block) {
    const struct cuda_driver *driver = &device->driver;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)block->address;
    (void)driver->cuCtxSynchronize();
    if (block->handle == 0) {
        (void)driver->cuMemFree(address);
        return;
    }
    (void)driver->cuMemUnmap(address, block->mapped_bytes);
    (void)driver->cuMemRelease(block->handle);
    (void)driver->cuMemAddressFree(address, block->mapped_bytes);
}

/* `have` bytes were free, but the driver neither mapped nor allocated the block. */
static enum status set_allocation_fault(const struct port *port, const struct port_block *block,
                                        uint64_t have, const struct mapping_failure *failure,
                                        CUresult result, struct fault *fault) {
    const struct cuda_driver *driver = &port->cuda->driver;
    char subject[SUBJECT_BYTES];
    char needed[24];
    char left[24];
    char mapping[96] = "";
    if (failure->call != NULL) {
        snprintf(mapping, sizeof mapping, "%s: %s; ", failure->call,
                 error_name(driver, failure->result));
    }
    return fault_set(fault, STATUS_FIT, device_subject(port, subject),
                     "end other programs that use the device, lower limits.device or use a "
                     "smaller batch",
                     "the driver refused a device arena of %s (%s are free): %scuMemAlloc: %s",
                     text_format_bytes(block->bytes, needed), text_format_bytes(have, left),
                     mapping, error_name(driver, result));
}

static enum status reserve_device_memory(struct port *port, struct port_block *block,
                                         struct fault *fault) {
    const struct cuda_device *device = port->cuda;
    uint64_t have;
    TRY(cuda_device_free_bytes(device, &have, fault));
    uint64_t later = count_later_bytes(port->target);
    if (have < block->bytes + later) {
        return set_device_memory_fault(port, block->bytes, later, have, fault);
    }
    struct mapping_failure failure = {.call = NULL};
    CUresult result = allocate_device_memory(device, block, &failure);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return set_allocation_fault(port, block, have, &failure, result, fault);
    }
    TRY(cuda_device_check_result(device, result, "reserve the arena", fault));
    if (block->handle == 0 && failure.call != NULL) {
        log_line(LOG_INFO, "device memory is allocated, not mapped: %s failed with %s",
                 failure.call, error_name(&device->driver, failure.result));
    }
    result = device->driver.cuMemsetD8Async((CUdeviceptr)(uintptr_t)block->address, 0,
                                            block->mapped_bytes, NULL);
    if (result == CUDA_SUCCESS) {
        result = device->driver.cuStreamSynchronize(NULL);
    }
    if (result != CUDA_SUCCESS) {
        free_device_memory(device, block);
    }
    return cuda_device_check_result(device, result, "zero the arena", fault);
}

/* ---- pinned memory ---- */

static enum status reserve_pinned_memory(struct port *port, struct port_block *block,
                                         struct fault *fault) {
    struct machine machine;
    if (!port_host_has_free(block->bytes, &machine)) {
        return port_host_fault(port, SPACE_PINNED, block->bytes, &machine, fault);
    }
    CUresult result =
        port->cuda->driver.cuMemHostAlloc(&block->address, block->bytes, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return port_host_fault(port, SPACE_PINNED, block->bytes, &machine, fault);
    }
    TRY(cuda_device_check_result(port->cuda, result, "pin memory (check ulimit -l)", fault));
    block->mapped_bytes = block->bytes;
    memset(block->address, 0, block->bytes);
    return OK;
}

enum status port_cuda_reserve(struct port *port, enum space space, struct port_block *block,
                              struct fault *fault) {
    ASSERT(!block->shared || space == SPACE_DEVICE);
    switch (space) {
    case SPACE_DEVICE:
        return reserve_device_memory(port, block, fault);
    case SPACE_PINNED:
        return reserve_pinned_memory(port, block, fault);
    default:
        return port_cpu_reserve(port, space, block, fault);
    }
}

void port_cuda_release(struct port *port, enum space space) {
    const struct port_block *block = &port->blocks[space];
    switch (space) {
    case SPACE_DEVICE:
        free_device_memory(port->cuda, block);
        break;
    case SPACE_PINNED:
        (void)port->cuda->driver.cuMemFreeHost(block->address);
        break;
    default:
        port_cpu_release(block);
        break;
    }
}
