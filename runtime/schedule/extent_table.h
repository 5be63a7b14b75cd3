/* extent_table: the only code that adds extents to schedule->extents. Every stage of building adds
 * the buffers that it needs here. lives_find sets their lives after all instructions are listed. */
#ifndef SKEP_SCHEDULE_EXTENT_TABLE_H
#define SKEP_SCHEDULE_EXTENT_TABLE_H

#include "runtime/schedule/schedule.h"

/* extent_table_add: add a buffer of `bytes` > 0 with the alignment of the target. On a target with
 * unified memory it is always in SPACE_DEVICE; `space` is ignored. Returns its index.
 *   name  must remain valid as long as the schedule */
int extent_table_add(struct schedule *schedule, const char *name, enum extent_role role,
                     enum space space, uint64_t bytes);

/* extent_table_add_offloaded: add a buffer in host memory, also on a target with unified memory.
 * `copied`: the device copies from and to the buffer. It is then pinned, because only copies of
 * pinned memory are asynchronous. */
int extent_table_add_offloaded(struct schedule *schedule, const char *name, enum extent_role role,
                               bool copied, uint64_t bytes);

/* extent_table_whole_extent: returns an operand that covers all bytes of an extent. */
struct operand extent_table_whole_extent(const struct schedule *schedule, int extent,
                                         enum access access);

#endif
