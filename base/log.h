/* log: lines of text on standard error, each with a level. Nothing here allocates. */
#ifndef SKEP_BASE_LOG_H
#define SKEP_BASE_LOG_H

#include "base/check.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* log_init: choose which levels are written: `verbosity` is -1 for -q, 1 for -v and 0 without them;
 * the variable SKEP_LOG (error, warning, info or debug) overrides it. Under systemd's journal
 * (JOURNAL_STREAM is set) each line begins with its priority, as in "<6>". */
void log_init(int verbosity);
/* log_set_prefix: begin each line with `prefix` ("rank 3: "), which must live until the process
 * ends, and from then on write only errors and warnings. */
void log_set_prefix(const char *prefix);
/* log_priority_prefix: the prefix of a line of `level`: "<6>" for LOG_INFO under systemd's journal,
 * and "" without it. */
const char *log_priority_prefix(enum log_level level);
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
int log_is_enabled(enum log_level level);

#endif
