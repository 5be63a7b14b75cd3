/* print: prints a program as text in a stable order, for people, diffs and the plan hash. */
#ifndef SKEP_PROGRAM_PRINT_H
#define SKEP_PROGRAM_PRINT_H

#include "runtime/program/program.h"

/* A program_sink receives one line of text, including its newline. */
typedef void program_sink(void *context, const char *line, size_t length);

/* program_print_instructions: print a heading for each segment, then its instructions: number,
 * lane, op, shape, operands (< read, > written, = both; +offset within the extent, +AXIS*stride for
 * the slot of a rank), waits and signal. */
void program_print_instructions(const struct program *program, program_sink *sink, void *context);

/* program_print_instruction: print the line of one instruction. */
void program_print_instruction(const struct program *program, uint32_t index, program_sink *sink,
                               void *context);

/* program_hash: BLAKE2b over one line for each extent (space, offset, bytes, life, role, name) and
 * the lines of program_print_instructions. */
struct hash program_hash(const struct program *program);

#endif
