/* cuda_device: the GPU that this process computes on, and its context. A process is one rank and a
 * rank has one device, opened by its first port and closed with its last one. CUDA_VISIBLE_DEVICES
 * determines which devices are visible, and in which order. A process uses the device whose index
 * is its local rank (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID), or the only visible
 * one. */
#ifndef SKEP_TARGETS_PORTS_CUDA_DEVICE_H
#define SKEP_TARGETS_PORTS_CUDA_DEVICE_H

#include "targets/ports/cuda_driver.h"

#include <stdbool.h>

enum { CUDA_DEVICE_NAME_BYTES = 96, CUDA_BUS_BYTES = 24 }; /* sizes of `name` and `bus` */

struct cuda_device {
    struct cuda_driver driver;
    int driver_version; /* 13000: CUDA 13.0 */
    int visible_count;  /* number of devices visible to this process */
    int ordinal;        /* index among the visible devices */
    CUdevice device;    /* handle of the device in the driver API */
    CUcontext context;  /* the device's primary context */
    char name[CUDA_DEVICE_NAME_BYTES];
    char bus[CUDA_BUS_BYTES];         /* PCI bus id, such as "0000:17:00.0" */
    int compute_major, compute_minor; /* compute capability, such as 8.6 */
    int multiprocessor_count;
    uint64_t memory_bytes;                 /* total device memory */
    int clock_khz;                         /* 0: unknown */
    int memory_clock_khz, memory_bus_bits; /* clock rate and bus width of the memory */
    bool integrated;                       /* the GPU shares its memory with the CPU */
    bool has_display;                      /* kernels have a time limit: it drives a display */
    bool can_map;                          /* the device supports virtual memory management */
    bool can_export;                       /* mapped memory can be exported as a file descriptor */
    bool has_rdma;                         /* network adapters can access mapped memory */
    int acquire_count; /* number of calls of cuda_device_acquire that were not released yet */
};

/* cuda_device_acquire: the device of this process. The first call opens it; every call makes its
 * context the calling thread's. Each call is paired with cuda_device_release.
 * errors  STATUS_INPUT: no driver, no device of that local rank; STATUS_FIT: no memory for a
 *         context; STATUS_FAILED: any other error of the driver */
MUST_CHECK enum status cuda_device_acquire(struct cuda_device **device, struct fault *fault);
void cuda_device_release(struct cuda_device *device);

/* cuda_device_query: read the properties of the device of this process without opening it;
 * `context` stays NULL.
 * errors  those of cuda_device_acquire, except STATUS_FIT */
MUST_CHECK enum status cuda_device_query(struct cuda_device *device, struct fault *fault);

/* cuda_device_enter_context: make the device's context this thread's. Every thread that calls the
 * driver does so once. */
MUST_CHECK enum status cuda_device_enter_context(const struct cuda_device *device,
                                                 struct fault *fault);

/* cuda_device_fault: cuda_fault with the device as its subject: "device 0, NVIDIA H200". */
enum status cuda_device_fault(const struct cuda_device *device, CUresult result, enum status status,
                              const char *action, struct fault *fault);

/* cuda_device_check_result: OK after CUDA_SUCCESS, else cuda_device_fault with STATUS_FAILED. */
MUST_CHECK enum status cuda_device_check_result(const struct cuda_device *device, CUresult result,
                                                const char *action, struct fault *fault);

/* cuda_device_create_stream: create a stream that does not synchronize with the legacy stream. An
 * urgent stream gets a higher priority, for communication that other ranks wait for. The caller
 * destroys it.
 * errors  STATUS_FAILED */
MUST_CHECK enum status cuda_device_create_stream(const struct cuda_device *device, bool urgent,
                                                 CUstream *stream, struct fault *fault);

/* cuda_device_create_event: create an event. It records times only if `timed`. The caller destroys
 * it.
 * errors  STATUS_FAILED */
MUST_CHECK enum status cuda_device_create_event(const struct cuda_device *device, bool timed,
                                                CUevent *event, struct fault *fault);

/* cuda_device_free_bytes: set *bytes to the free device memory.
 * errors  STATUS_FAILED */
MUST_CHECK enum status cuda_device_free_bytes(const struct cuda_device *device, uint64_t *bytes,
                                              struct fault *fault);

/* cuda_device_choose: choose the index of the device that a process uses among `count` visible
 * ones, by the values of its launcher's variables (NULL: not set).
 * errors  STATUS_INPUT when there are several and the local rank is not the index of one */
struct cuda_launcher {
    /* values of environment variables that launchers set; NULL: not set */
    const char *local_rank, *openmpi_local_rank, *slurm_local_id;
};
MUST_CHECK enum status cuda_device_choose(const struct cuda_launcher *launcher, int count,
                                          int *ordinal, struct fault *fault);

#endif
