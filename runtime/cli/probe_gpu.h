/* probe_gpu: `skep probe` of a GPU: its device, its memory and links, what our kernels take. */
#ifndef SKEP_CLI_PROBE_GPU_H
#define SKEP_CLI_PROBE_GPU_H

#include "targets/probe.h"

enum { PROBE_HOLDERS = 3 }; /* processes that are named */

/* What a report shows. */
struct probed {
    const struct target *target;
    const struct probe_line *lines;
    int count, lower;              /* lines; how many of them are PROBE_LOWER */
    char machine[256];             /* "NVIDIA H200, compute capability 9.0, ..." */
    char holders[256];             /* who holds most memory; "" when that is not seen */
    char products[384];            /* who makes matrix products, and how fast; "": not measured */
    char json[1024];               /* what describes the machine, behind its "{" */
    const struct target *measured; /* the profile to write */
};

/* probe_gpu_run: measure the GPU of this process and fill all but probed->target, with a profile
 * called `name`.
 * memory  in `region`; of the device what probe_gpu_copies and probe_products say
 * errors  those of port_init, cuda_kernel_table_init, probe_gpu_copies and probe_products;
 *         STATUS_INPUT when this build has no CUDA */
MUST_CHECK enum status probe_gpu_run(const char *name, struct region *region, struct probed *probed,
                                     struct fault *fault);

#endif
