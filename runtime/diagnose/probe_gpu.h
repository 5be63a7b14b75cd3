/* probe_gpu: measures a GPU for `skep probe`: memory, links, matrix products, and the device memory
 * that the kernels, cuBLASLt and NCCL use. */
#ifndef SKEP_DIAGNOSE_PROBE_GPU_H
#define SKEP_DIAGNOSE_PROBE_GPU_H

#include "targets/probe/probe_cuda.h"

struct site;

enum { PROBE_HOLDERS = 3 }; /* processes in the list of the largest memory users */

/* The contents of a report. */
struct probed {
    const struct target *target;
    const struct probe_line *lines;
    int count, lower;              /* lines; how many of them are PROBE_LOWER */
    char machine[256];             /* "NVIDIA H200, compute capability 9.0, ..." */
    char holders[256];             /* processes with the most memory; "" when unknown */
    char products[384];            /* libraries and rates of matrix products; "": not measured */
    struct probe_gpu gpu;          /* the measurements; zeros for a CPU */
    const struct target *measured; /* the profile to write */
};

/* probe_gpu_count: the number of GPUs that this process sees; 0 when this build has no CUDA. */
int probe_gpu_count(void);

/* probe_gpu_run: measure the GPU of this process and fill all but probed->target, with a profile
 * called `name`. When `site` is not NULL, all its ranks call it: rank 0 measures alone, then all
 * ranks measure the memory that NCCL uses; *probed is set on rank 0 only.
 * memory  in `region`; device memory as in probe_gpu_copies, probe_products and probe_nccl
 * errors  those of port_init, cuda_kernel_table_init, probe_gpu_copies, probe_products and
 *         probe_nccl; STATUS_INPUT when this build has no CUDA */
MUST_CHECK enum status probe_gpu_run(const char *name, struct site *site, struct region *region,
                                     struct probed *probed, struct fault *fault);

#endif
