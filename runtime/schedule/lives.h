/* lives: from instructions to the half-open life of every extent. */
#ifndef SKEP_SCHEDULE_LIVES_H
#define SKEP_SCHEDULE_LIVES_H

#include "runtime/schedule/schedule.h"

/* lives_find: set first and last of every extent.
 * Params, master, moments, constants, scalars and batches live throughout: the host may touch them
 * between any two segments. Gradients live from begin to finish. What several segments touch, and
 * what the host reads after a segment, lives to the end of the last of them. All else lives from
 * its first to its last mention; with several lanes, to the first instruction that is ordered after
 * all its uses. */
void lives_find(struct schedule *schedule);

#endif
