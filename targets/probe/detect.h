/* detect: the target that a person names, or this machine as one. */
#ifndef SKEP_TARGETS_PROBE_DETECT_H
#define SKEP_TARGETS_PROBE_DETECT_H

#include "base/fault.h"
#include "base/region.h"
#include "targets/target.h"

/* target_open: the profile that `wanted` names: a built-in name, a path (it has a '/' or ends in
 * .yaml), or this machine ("auto", or NULL): its GPU where this build has CUDA and the driver finds
 * one, else its processor.
 * memory  *target and all it points to live in `region`
 * errors  STATUS_INPUT: an unknown name (naming the nearest, listing all), an unreadable file, or a
 *         missing, unknown or impossible key at file:line:column; *target is then untouched */
MUST_CHECK enum status target_open(const char *wanted, struct region *region,
                                   const struct target **target, struct fault *fault);

/* target_detect: a cpu profile of this machine: memory and threads as the process may use them
 * (cgroup limits, CPU affinity), speeds assumed from its clock and instruction set. */
const struct target *target_detect(struct region *region);

/* target_detect_cuda: a cuda profile of the GPU that this process would take: memory and shape as
 * its driver tells, speeds assumed from them. NULL where there is none, which the log tells where
 * there is a driver, or where the build lacks CUDA.
 * memory  in `region`; nothing is taken of the device */
const struct target *target_detect_cuda(struct region *region);

#endif
