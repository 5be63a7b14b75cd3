/* log: lines for people on standard error, by level. Never allocates. */
#ifndef SKEP_BASE_LOG_H
#define SKEP_BASE_LOG_H

#include "base/check.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* log_init: level from -q (-1), none (0) or -v (1), overridden by SKEP_LOG (error, warning, info,
 * debug); under JOURNAL_STREAM lines carry <N> priorities. */
void log_init(int verbosity);
/* log_set_prefix: lines begin with `who` ("rank 3: "), which is kept by reference; only errors and
 * warnings are written from now on. */
void log_set_prefix(const char *who);
/* log_priority: what lines of this level begin with: "<6>" under JOURNAL_STREAM, else "". */
const char *log_priority(enum log_level level);
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
int log_enabled(enum log_level level);

#endif
