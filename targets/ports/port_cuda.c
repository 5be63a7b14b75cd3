/* port_cuda: the blocks of a plan in GPU memory and in pinned memory. */
#include "base/bytes.h"
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

static enum status set_device_memory_fault(const struct port *port, uint64_t need, uint64_t have,
                                           struct fault *fault) {
    struct nvml nvml;
    char subject[SUBJECT_BYTES];
    char needed[24];
    char left[24];
    char holders[256];
    struct text list = text_over(holders, sizeof holders);
    if (nvml_open(&nvml)) {
        nvml_list_largest_processes(&nvml, port->cuda->bus, PROCESSES_LISTED, &list);
    }
    return fault_set(fault, STATUS_FIT, device_subject(port, subject),
                     "free device memory, lower limits.device or use a smaller batch",
                     "device arena needs %s, but %s are free now%s%s",
                     text_format_bytes(need, needed), text_format_bytes(have, left),
                     list.length > 0 ? "; held by " : "", list.bytes);
}

/* NCCL registers memory for collectives only if it consists of whole granules of one allocation
 * that other processes can import and network adapters can access. */
static CUmemAllocationProp allocation_properties(const struct cuda_device *device, bool exported) {
    CUmemAllocationProp wanted = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->device}};
    if (exported && device->can_export) {
        wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    wanted.allocFlags.gpuDirectRDMACapable = device->has_rdma;
    return wanted;
}

static CUresult map_block(const struct cuda_device *device, struct port_block *block,
                          const CUmemAllocationProp *wanted) {
    const struct cuda_driver *driver = &device->driver;
    const CUmemAccessDesc access = {.location = wanted->location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    size_t bytes = block->mapped_bytes;
    CUresult result = driver->cuMemAddressReserve(&address, bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = driver->cuMemCreate(&handle, bytes, wanted, 0);
    if (result != CUDA_SUCCESS) {
        (void)driver->cuMemAddressFree(address, bytes);
        return result;
    }
    result = driver->cuMemMap(address, bytes, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
        result = driver->cuMemSetAccess(address, bytes, &access, 1);
        if (result != CUDA_SUCCESS) {
            (void)driver->cuMemUnmap(address, bytes);
        }
    }
    if (result != CUDA_SUCCESS) {
        (void)driver->cuMemRelease(handle);
        (void)driver->cuMemAddressFree(address, bytes);
        return result;
    }
    block->address = (void *)(uintptr_t)address;
    block->handle = handle;
    return CUDA_SUCCESS;
}

/* If the system forbids exportable memory, map memory that cannot be exported; if it forbids
 * mapping, use cuMemAlloc. */
static CUresult allocate_device_memory(const struct cuda_device *device, struct port_block *block) {
    const struct cuda_driver *driver = &device->driver;
    CUresult result = device->can_map ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    for (int exported = 1; device->can_map && exported >= 0; exported--) {
        CUmemAllocationProp wanted = allocation_properties(device, exported);
        size_t unit = 0;
        result = driver->cuMemGetAllocationGranularity(&unit, &wanted,
                                                       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
        if (result == CUDA_SUCCESS) {
            block->mapped_bytes = (uint64_t)round_up((int64_t)block->bytes, (int64_t)unit);
            result = map_block(device, block, &wanted);
        }
        if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) {
            return result;
        }
    }
    CUdeviceptr address;
    block->mapped_bytes = block->bytes;
    result = driver->cuMemAlloc(&address, block->bytes);
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

static enum status reserve_device_memory(struct port *port, struct port_block *block,
                                         struct fault *fault) {
    const struct cuda_device *device = port->cuda;
    uint64_t have;
    TRY(cuda_device_free_bytes(device, &have, fault));
    if (have < block->bytes) {
        return set_device_memory_fault(port, block->bytes, have, fault);
    }
    CUresult result = allocate_device_memory(device, block);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return set_device_memory_fault(port, block->bytes, have, fault);
    }
    TRY(cuda_device_check_result(device, result, "reserve the arena", fault));
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
