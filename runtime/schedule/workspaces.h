/* workspaces: the scratch that kernels need, by the kind of target. */
#ifndef SKEP_SCHEDULE_WORKSPACES_H
#define SKEP_SCHEDULE_WORKSPACES_H

#include "runtime/schedule/schedule.h"

/* workspace_bytes: scratch of the kernel of `instruction`; 0: none. A pure function of shapes and
 * of the target's profile (a CPU's threads), so that a laptop computes what the machine will use.
 */
uint64_t workspace_bytes(const struct instruction *instruction, const struct schedule *schedule);

#endif
