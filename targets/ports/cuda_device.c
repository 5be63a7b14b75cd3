#include "targets/ports/cuda_device.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cuda_device here;

enum status cuda_device_fault(const struct cuda_device *device, CUresult result, enum status status,
                              const char *action, struct fault *fault) {
    char subject[192];
    snprintf(subject, sizeof subject, "device %d, %s", device->ordinal, device->name);
    return cuda_fault(&device->driver, result, status, subject, action, fault);
}

enum status cuda_device_check_result(const struct cuda_device *device, CUresult result,
                                     const char *action, struct fault *fault) {
    return result == CUDA_SUCCESS ? OK
                                  : cuda_device_fault(device, result, STATUS_FAILED, action, fault);
}

enum status cuda_device_choose(const struct cuda_launcher *launcher, int count, int *ordinal,
                               struct fault *fault) {
    const struct {
        const char *name, *value;
    } variables[] = {{"LOCAL_RANK", launcher->local_rank},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", launcher->openmpi_local_rank},
                     {"SLURM_LOCALID", launcher->slurm_local_id}};
    for (size_t i = 0; i < ARRAY_COUNT(variables); i++) {
        int64_t rank;
        if (variables[i].value == NULL || !text_parse_i64(variables[i].value, &rank)) {
            continue;
        }
        /* the local rank does not matter: each rank sees its own device, or all ranks share one */
        if (count == 1) {
            break;
        }
        if (rank < 0 || rank >= count) {
            return fault_set(
                fault, STATUS_INPUT, variables[i].name,
                "start at most one rank for each device, or check CUDA_VISIBLE_DEVICES",
                "is %lld, but this process sees %d devices", (long long)rank, count);
        }
        *ordinal = (int)rank;
        return OK;
    }
    *ordinal = 0;
    return OK;
}

static enum status choose_device(struct cuda_device *device, struct fault *fault) {
    const struct cuda_launcher launcher = {
        getenv("LOCAL_RANK"), getenv("OMPI_COMM_WORLD_LOCAL_RANK"), getenv("SLURM_LOCALID")};
    const struct cuda_driver *driver = &device->driver;
    int count = 0;
    CUresult result = driver->cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS) {
        return cuda_fault(driver, result, STATUS_INPUT, "CUDA", "count the devices", fault);
    }
    device->visible_count = count;
    TRY(cuda_device_choose(&launcher, count, &device->ordinal, fault));
    result = driver->cuDeviceGet(&device->device, device->ordinal);
    if (result == CUDA_SUCCESS) {
        result = driver->cuDeviceGetName(device->name, sizeof device->name, device->device);
    }
    return cuda_device_check_result(device, result, "open the device", fault);
}

static int read_attribute(const struct cuda_device *device, CUdevice_attribute which,
                          CUresult *result) {
    int value = 0;
    CUresult asked = device->driver.cuDeviceGetAttribute(&value, which, device->device);
    *result = *result == CUDA_SUCCESS ? asked : *result;
    return value;
}

static CUresult read_properties(struct cuda_device *device) {
    const struct cuda_driver *driver = &device->driver;
    size_t bytes = 0;
    TRY_CUDA(driver->cuDriverGetVersion(&device->driver_version));
    TRY_CUDA(driver->cuDeviceGetPCIBusId(device->bus, sizeof device->bus, device->device));
    TRY_CUDA(driver->cuDeviceTotalMem(&bytes, device->device));
    CUresult result = CUDA_SUCCESS;
    device->memory_bytes = bytes;
    device->compute_major =
        read_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &result);
    device->compute_minor =
        read_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &result);
    device->multiprocessor_count =
        read_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &result);
    device->can_map =
        read_attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &result) !=
        0;
    device->can_export =
        read_attribute(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                       &result) != 0;
    device->has_rdma =
        read_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                       &result) != 0;
    device->integrated = read_attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED, &result) != 0;
    device->has_display =
        read_attribute(device, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, &result) != 0;
    /* an error is ignored, because only time estimates use the clock rates */
    CUresult ignored = CUDA_SUCCESS;
    device->clock_khz = read_attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &ignored);
    device->memory_clock_khz =
        read_attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &ignored);
    device->memory_bus_bits =
        read_attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &ignored);
    return result;
}

enum status cuda_device_query(struct cuda_device *device, struct fault *fault) {
    struct cuda_device seen = {.acquire_count = 0};
    TRY(cuda_driver_open(&seen.driver, fault));
    TRY(choose_device(&seen, fault));
    TRY(cuda_device_check_result(&seen, read_properties(&seen), "read the properties of the device",
                                 fault));
    *device = seen;
    return OK;
}

static enum status make_context(struct cuda_device *device, struct fault *fault) {
    const struct cuda_driver *driver = &device->driver;
    /* Threads that wait for the device sleep instead of spinning on a core for a whole step. An
     * error is ignored: a library of this process may use the context already, with other flags. */
    (void)driver->cuDevicePrimaryCtxSetFlags(device->device, CU_CTX_SCHED_BLOCKING_SYNC);
    CUresult result = driver->cuDevicePrimaryCtxRetain(&device->context, device->device);
    if (result != CUDA_SUCCESS) {
        enum status status = result == CUDA_ERROR_OUT_OF_MEMORY ? STATUS_FIT : STATUS_FAILED;
        return cuda_device_fault(device, result, status, "make a context", fault);
    }
    enum status status = cuda_device_enter_context(device, fault);
    if (status != OK) {
        (void)driver->cuDevicePrimaryCtxRelease(device->device);
    }
    return status;
}

enum status cuda_device_acquire(struct cuda_device **device, struct fault *fault) {
    if (here.acquire_count == 0) {
        struct cuda_device opened;
        TRY(cuda_device_query(&opened, fault));
        TRY(make_context(&opened, fault));
        here = opened;
    } else {
        TRY(cuda_device_enter_context(&here, fault));
    }
    here.acquire_count++;
    *device = &here;
    return OK;
}

void cuda_device_release(struct cuda_device *device) {
    ASSERT(device == &here && here.acquire_count > 0);
    if (--here.acquire_count == 0) {
        (void)here.driver.cuCtxSetCurrent(NULL);
        (void)here.driver.cuDevicePrimaryCtxRelease(here.device);
    }
}

enum status cuda_device_enter_context(const struct cuda_device *device, struct fault *fault) {
    return cuda_device_check_result(device, device->driver.cuCtxSetCurrent(device->context),
                                    "enter the context of the device", fault);
}

enum status cuda_device_create_stream(const struct cuda_device *device, bool urgent,
                                      CUstream *stream, struct fault *fault) {
    const struct cuda_driver *driver = &device->driver;
    int least = 0;
    int greatest = 0; /* a lower number is a higher priority */
    CUresult result = driver->cuCtxGetStreamPriorityRange(&least, &greatest);
    if (result == CUDA_SUCCESS) {
        result = driver->cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING,
                                                    urgent ? greatest : least);
    }
    return cuda_device_check_result(device, result, "make a stream", fault);
}

enum status cuda_device_create_event(const struct cuda_device *device, bool timed, CUevent *event,
                                     struct fault *fault) {
    unsigned flags = timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
    return cuda_device_check_result(device, device->driver.cuEventCreate(event, flags),
                                    "create an event", fault);
}

enum status cuda_device_free_bytes(const struct cuda_device *device, uint64_t *bytes,
                                   struct fault *fault) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    CUresult result = device->driver.cuMemGetInfo(&free_bytes, &total_bytes);
    TRY(cuda_device_check_result(device, result, "query free memory", fault));
    *bytes = free_bytes;
    return OK;
}
