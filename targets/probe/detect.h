/* detect: opens the target that a run names, or describes this machine as a target. */
#ifndef SKEP_TARGETS_PROBE_DETECT_H
#define SKEP_TARGETS_PROBE_DETECT_H

#include "base/fault.h"
#include "base/region.h"
#include "targets/targets.h"

/* target_open: the target for `wanted`: the name of a built-in profile, a path (contains '/' or
 * ends in .yaml), or "auto" or NULL for this machine: its GPU if this build has CUDA and the driver
 * finds one, else its CPU.
 * memory  *target and all it points to live in `region`
 * errors  STATUS_INPUT for an unknown name (with the nearest name and a list of all), an
 *         unreadable file, or a missing, unknown or invalid key at file:line:column; *target is
 *         then unchanged */
MUST_CHECK enum status target_open(const char *wanted, struct region *region,
                                   const struct target **target, struct fault *fault);

/* target_detect: a CPU target for this machine: memory and threads that the process may use (cgroup
 * limits, CPU affinity), and speeds estimated from its clock and instruction set. */
const struct target *target_detect(struct region *region);

/* The declared use of the device memory that other programs use, in a detected CUDA target. */
#define TARGET_OTHER_PROGRAMS "desktop and other programs"

/* target_detect_cuda: a CUDA target for the GPU that this process would use: memory and properties
 * as its driver reports them, and speeds estimated from them. It declares the memory that others
 * use now, as NVML reports it, and headroom if the device drives a display. NULL if there is no
 * usable GPU or the build lacks CUDA.
 * memory  in `region`; allocates nothing on the device */
const struct target *target_detect_cuda(struct region *region);

/* target_is_automatic: whether `wanted`, as for target_open, means this machine. */
bool target_is_automatic(const char *wanted);

/* target_has_gpu_files: whether NVIDIA's driver is present in the kernel or, under WSL2, in
 * Windows. */
bool target_has_gpu_files(void);

enum unused_gpu {
    UNUSED_GPU_NONE,         /* no NVIDIA GPU, or a usable one */
    UNUSED_GPU_OF_CPU_BUILD, /* this build has no CUDA kernels */
    UNUSED_GPU_FAULTY,       /* the driver or the device cannot be used */
};

/* target_find_unused_gpu: whether this machine has an NVIDIA GPU that an automatic target does not
 * use, with the reason and the remedy in *why (STATUS_INPUT). Loads the driver. */
enum unused_gpu target_find_unused_gpu(struct fault *why);

/* target_warn_of_unused_gpu: log a warning with that reason and remedy if `wanted` is automatic, at
 * most once in a process. */
void target_warn_of_unused_gpu(const char *wanted);

#endif
