#include "base/log.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int level_now = LOG_INFO;
static int journal;
static const char *speaker = "";

void log_init(int verbosity) {
    static const char *const NAMES[] = {"error", "warning", "info", "debug"};
    level_now = verbosity < 0 ? LOG_WARNING : verbosity > 0 ? LOG_DEBUG : LOG_INFO;
    journal = getenv("JOURNAL_STREAM") != NULL;
    const char *wanted = getenv("SKEP_LOG");
    for (int i = 0; wanted != NULL && i < (int)ARRAY_COUNT(NAMES); i++) {
        if (strcmp(wanted, NAMES[i]) == 0) {
            level_now = i;
        }
    }
}

void log_set_prefix(const char *who) {
    speaker = who;
    level_now = level_now < LOG_WARNING ? level_now : LOG_WARNING;
}

int log_enabled(enum log_level level) {
    return (int)level <= level_now;
}

const char *log_priority(enum log_level level) {
    static const char *const PRIORITIES[] = {"<3>", "<4>", "<6>", "<7>"};
    return journal ? PRIORITIES[level] : "";
}

void log_line(enum log_level level, const char *format, ...) {
    if (!log_enabled(level)) {
        return;
    }
    char buffer[1024];
    struct text line = text_over(buffer, sizeof buffer - 1);
    text_add(&line, "%s%s", log_priority(level), speaker);
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(buffer + line.length, line.capacity - line.length, format, arguments);
    va_end(arguments);
    size_t room = line.capacity - line.length - 1;
    line.length += wanted < 0 ? 0 : (size_t)wanted > room ? room : (size_t)wanted;
    buffer[line.length++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, buffer, line.length);
    (void)ignored;
}
