/* fault: the description of an error that the outside world caused (input, files, libraries,
 * peers), with enough text for a person to fix it. */
#ifndef SKEP_BASE_FAULT_H
#define SKEP_BASE_FAULT_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

/* The outcome of a call that can fail for a cause outside the program. */
enum status {
    OK = 0,
    STATUS_USAGE,   /* invalid command line: exit code 2 */
    STATUS_INPUT,   /* invalid file, setting, message or environment: exit code 2 */
    STATUS_FIT,     /* not enough memory or disk space: exit code 3 */
    STATUS_FAILED,  /* failed while running (I/O error, library error): exit code 1 */
    STATUS_LOST,    /* a rank was lost: exit code 4 */
    STATUS_STOPPED, /* stopped by request: exit code 0 */
};

/* TRY: returns the status of `call` from the calling function unless it is OK. Only for functions
 * that have nothing to release at that point. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_status = (call);                                                           \
        if (try_status != OK) {                                                                    \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)

/* A fault prints as "skep: subject: reason; remedy". Sizes include the final NUL; longer text
 * is truncated. A call fills its fault only when it returns a status other than OK. */
struct fault {
    enum status status;
    char subject[320]; /* file, file:line:column, key, target or tensor */
    char reason[640];  /* what was found and what was expected */
    char remedy[320];  /* what the user can do; may be empty */
};

/* fault_set: fill *fault and return `status`, so that a caller can return it in one statement.
 * `remedy` may be NULL. */
enum status fault_set(struct fault *fault, enum status status, const char *subject,
                      const char *remedy, const char *reason_format, ...) PRINTF_LIKE(5, 6);

/* fault_set_errno: like fault_set; the reason is `action` ("cannot open") and
 * strerror(errno_value). */
enum status fault_set_errno(struct fault *fault, enum status status, const char *subject,
                            const char *action, int errno_value);

/* fault_exit_code: the exit code of a process that ends with `status`. */
int fault_exit_code(enum status status);

/* fault_print: write "skep: subject: reason; remedy\n" to file descriptor `fd`. Under systemd's
 * journal (JOURNAL_STREAM is set) the text starts with "<3>", the priority of an error. */
void fault_print(const struct fault *fault, int fd);

#endif
