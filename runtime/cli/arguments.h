/* arguments: a command's flags, positionals and key=value overrides. */
#ifndef SKEP_CLI_ARGUMENTS_H
#define SKEP_CLI_ARGUMENTS_H

#include "base/fault.h"

#include <stdbool.h>

enum { POSITIONALS_MAX = 8, OVERRIDES_MAX = 256 };

/* One flag. Exactly one of `value` (takes the next argument) and `present` is set. */
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

/* arguments_read: sort argv[1 ..] (argv[0] is the command's name).
 * wanted  how many positionals there must be
 * errors  STATUS_USAGE naming the argument and, for an unknown flag, the nearest known one */
MUST_CHECK enum status arguments_read(int argc, char **argv, const struct flag *flags,
                                      int flag_count, int wanted, struct arguments *arguments,
                                      struct fault *fault);

/* argument_i64: a flag's value as a whole number of at least `minimum`; NULL leaves *out. */
MUST_CHECK enum status argument_i64(const char *flag, const char *value, int64_t minimum,
                                    int64_t *out, struct fault *fault);
MUST_CHECK enum status argument_f64(const char *flag, const char *value, double minimum,
                                    double *out, struct fault *fault);

#endif
