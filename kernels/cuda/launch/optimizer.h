/* optimizer on CUDA: kernels/optimizer.h and kernels/tally.h with device addresses. Equal gradients
 * give the same bits as on the CPU. Scalars and tallies are in device memory. Workspaces:
 * kernels/cuda/launch/workspace.h. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_OPTIMIZER_H
#define SKEP_KERNELS_CUDA_LAUNCH_OPTIMIZER_H

#include "kernels/cuda/launch/launch.h"
#include "kernels/optimizer.h"
#include "kernels/tally.h"

struct cuda_optimizer_kernels {
    /* one entry for the kernel of the same name */
    CUfunction norm_sums, norm_merge, clip, tally_out, tally_in, adamw;
};

/* cuda_optimizer_kernels_init: load the kernels onto the current context; errors as
 * cuda_load_family. */
MUST_CHECK enum status cuda_optimizer_kernels_init(const struct cuda_driver *driver,
                                                   struct cuda_optimizer_kernels *kernels,
                                                   struct fault *fault);

void cuda_gradient_norm_run(const struct cuda_compute *compute, int64_t count,
                            const float *gradients, struct step_scalars *scalars, void *workspace);

void cuda_clip_run(const struct cuda_compute *compute, float clip_norm,
                   struct step_scalars *scalars);

void cuda_tally_out(const struct cuda_compute *compute, const struct step_scalars *scalars,
                    struct rank_tally *own);

void cuda_tally_in(const struct cuda_compute *compute, const struct tally_args *args,
                   const struct rank_tally *tallies, struct step_scalars *scalars);

void cuda_adamw_run(const struct cuda_compute *compute, const struct adamw_args *args,
                    const struct step_scalars *scalars, const float *gradients, float *master,
                    void *m, void *v, void *params);

#endif
