/* world_nccl: ranks with a GPU each. */
#ifndef SKEP_TESTS_CONTRACT_WORLD_NCCL_H
#define SKEP_TESTS_CONTRACT_WORLD_NCCL_H

#include "targets/ports/cuda_driver.h"
#include "tests/contract/processes.h"

/* run_nccl_member: one rank from opening to closing. */
void run_nccl_member(struct processes *processes, struct member *member, member_body *body,
                     void *context);

/* Sums of f32 are NCCL's own; set before the ranks start. */
extern bool world_nccl_in_rings;

/* The driver of the rank's device, within a member's body. */
const struct cuda_driver *world_nccl_driver(void);

/* A graph that goes when the communicator forgets graphs. */
void world_nccl_keep(CUgraphExec graph);

/* Whether there is a GPU, emulated or real. */
bool world_nccl_has_device(void);

#endif
