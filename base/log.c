#include "base/log.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int max_level = LOG_INFO;
static bool is_journal, is_terminal, has_times;
static const char *line_prefix = "";
/* a progress line was written last, on a terminal, and has no line break yet */
static atomic_bool progress_is_open;

enum { LINE_BYTES = 1024, DAY_S = 86400 };

/* CLEAR erases the progress line that new text replaces. NO_WRAP disables line wrapping, because
 * CLEAR cannot erase a line that the terminal has wrapped; WRAP enables it again. */
static const char CLEAR[] = "\r\033[K", NO_WRAP[] = "\033[?7l", WRAP[] = "\033[?7h";

void log_init(int verbosity) {
    static const char *const NAMES[] = {"error", "warning", "info", "debug"};
    max_level = verbosity < 0 ? LOG_WARNING : verbosity > 0 ? LOG_DEBUG : LOG_INFO;
    is_journal = getenv("JOURNAL_STREAM") != NULL;
    is_terminal = isatty(STDERR_FILENO) != 0;
    has_times = false;
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

bool log_is_terminal(void) {
    return is_terminal;
}

void log_show_times(bool show) {
    has_times = show && !is_terminal && !is_journal;
}

static const char *priority_prefix(enum log_level level) {
    static const char *const PRIORITIES[] = {"<3>", "<4>", "<6>", "<7>"};
    return is_journal ? PRIORITIES[level] : "";
}

static bool is_leap_year(int64_t year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Adds the time in UTC. The C library's gmtime may allocate, which a sealed process must not. */
static void add_time(struct text *line) {
    static const int MONTH_DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int64_t now = (int64_t)clock_unix_s();
    const long long second = now % DAY_S;
    int64_t day = now / DAY_S;
    int64_t year = 1970;
    int month = 0;
    while (day >= 365 + is_leap_year(year)) {
        day -= 365 + is_leap_year(year);
        year++;
    }
    while (month < 11 && day >= MONTH_DAYS[month] + (month == 1 && is_leap_year(year))) {
        day -= MONTH_DAYS[month] + (month == 1 && is_leap_year(year));
        month++;
    }
    text_add(line, "%04lld-%02d-%02lldT%02lld:%02lld:%02lldZ ", (long long)year, month + 1,
             (long long)day + 1, second / 3600, second / 60 % 60, second % 60);
}

static void add_line_prefix(struct text *line, enum log_level level) {
    text_add(line, "%s%s", atomic_load(&progress_is_open) ? CLEAR : "", priority_prefix(level));
    if (has_times) {
        add_time(line);
    }
    text_add(line, "%s", line_prefix);
}

static void write_line(const struct text *line) {
    ssize_t ignored = write(STDERR_FILENO, line->bytes, line->length);
    (void)ignored;
}

void log_line(enum log_level level, const char *format, ...) {
    if (!log_is_enabled(level)) {
        return;
    }
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer - 1);
    add_line_prefix(&line, level);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(buffer + line.length, line.capacity - line.length, format, arguments);
    va_end(arguments);
    size_t length_max = line.capacity - line.length - 1;
    line.length += length < 0 ? 0 : min_u64((size_t)length, length_max);
    buffer[line.length++] = '\n';
    atomic_store(&progress_is_open, false);
    write_line(&line);
}

static void write_progress(const char *progress) {
    if (!is_terminal) {
        log_line(LOG_INFO, "%s", progress);
        return;
    }
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    text_add(&line, "%s%s%.*s%s", CLEAR, NO_WRAP, LINE_BYTES / 2, progress, WRAP);
    atomic_store(&progress_is_open, true);
    write_line(&line);
}

void log_end_progress(void) {
    if (atomic_exchange(&progress_is_open, false)) {
        ssize_t ignored = write(STDERR_FILENO, "\n", 1);
        (void)ignored;
    }
}

/* ---- progress ---- */

static const int64_t TERMINAL_NS = 100 * NS_PER_MS; /* minimum time between updates on a terminal */
/* minimum time between progress lines outside a terminal */
static const int64_t PLAIN_NS = 10 * NS_PER_SECOND;
/* An activity that takes less is not shown. */
static const double SHOWN_FROM_S = 1;

static struct {
    const char *activity; /* description of the outermost activity; NULL: none */
    uint64_t total, done;
    int64_t begun_ns;
    int depth; /* number of activities that have begun and not ended */
} current;

static int64_t shown_ns; /* time of the last progress line; 0: none yet */

bool activity_line_is_due(void) {
    const int64_t interval_ns = log_is_terminal() ? TERMINAL_NS : PLAIN_NS;
    return log_is_enabled(LOG_INFO) &&
           (shown_ns == 0 || clock_monotonic_ns() - shown_ns >= interval_ns);
}

void activity_line_show(const char *line) {
    shown_ns = clock_monotonic_ns();
    write_progress(line);
}

void activity_add_time(struct text *line, double seconds) {
    long long whole = (long long)(seconds + 0.5);
    if (whole >= 3600) {
        text_add(line, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        text_add(line, "%lld:%02lld", whole / 60, whole % 60);
    }
}

static void show_progress(double elapsed_s) {
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    const double share = current.total == 0 ? 0 : (double)current.done / (double)current.total;
    text_add(&line, "%s", current.activity);
    if (share > 0 && share <= 1) {
        text_add(&line, ": %.0f %%, left ", 100 * share);
        activity_add_time(&line, elapsed_s * (1 - share) / share);
    } else if (elapsed_s >= SHOWN_FROM_S) {
        text_add(&line, " for ");
        activity_add_time(&line, elapsed_s);
    }
    activity_line_show(buffer);
}

void activity_begin(const char *activity, uint64_t total) {
    current.depth++;
    if (current.depth > 1) {
        return;
    }
    current.activity = activity;
    current.total = total;
    current.done = 0;
    current.begun_ns = clock_monotonic_ns();
    if (total == 0 && activity_line_is_due()) {
        show_progress(0);
    }
}

void activity_advance(uint64_t amount) {
    if (current.depth != 1) {
        return;
    }
    current.done += amount;
    const double elapsed_s = ns_to_seconds(clock_monotonic_ns() - current.begun_ns);
    if (elapsed_s >= SHOWN_FROM_S && activity_line_is_due()) {
        show_progress(elapsed_s);
    }
}

void activity_end(bool is_quiet) {
    ASSERT(current.depth > 0);
    current.depth--;
    if (current.depth > 0) {
        return;
    }
    const double elapsed_s = ns_to_seconds(clock_monotonic_ns() - current.begun_ns);
    if (!is_quiet && elapsed_s >= SHOWN_FROM_S) {
        log_line(LOG_INFO, "%s: %.1f s", current.activity, elapsed_s);
    }
    current.activity = NULL;
}
