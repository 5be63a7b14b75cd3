#include "base/fault.h"

#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void check_failed(const char *file, int line, const char *condition) {
    char message[512];
    int length = snprintf(message, sizeof message, "skep: bug: %s:%d: assertion failed: %s\n", file,
                          line, condition);
    if (length > (int)sizeof message - 1) {
        length = (int)sizeof message - 1;
    }
    ssize_t ignored = write(STDERR_FILENO, message, (size_t)length);
    (void)ignored;
    abort();
}

enum status fault_set(struct fault *fault, enum status status, const char *subject,
                      const char *remedy, const char *reason_format, ...) {
    fault->status = status;
    snprintf(fault->subject, sizeof fault->subject, "%s", subject);
    snprintf(fault->remedy, sizeof fault->remedy, "%s", remedy != NULL ? remedy : "");
    va_list arguments;
    va_start(arguments, reason_format);
    vsnprintf(fault->reason, sizeof fault->reason, reason_format, arguments);
    va_end(arguments);
    return status;
}

enum status fault_set_errno(struct fault *fault, enum status status, const char *subject,
                            const char *action, int errno_value) {
    return fault_set(fault, status, subject, NULL, "%s: %s", action, strerror(errno_value));
}

int fault_exit_code(enum status status) {
    switch (status) {
    case OK:
    case STATUS_STOPPED:
        return 0;
    case STATUS_USAGE:
    case STATUS_INPUT:
        return 2;
    case STATUS_FIT:
        return 3;
    case STATUS_LOST:
        return 4;
    case STATUS_FAILED:
        break;
    }
    return 1;
}

void fault_print(const struct fault *fault, int fd) {
    char line[sizeof *fault + 16];
    if (fd == STDERR_FILENO) {
        log_end_progress();
    }
    const char *priority = getenv("JOURNAL_STREAM") != NULL ? "<3>" : ""; /* as in log.c */
    int length = snprintf(line, sizeof line, "%sskep: %s: %s%s%s\n", priority, fault->subject,
                          fault->reason, fault->remedy[0] != '\0' ? "; " : "", fault->remedy);
    ssize_t ignored = write(fd, line, (size_t)length);
    (void)ignored;
}
