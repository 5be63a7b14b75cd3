/* arguments: a command's flags, positionals and key=value overrides. */
#ifndef SKEP_CLI_ARGUMENTS_H
#define SKEP_CLI_ARGUMENTS_H

#include "base/fault.h"

#include <stdbool.h>

enum { POSITIONALS_MAX = 8, OVERRIDES_MAX = 256 };

/* arguments_skip: the argument behind argv[index], and behind its value if it is a flag that takes
 * one. For those who look through a command's arguments before the command does. */
int arguments_skip(char *const *argv, int index);

/* arguments_flags_end: where "--" stands, behind which nothing is a flag; `argc` without it. */
int arguments_flags_end(int argc, char *const *argv);

/* One flag. Exactly one of `value` (takes the next argument) and `present` is set. A name means the
 * same in all commands: arguments.c lists those that take values. */
struct flag {
    const char *name; /* "--steps" */
    const char **value;
    bool *present;
};

struct arguments {
    const char *positionals[POSITIONALS_MAX];
    int positional_count;
    const char *overrides[OVERRIDES_MAX]; /* arguments with '=' behind the first positional */
    int override_count;
};

/* arguments_read: sort argv[1 ..] (argv[0] is the command's name). Behind "--" nothing is a flag.
 * wanted  how many positionals there must be
 * errors  STATUS_USAGE naming the argument and, for an unknown flag, the nearest known one */
MUST_CHECK enum status arguments_read(int argc, char **argv, const struct flag *flags,
                                      int flag_count, int wanted, struct arguments *arguments,
                                      struct fault *fault);

/* arguments_only: refuse key=value overrides, for commands without a run.
 * errors  STATUS_USAGE naming the first */
MUST_CHECK enum status arguments_only(const struct arguments *arguments, const char *command,
                                      struct fault *fault);

/* argument_i64: a flag's value as a whole number of at least `minimum`; NULL leaves *out. */
MUST_CHECK enum status argument_i64(const char *flag, const char *value, int64_t minimum,
                                    int64_t *out, struct fault *fault);
MUST_CHECK enum status argument_f64(const char *flag, const char *value, double minimum,
                                    double *out, struct fault *fault);
/* argument_bytes: the same as an amount like 512MiB, above 0. */
MUST_CHECK enum status argument_bytes(const char *flag, const char *value, uint64_t *out,
                                      struct fault *fault);

#endif
