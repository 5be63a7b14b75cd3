/* print: a program as text: stable in order, diffable, and what the plan's hash is taken over. */
#ifndef SKEP_PROGRAM_PRINT_H
#define SKEP_PROGRAM_PRINT_H

#include "runtime/program/program.h"

/* Takes one line, newline included. */
typedef void program_sink(void *context, const char *line, size_t length);

/* program_print_instructions: a heading for each segment, then its instructions: number, lane, op,
 * shape, operands (< read, > written, = both; +offset within the extent, +AXIS*stride for a rank's
 * own slot), waits and signals. */
void program_print_instructions(const struct program *program, program_sink *sink, void *context);

/* program_print_instruction: one line of these. */
void program_print_instruction(const struct program *program, uint32_t index, program_sink *sink,
                               void *context);

/* program_hash: BLAKE2b over all extents (a line each: space, offset, bytes, life, role, name) and
 * these lines. */
struct hash program_hash(const struct program *program);

#endif
