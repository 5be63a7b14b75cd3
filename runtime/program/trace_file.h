/* trace_file: writes traces as Chrome trace JSON (chrome://tracing, Perfetto), with one process per
 * rank and one thread per lane. Several ranks write to one file in turn: one rank calls begin, each
 * rank appends, and one rank calls end. The caller ensures this order. The file is written as
 * PATH.new, which the end renames, so that a run that is killed leaves no incomplete trace. These
 * functions never allocate. */
#ifndef SKEP_PROGRAM_TRACE_FILE_H
#define SKEP_PROGRAM_TRACE_FILE_H

#include "base/fault.h"
#include "runtime/program/trace.h"

/* trace_file_begin, _append and _end return the errors of base/file.h. The fault's subject is
 * PATH.new, and the file is removed. */
MUST_CHECK enum status trace_file_begin(const char *path, struct fault *fault);

/* trace_file_append: append complete events ("ph": "X", times in microseconds), named after the op
 * and the extent that it writes. "args" holds the segment, the layer, the number of the instruction
 * and its bytes. */
MUST_CHECK enum status trace_file_append(const char *path, const struct schedule *schedule,
                                         const struct trace *trace, int rank, struct fault *fault);

MUST_CHECK enum status trace_file_end(const char *path, struct fault *fault);

#endif
