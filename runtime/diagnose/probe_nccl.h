/* probe_nccl: measures the GPU memory that NCCL uses. The ranks do the same as in training: they
 * join, register an arena, and capture and launch every kind of collective. */
#ifndef SKEP_DIAGNOSE_PROBE_NCCL_H
#define SKEP_DIAGNOSE_PROBE_NCCL_H

#include "targets/probe/probe_cuda.h"
#include "transport/site/site.h"

/* probe_nccl: fill result->nccl and the fields after it with the maximum of all ranks. Every rank
 * of the site calls it, each after it has acquired its device. Without NCCL, or when the ranks
 * cannot join, result->nccl has the reason and nothing is measured. Ranks that share a device get
 * different values of NCCL_HOSTID, unless it is set; where NVML does not report the memory of a
 * process, every rank on a device is counted with an equal share of the device memory in use.
 * memory  in `region`; up to 64 MiB of the device, released at the end
 * errors  STATUS_LOST; STATUS_FAILED, on this rank only, when a collective fails */
MUST_CHECK enum status probe_nccl(const struct cuda_device *device, struct site *site,
                                  struct region *region, struct probe_nccl_result *result,
                                  struct fault *fault);

#endif
