/* unknown_option: the message about an option that a command does not have. */
#ifndef SKEP_CLI_UNKNOWN_OPTION_H
#define SKEP_CLI_UNKNOWN_OPTION_H

#include "runtime/cli/cli.h"

/* unknown_option_fault: fill invocation->fault for the option in argv[index]. The remedy is the
 * option or the setting that was probably meant. Returns STATUS_USAGE. */
enum status unknown_option_fault(const struct command *command, struct invocation *invocation,
                                 int index);

#endif
