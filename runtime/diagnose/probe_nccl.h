/* probe_nccl: what NCCL takes of a GPU's memory, measured between ranks that do what a program's
 * ranks do: join, register an arena, capture every kind of collective, launch it. */
#ifndef SKEP_DIAGNOSE_PROBE_NCCL_H
#define SKEP_DIAGNOSE_PROBE_NCCL_H

#include "targets/probe/probe_cuda.h"
#include "transport/site/site.h"

/* probe_nccl: fill result->nccl and what follows it, with the most that any rank found. Every rank
 * of the site calls it, each with its device acquired. Where NCCL is missing or the ranks cannot
 * join, result->nccl says why and nothing is measured. Ranks that share a device are told apart by
 * NCCL_HOSTID, which is set where it is not, and each is taken to hold an equal part of what all of
 * them take, where NVML does not tell.
 * memory  in `region`; up to 64 MiB of the device, given back
 * errors  STATUS_LOST; STATUS_FAILED when it breaks in the middle, then on this rank alone */
MUST_CHECK enum status probe_nccl(const struct cuda_device *device, struct site *site,
                                  struct region *region, struct probe_nccl_result *result,
                                  struct fault *fault);

#endif
