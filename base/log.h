/* log: lines of text on standard error, each with a level, and the line of progress: on a terminal
 * one line that is updated in place, elsewhere a plain line at most every 10 s. This file owns that
 * line and its rate. Nothing here allocates. */
#ifndef SKEP_BASE_LOG_H
#define SKEP_BASE_LOG_H

#include "base/check.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* log_init: choose which levels are written: `verbosity` is -1 for -q, 1 for -v and 0 without them;
 * the variable SKEP_LOG (error, warning, info or debug) overrides it. Under systemd's journal
 * (JOURNAL_STREAM is set) each line begins with its priority, as in "<6>". */
void log_init(int verbosity);
/* log_show_times: whether each line begins with the time, as in "2026-11-23T17:42:04Z ". Processes
 * that run for a long time show it. No time is written to a terminal, nor to the journal, which
 * records the time itself. */
void log_show_times(bool show);
/* log_set_prefix: begin each line with `prefix` ("rank 3: "), which must live until the process
 * ends, and write only errors and warnings from now on. */
void log_set_prefix(const char *prefix);
/* log_is_terminal: whether standard error was a terminal when log_init was called. */
bool log_is_terminal(void);
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
int log_is_enabled(enum log_level level);
/* log_end_progress: end a line of progress, so that other text may follow it. */
void log_end_progress(void);

/* ---- progress; only one thread may call these functions ---- */

/* activity_line_is_due: whether the line may be written now. Always false at -q, and on ranks that
 * log errors only.
 * activity_line_show: write the line; it replaces the one before on a terminal. */
bool activity_line_is_due(void);
void activity_line_show(const char *line);

/* activity_begin: the process begins the activity `what`, such as "loading weights". The text must
 * live until activity_end. `total` is the amount of work, in bytes or any other unit. If it is 0,
 * the amount is unknown, and a line is written at once, because activity_advance may not be called.
 * An activity that begins within another one is not shown. */
void activity_begin(const char *what, uint64_t total);
void activity_advance(uint64_t amount);
void activity_end(bool is_quiet);

/* activity_add_time: add a duration to a line: "0:42" or "3:07:00". */
void activity_add_time(struct text *line, double seconds);

#endif
