/* instruction_list: the one place that appends to schedule->instructions, for the stages of
 * building. */
#ifndef SKEP_SCHEDULE_INSTRUCTION_LIST_H
#define SKEP_SCHEDULE_INSTRUCTION_LIST_H

#include "runtime/schedule/extent_table.h"

/* list_begin, list_end: instructions listed between the two are `segment`'s. */
void list_begin(struct schedule *schedule, enum segment_kind segment, int64_t repeat);
void list_end(struct schedule *schedule, enum segment_kind segment);

/* list_instruction: one more, without operands. The pointer is good until the next one. */
struct instruction *list_instruction(struct schedule *schedule, enum op_kind op,
                                     enum segment_kind segment, enum lane lane);

/* list_workspace: give the instruction, whose arguments are set, the workspace that its kernel
 * needs, if any. */
void list_workspace(struct schedule *schedule, struct instruction *instruction);

/* list_copy_part: equally many bytes, on the copy lane. */
void list_copy_part(struct schedule *schedule, enum segment_kind segment, struct operand from,
                    struct operand to);

/* list_copy: on the copy lane; nothing when `from` is `to` or EXTENT_NONE. */
void list_copy(struct schedule *schedule, enum segment_kind segment, int from, int to);

/* list_zero_fill: an extent's bytes become 0. */
void list_zero_fill(struct schedule *schedule, enum segment_kind segment, int extent);

#endif
