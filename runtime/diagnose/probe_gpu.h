/* probe_gpu: `skep probe` of a GPU: its device, its memory and links, what our kernels take. */
#ifndef SKEP_DIAGNOSE_PROBE_GPU_H
#define SKEP_DIAGNOSE_PROBE_GPU_H

#include "targets/probe/probe_cuda.h"

struct site;

enum { PROBE_HOLDERS = 3 }; /* processes that are named */

/* What a report shows. */
struct probed {
    const struct target *target;
    const struct probe_line *lines;
    int count, lower;              /* lines; how many of them are PROBE_LOWER */
    char machine[256];             /* "NVIDIA H200, compute capability 9.0, ..." */
    char holders[256];             /* who holds most memory; "" when that is not seen */
    char products[384];            /* who makes matrix products, and how fast; "": not measured */
    struct probe_gpu gpu;          /* what was measured; zeros when a CPU was */
    const struct target *measured; /* the profile to write */
};

/* probe_gpu_count: how many GPUs this process sees; 0 when this build has no CUDA. */
int probe_gpu_count(void);

/* probe_gpu_run: measure the GPU of this process and fill all but probed->target, with a profile
 * called `name`. With the ranks of a site (NULL: alone) all of them call it: rank 0 measures, then
 * all of them what NCCL takes, and *probed is for rank 0 alone.
 * memory  in `region`; of the device what probe_gpu_copies, probe_products and probe_nccl say
 * errors  those of port_init, cuda_kernel_table_init, probe_gpu_copies, probe_products and
 *         probe_nccl; STATUS_INPUT when this build has no CUDA */
MUST_CHECK enum status probe_gpu_run(const char *name, struct site *site, struct region *region,
                                     struct probed *probed, struct fault *fault);

#endif
