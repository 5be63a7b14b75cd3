/* trace_file: recordings as Chrome trace JSON (chrome://tracing, Perfetto): one process a rank, one
 * thread a lane. Several ranks write into one file in turn: one begins it, each appends, one ends
 * it; whose turn it is, is the caller's. Nothing here allocates. */
#ifndef SKEP_PROGRAM_TRACE_FILE_H
#define SKEP_PROGRAM_TRACE_FILE_H

#include "base/fault.h"
#include "runtime/program/trace.h"

/* errors, of all three: as base/file.h, naming `path` */
MUST_CHECK enum status trace_file_begin(const char *path, struct fault *fault);

/* trace_file_append: complete events ("ph": "X", times in microseconds) named after the op and what
 * it writes; in "args" the segment, the layer, the instruction's number and the bytes it names. */
MUST_CHECK enum status trace_file_append(const char *path, const struct schedule *schedule,
                                         const struct trace *trace, int rank, struct fault *fault);

MUST_CHECK enum status trace_file_end(const char *path, struct fault *fault);

#endif
