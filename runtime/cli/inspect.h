/* inspect: `skep inspect MODEL [--shards N] [--json]`: what a model is made of, without its
 * data. */
#ifndef SKEP_CLI_INSPECT_H
#define SKEP_CLI_INSPECT_H

/* command_inspect: prints parameters, units, operations and bytes per token, and tensors of a model
 * folder, a config.json or a name in the Hub cache.
 * argv[0]  "inspect"
 * returns  the process's exit code; faults are printed on standard error */
int command_inspect(int argc, char **argv);

#endif
