/* cuda_device: the one GPU that this process computes on, and its context.
 *
 * A process is one rank and a rank is one device: it is opened when a port is made for it and
 * closed with the last one. Which one: the driver counts the devices that CUDA_VISIBLE_DEVICES
 * leaves, in its order; of these a process takes the one that its launcher's local rank names
 * (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID), or the only one there is. */
#ifndef SKEP_TARGETS_PORTS_CUDA_DEVICE_H
#define SKEP_TARGETS_PORTS_CUDA_DEVICE_H

#include "targets/ports/cuda_driver.h"

#include <stdbool.h>

enum { CUDA_DEVICE_NAME_BYTES = 96, CUDA_BUS_BYTES = 24 };

struct cuda_device {
    struct cuda_driver driver;
    int driver_version; /* 13000: CUDA 13.0 */
    int visible_count;  /* devices that this process sees */
    int ordinal;        /* among them */
    CUdevice device;
    CUcontext context; /* the primary one */
    char name[CUDA_DEVICE_NAME_BYTES];
    char bus[CUDA_BUS_BYTES]; /* "0000:17:00.0": what NVML knows it by */
    int compute_major, compute_minor;
    int multiprocessor_count;
    uint64_t memory_bytes;
    int clock_khz; /* 0: not told */
    int memory_clock_khz, memory_bus_bits;
    bool integrated; /* its memory is the host's */
    bool maps;       /* virtual memory management */
    bool shares;     /* what is mapped can be exported as a file descriptor */
    bool rdma;       /* and be reached by network adapters */
    int users;
};

/* cuda_device_acquire: the device of this process, opened by the first call, with the calling
 * thread in its context. Each call is paired with cuda_device_release.
 * errors  STATUS_INPUT: no driver, no device of that local rank; STATUS_FIT: no memory for a
 *         context; STATUS_FAILED: what else the driver refuses */
MUST_CHECK enum status cuda_device_acquire(struct cuda_device **device, struct fault *fault);
void cuda_device_release(struct cuda_device *device);

/* cuda_device_query: what is known of that device without opening it; `context` stays NULL.
 * errors  as cuda_device_acquire, but for memory */
MUST_CHECK enum status cuda_device_query(struct cuda_device *device, struct fault *fault);

/* cuda_device_enter: make the device's context this thread's. Every thread that calls the driver
 * does so once. */
MUST_CHECK enum status cuda_device_enter(const struct cuda_device *device, struct fault *fault);

/* cuda_device_fault: cuda_fault with the device as its place: "device 0, NVIDIA H200". */
enum status cuda_device_fault(const struct cuda_device *device, CUresult result, enum status status,
                              const char *action, struct fault *fault);

/* cuda_device_stream: a stream that does not run in turn with the legacy one; an urgent one goes
 * before others where they compete: communication, which others wait for. The caller destroys it.
 * errors  STATUS_FAILED */
MUST_CHECK enum status cuda_device_stream(const struct cuda_device *device, bool urgent,
                                          CUstream *stream, struct fault *fault);

/* cuda_device_event: an event, which takes times only if `timed`. The caller destroys it.
 * errors  STATUS_FAILED */
MUST_CHECK enum status cuda_device_event(const struct cuda_device *device, bool timed,
                                         CUevent *event, struct fault *fault);

/* cuda_device_free: bytes of device memory that nobody holds now.
 * errors  STATUS_FAILED */
MUST_CHECK enum status cuda_device_free(const struct cuda_device *device, uint64_t *bytes,
                                        struct fault *fault);

/* cuda_device_choose: which of `count` visible devices a process takes, by the values of its
 * launcher's variables (NULL: not set).
 * errors  STATUS_INPUT when the local rank names none of several */
struct cuda_launcher {
    const char *local_rank, *openmpi_local_rank, *slurm_local_id;
};
MUST_CHECK enum status cuda_device_choose(const struct cuda_launcher *launcher, int count,
                                          int *ordinal, struct fault *fault);

#endif
