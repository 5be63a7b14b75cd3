/* extent_table: the one place that adds to schedule->extents. Every stage of building adds the
 * buffers that it needs here; lives_find sets their lives when all instructions are listed. */
#ifndef SKEP_SCHEDULE_EXTENT_TABLE_H
#define SKEP_SCHEDULE_EXTENT_TABLE_H

#include "runtime/schedule/schedule.h"

/* extent_table_add: a buffer of `bytes` > 0, aligned as the target wants it. A target with unified
 * memory has it in SPACE_DEVICE whatever `space` is. Gives its index.
 *   name  must live as long as the schedule */
int extent_table_add(struct schedule *schedule, const char *name, enum extent_role role,
                     enum space space, uint64_t bytes);

/* extent_table_add_offloaded: a buffer in host memory also where the target is unified. `copied`:
 * the device copies from and to it, so that it is pinned: only those copies are asynchronous. */
int extent_table_add_offloaded(struct schedule *schedule, const char *name, enum extent_role role,
                               bool copied, uint64_t bytes);

/* extent_table_whole: all bytes of an extent as an operand. */
struct operand extent_table_whole(const struct schedule *schedule, int extent, enum access access);

#endif
