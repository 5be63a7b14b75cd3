/* instruction_list: the only code that appends to schedule->instructions. */
#ifndef SKEP_SCHEDULE_INSTRUCTION_LIST_H
#define SKEP_SCHEDULE_INSTRUCTION_LIST_H

#include "runtime/schedule/extent_table.h"

/* list_segment_begin, list_segment_end: begin and end the list of the instructions of `segment`. */
void list_segment_begin(struct schedule *schedule, enum segment_kind segment, int64_t repeat);
void list_segment_end(struct schedule *schedule, enum segment_kind segment);

/* list_instruction: append an instruction without operands. The pointer is valid until the next
 * call. */
struct instruction *list_instruction(struct schedule *schedule, enum op_kind op,
                                     enum segment_kind segment, enum lane lane);

/* list_workspace: add the workspace that the kernel of the instruction needs, if any. The arguments
 * of the instruction must be set before. */
void list_workspace(struct schedule *schedule, struct instruction *instruction);

/* list_copy_part: copy between two operands of equal size on the copy lane. */
void list_copy_part(struct schedule *schedule, enum segment_kind segment, struct operand from,
                    struct operand to);

/* list_copy: copy an extent on the copy lane. Does nothing when `from` is `to` or EXTENT_NONE. */
void list_copy(struct schedule *schedule, enum segment_kind segment, int from, int to);

/* list_zero_fill: set all bytes of an extent to 0. */
void list_zero_fill(struct schedule *schedule, enum segment_kind segment, int extent);

#endif
