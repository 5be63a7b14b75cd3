/* probe_cuda: measures this machine's GPU and compares it with a profile. */
#ifndef SKEP_TARGETS_PROBE_PROBE_CUDA_H
#define SKEP_TARGETS_PROBE_PROBE_CUDA_H

#include "targets/ports/cuda_device.h"
#include "targets/ports/nvml.h"
#include "targets/probe/probe.h"

enum { PROBE_LIBRARY_BYTES = 192 };

/* What NCCL takes of the memory of each GPU of a site. */
struct probe_nccl_result {
    int ranks, devices;   /* of the measurement; ranks 0: not measured */
    uint64_t bytes;       /* with its first group of ranks */
    uint64_t group_bytes; /* more with each further group of the same ranks */
    /* "NCCL 2.28.9 between 2 ranks on 2 GPUs"; or why it was not measured */
    char library[PROBE_LIBRARY_BYTES];
};

/* A rate or a number of bytes that was not measured is 0. */
struct probe_gpu {
    char name[CUDA_DEVICE_NAME_BYTES];
    char driver[48]; /* "580.65.06 (CUDA 13.0)" */
    int compute_major, compute_minor, multiprocessor_count;
    uint64_t memory_total_bytes;
    uint64_t memory_free_bytes; /* while this process has its context and nothing else there */
    uint64_t context_bytes;
    bool context_alone;      /* NVML reported our share; else other processes' memory is included */
    uint64_t kernels_bytes;  /* all kernels of this program, loaded */
    uint64_t products_bytes; /* the library of matrix products, without its workspace */
    char products[PROBE_LIBRARY_BYTES]; /* "cuBLASLt 13.0.2"; or why there is none */
    struct probe_nccl_result nccl;
    double f32_flops, bf16_flops;          /* of large products: the library's, else our own */
    double own_f32_flops, own_bf16_flops;  /* by our own kernels */
    double memory_bandwidth;               /* of a copy: bytes read and written per second */
    double host_to_device, device_to_host; /* pinned memory, bytes per second */
    bool has_health;                       /* NVML reported `health` */
    struct nvml_health health;             /* after everything was measured */
};

/* probe_gpu_begin: fill in the device's properties and the memory that its context takes. `device`
 * must be acquired.
 * errors  STATUS_FAILED */
MUST_CHECK enum status probe_gpu_begin(const struct cuda_device *device, struct probe_gpu *result,
                                       struct fault *fault);

/* probe_gpu_copies: measure the bandwidth of device memory and of copies to and from pinned memory,
 * each the best of several tries. memory  up to 512 MiB of device memory and 256 MiB of pinned
 * memory, released before it returns
 * errors  STATUS_FIT when even small arrays do not fit; STATUS_FAILED */
MUST_CHECK enum status probe_gpu_copies(const struct cuda_device *device, struct probe_gpu *result,
                                        struct fault *fault);

/* probe_gpu_end: read the device's health after the measurements. */
void probe_gpu_end(const struct cuda_device *device, struct probe_gpu *result);

/* probe_gpu_compare: compare the profile's figures with the measured ones, one line for each that
 * was measured. returns  the number of lines, and in *lower the number of PROBE_LOWER lines */
int probe_gpu_compare(const struct target *target, const struct probe_gpu *result,
                      struct probe_line lines[static PROBE_GPU_LINES], int *lower);

/* probe_gpu_target: a target for this device named `name`: the measured figures, and for the rest
 * those that target_detect_cuda assumes.
 * memory  in `region` */
const struct target *probe_gpu_target(const struct probe_gpu *result, const char *name,
                                      struct region *region);

#endif
