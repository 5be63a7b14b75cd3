/* probe_cuda: measures this machine's GPU and compares it with a profile. */
#ifndef SKEP_TARGETS_PROBE_PROBE_CUDA_H
#define SKEP_TARGETS_PROBE_PROBE_CUDA_H

#include "targets/ports/nvml.h"
#include "targets/probe/probe.h"

enum {
    PROBE_LIBRARY_BYTES = 192, /* size of the text about a library */
    PROBE_NAME_BYTES = 96,     /* size of the name of a device */
};

struct cuda_device; /* targets/ports/cuda_device.h, in a build with CUDA */

/* The memory that NCCL uses on each GPU of a site. */
struct probe_nccl_result {
    int ranks, devices;   /* number of ranks and GPUs in the measurement; ranks 0: not measured */
    uint64_t bytes;       /* memory with the first group of ranks */
    uint64_t group_bytes; /* additional memory for each further group of the same ranks */
    /* what was measured, such as "NCCL 2.28.9 between 2 ranks on 2 GPUs"; or why it was not */
    char description[PROBE_LIBRARY_BYTES];
};

/* A rate or a number of bytes that was not measured is 0. */
struct probe_gpu {
    char name[PROBE_NAME_BYTES]; /* name of the device */
    char driver[48];             /* version of the driver, such as "580.65.06 (CUDA 13.0)" */
    int compute_major, compute_minor, multiprocessor_count;
    uint64_t memory_total_bytes; /* total device memory */
    /* free memory when only the context of this process is on the device */
    uint64_t memory_free_bytes;
    uint64_t context_bytes;  /* device memory of the CUDA context of this process */
    bool is_context_exact;   /* context_bytes excludes memory of other processes */
    uint64_t kernels_bytes;  /* memory of all loaded kernels of this program */
    uint64_t products_bytes; /* memory of the matrix product library, without workspace */
    char products[PROBE_LIBRARY_BYTES]; /* library of matrix products, or why there is none */
    struct probe_nccl_result nccl;      /* memory that NCCL uses */
    double f32_flops, bf16_flops; /* large matrix products, by a library or else by our kernels */
    double own_f32_flops, own_bf16_flops;  /* large matrix products by our own kernels */
    double memory_bandwidth;               /* bytes read and written per second by a copy */
    double host_to_device, device_to_host; /* copies of pinned memory, bytes per second */
    bool has_health;                       /* NVML reported `health` */
    struct nvml_health health;             /* read after all measurements */
};

/* probe_gpu_read_device: fill in the device's properties and the memory that its context uses.
 * `device` must be acquired.
 * errors  STATUS_FAILED */
MUST_CHECK enum status probe_gpu_read_device(const struct cuda_device *device,
                                             struct probe_gpu *result, struct fault *fault);

/* probe_gpu_measure_copies: measure the bandwidth of device memory and of copies to and from pinned
 * memory, each the best of several tries.
 * memory  up to 512 MiB of device memory and 256 MiB of pinned memory, released before it returns
 * errors  STATUS_FIT when even small arrays do not fit; STATUS_FAILED */
MUST_CHECK enum status probe_gpu_measure_copies(const struct cuda_device *device,
                                                struct probe_gpu *result, struct fault *fault);

/* probe_gpu_read_health: read the device's health after the measurements. */
void probe_gpu_read_health(const struct cuda_device *device, struct probe_gpu *result);

/* probe_gpu_compare: compare the profile's figures with the measured ones, one line for each that
 * was measured.
 * returns  the number of lines, and in *lower the number of PROBE_LOWER lines */
int probe_gpu_compare(const struct target *target, const struct probe_gpu *result,
                      struct probe_comparison lines[static PROBE_GPU_COMPARISONS_MAX], int *lower);

/* probe_gpu_target: a target for this device named `name`: the measured figures, and for the rest
 * those that target_detect_cuda assumes.
 * memory  in `region` */
const struct target *probe_gpu_target(const struct probe_gpu *result, const char *name,
                                      struct region *region);

#endif
