/* fault: what went wrong in the outside world, with enough in it for a person to act on. */
#ifndef SKEP_BASE_FAULT_H
#define SKEP_BASE_FAULT_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

/* The outcome of a call that meets the outside world. fault_exit_code maps it to cli.md's codes. */
enum status {
    OK = 0,
    STATUS_USAGE,   /* bad command line: exit 2 */
    STATUS_INPUT,   /* bad file, config, wire or environment: exit 2, nothing changed */
    STATUS_FIT,     /* memory or disk does not suffice: exit 3 */
    STATUS_FAILED,  /* failed while running (I/O error, library error): exit 1 */
    STATUS_LOST,    /* a rank was lost: exit 4 */
    STATUS_STOPPED, /* asked to stop, and did: exit 0 */
};

/* TRY: return the status of `call` from this function unless it is OK. Only where nothing taken so
 * far must be released. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_status = (call);                                                           \
        if (try_status != OK) {                                                                    \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)

/* A fault prints as "skep: subject: reason; remedy". Lengths include the final NUL; longer text is
 * cut. Filled only when a call returns something other than OK. */
struct fault {
    enum status status;
    char subject[320]; /* file, file:line:column, key, target or tensor */
    char reason[640];  /* what was found and what was wanted */
    char remedy[320];  /* what to do; may be empty */
};

/* fault_set: fill *fault and give `status` back, so that a caller can return it in one line.
 * `remedy` may be NULL. errors: none; text that is too long is cut. */
enum status fault_set(struct fault *fault, enum status status, const char *subject,
                      const char *remedy, const char *reason_format, ...) PRINTF_LIKE(5, 6);

/* fault_set_errno: the same with strerror(errno_value) behind `action` ("cannot open"). */
enum status fault_set_errno(struct fault *fault, enum status status, const char *subject,
                            const char *action, int errno_value);

/* fault_exit_code: the process's exit code for a status (cli.md, Habits). */
int fault_exit_code(enum status status);

/* fault_print: write "skep: subject: reason; remedy\n" to file descriptor `fd`. Under systemd's
 * journal (JOURNAL_STREAM is set) the priority of an error, "<3>", comes first. */
void fault_print(const struct fault *fault, int fd);

#endif
