#include "base/log.h"

#include "base/bytes.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int max_level = LOG_INFO;
static bool is_journal;
static const char *line_prefix = "";

void log_init(int verbosity) {
    static const char *const NAMES[] = {"error", "warning", "info", "debug"};
    max_level = verbosity < 0 ? LOG_WARNING : verbosity > 0 ? LOG_DEBUG : LOG_INFO;
    is_journal = getenv("JOURNAL_STREAM") != NULL;
    const char *requested = getenv("SKEP_LOG");
    for (int i = 0; requested != NULL && i < (int)ARRAY_COUNT(NAMES); i++) {
        if (strcmp(requested, NAMES[i]) == 0) {
            max_level = i;
        }
    }
}

void log_set_prefix(const char *prefix) {
    line_prefix = prefix;
    max_level = max_level < LOG_WARNING ? max_level : LOG_WARNING;
}

int log_is_enabled(enum log_level level) {
    return (int)level <= max_level;
}

const char *log_priority_prefix(enum log_level level) {
    static const char *const PRIORITIES[] = {"<3>", "<4>", "<6>", "<7>"};
    return is_journal ? PRIORITIES[level] : "";
}

void log_line(enum log_level level, const char *format, ...) {
    if (!log_is_enabled(level)) {
        return;
    }
    char buffer[1024];
    struct text line = text_over(buffer, sizeof buffer - 1);
    text_add(&line, "%s%s", log_priority_prefix(level), line_prefix);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(buffer + line.length, line.capacity - line.length, format, arguments);
    va_end(arguments);
    size_t length_max = line.capacity - line.length - 1;
    line.length += length < 0 ? 0 : min_u64((size_t)length, length_max);
    buffer[line.length++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, buffer, line.length);
    (void)ignored;
}
