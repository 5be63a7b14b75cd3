/* probe_cuda: what this GPU really does, beside what a profile promises. */
#ifndef SKEP_TARGETS_PROBE_PROBE_CUDA_H
#define SKEP_TARGETS_PROBE_PROBE_CUDA_H

#include "targets/ports/cuda_device.h"
#include "targets/ports/nvml.h"
#include "targets/probe/probe.h"

enum { PROBE_LIBRARY_BYTES = 192 };

/* A rate or a number of bytes that was not measured is 0. */
struct probe_gpu {
    char name[CUDA_DEVICE_NAME_BYTES];
    char driver[48]; /* "580.65.06 (CUDA 13.0)" */
    int compute_major, compute_minor, multiprocessor_count;
    uint64_t memory_total_bytes;
    uint64_t memory_free_bytes; /* with our context there and nothing else of ours */
    uint64_t context_bytes;
    bool context_alone;      /* NVML told our share; else it holds what others hold, too */
    uint64_t kernels_bytes;  /* all of our kernels, loaded */
    uint64_t products_bytes; /* the library of matrix products, without its workspace */
    char products[PROBE_LIBRARY_BYTES];    /* "cuBLASLt 13.0.2"; or why there is none */
    uint64_t nccl_bytes;                   /* with its first group of ranks */
    uint64_t nccl_group_bytes;             /* with a further one of the same ranks */
    int nccl_ranks, nccl_devices;          /* that talked then; nccl_ranks 0: not measured */
    char nccl[PROBE_LIBRARY_BYTES];        /* "NCCL 2.28.9 between 2 ranks on 2 GPUs"; or why not */
    double f32_flops, bf16_flops;          /* of large products: the library's, else our own */
    double own_f32_flops, own_bf16_flops;  /* by our own kernels */
    double memory_bandwidth;               /* of a copy: bytes read and written per second */
    double host_to_device, device_to_host; /* pinned memory, bytes per second */
    bool healthy;                          /* NVML told what follows */
    struct nvml_health health;             /* when everything had been measured */
};

/* probe_gpu_begin: the device, its context and what that took. With `device` acquired.
 * errors  STATUS_FAILED */
MUST_CHECK enum status probe_gpu_begin(const struct cuda_device *device, struct probe_gpu *result,
                                       struct fault *fault);

/* probe_gpu_copies: bandwidths of memory and of the link to the host, each the best of several
 * tries.
 * memory  up to 512 MiB of the device and 256 MiB pinned, given back
 * errors  STATUS_FIT when even small arrays do not fit; STATUS_FAILED */
MUST_CHECK enum status probe_gpu_copies(const struct cuda_device *device, struct probe_gpu *result,
                                        struct fault *fault);

/* probe_gpu_end: its health, after work. */
void probe_gpu_end(const struct cuda_device *device, struct probe_gpu *result);

/* probe_gpu_compare: the profile's promises line by line; what was not measured has no line.
 * errors  none; *lower is the number of PROBE_LOWER lines; gives the number of lines */
int probe_gpu_compare(const struct target *target, const struct probe_gpu *result,
                      struct probe_line lines[static PROBE_GPU_LINES], int *lower);

/* probe_gpu_target: a profile of this device named `name`: what was measured, and what a detected
 * target assumes of the rest.
 * memory  in `region` */
const struct target *probe_gpu_target(const struct probe_gpu *result, const char *name,
                                      struct region *region);

#endif
