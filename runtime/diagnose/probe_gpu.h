/* probe_gpu: measures a GPU for `skep probe`: memory, links, matrix products, and the device memory
 * that the kernels, cuBLASLt and NCCL use. */
#ifndef SKEP_DIAGNOSE_PROBE_GPU_H
#define SKEP_DIAGNOSE_PROBE_GPU_H

#include "targets/probe/probe_cuda.h"

struct site;

enum { PROBE_MEMORY_USERS = 3 }; /* Maximum number of processes in probed.memory_users. */

/* The contents of the report of `skep probe`. */
struct probed {
    const struct target *target;
    const struct probe_comparison *lines;
    int count, lower;       /* Number of `lines`; number of lines with the verdict PROBE_LOWER. */
    char machine[256];      /* "NVIDIA H200, compute capability 9.0, ..." */
    char memory_users[256]; /* Processes with the most device memory; "" if unknown. */
    char products[384];     /* Libraries and rates of matrix products; "" if not measured. */
    struct probe_gpu gpu;   /* Measurements of the GPU; zeros for a CPU. */
    const struct target *measured; /* Profile that the command writes. */
};

/* probe_gpu_count: return the number of GPUs visible to this process; 0 if the build has no
 * CUDA. */
int probe_gpu_count(void);

/* probe_gpu_run: measure the GPU of this process and fill *probed except probed->target. `name` is
 * the name of the profile. When `site` is not NULL, all its ranks call it: rank 0 measures alone,
 * then all ranks measure the memory that NCCL uses; *probed is set on rank 0 only.
 * memory  in `region`; device memory as in probe_gpu_measure_copies, probe_products and probe_nccl
 * errors  those of port_init, cuda_kernel_table_init, probe_gpu_measure_copies, probe_products and
 *         probe_nccl; STATUS_INPUT when this build has no CUDA */
MUST_CHECK enum status probe_gpu_run(const char *name, struct site *site, struct region *region,
                                     struct probed *probed, struct fault *fault);

#endif
