/* instruction_list: the only code that appends to schedule->instructions. */
#ifndef SKEP_SCHEDULE_INSTRUCTION_LIST_H
#define SKEP_SCHEDULE_INSTRUCTION_LIST_H

#include "runtime/schedule/extent_table.h"

/* begin_segment, end_segment: begin and end the list of the instructions of `segment`. */
void begin_segment(struct schedule *schedule, enum segment_kind segment, int64_t repeat);
void end_segment(struct schedule *schedule, enum segment_kind segment);

/* append_instruction: append an instruction without operands. The pointer is valid until the next
 * call. */
struct instruction *append_instruction(struct schedule *schedule, enum op_kind op,
                                       enum segment_kind segment, enum lane lane);

/* add_workspace: add the workspace that the kernel of the instruction needs, if any. The arguments
 * of the instruction must be set before. */
void add_workspace(struct schedule *schedule, struct instruction *instruction);

/* append_operand_copy: copy between two operands of equal size on the copy lane. */
void append_operand_copy(struct schedule *schedule, enum segment_kind segment, struct operand from,
                         struct operand to);

/* append_extent_copy: copy an extent on the copy lane. Does nothing when `from` is `to` or
 * EXTENT_NONE. */
void append_extent_copy(struct schedule *schedule, enum segment_kind segment, int from, int to);

/* append_zero_fill: set all bytes of an extent to 0. */
void append_zero_fill(struct schedule *schedule, enum segment_kind segment, int extent);

#endif
