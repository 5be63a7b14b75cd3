/* capture: a command run in this process, and what it printed. */
#ifndef SKEP_TESTS_UNIT_CLI_CAPTURE_H
#define SKEP_TESTS_UNIT_CLI_CAPTURE_H

#include "runtime/cli/cli.h"

#include <stddef.h>

enum { CAPTURE_WORDS_MAX = 12 };

/* capture: standard output and error of the command together, with a NUL. Gives the exit code.
 * words  its name and arguments, then NULL; at most CAPTURE_WORDS_MAX with it */
int capture(const struct command *command, const char *const *words, char *output, size_t capacity);

#endif
