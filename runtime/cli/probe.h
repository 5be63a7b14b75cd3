/* probe: the command `skep probe`. */
#ifndef SKEP_CLI_PROBE_H
#define SKEP_CLI_PROBE_H

/* command_probe: measure this machine, compare it with a profile, write a profile of it.
 *   skep probe [--target T] [--write FILE] [--json]
 * errors  exit 2 for bad usage or an unreadable profile, 3 when the machine has less than the
 *         profile promises, naming what; 1 when measuring or writing fails */
int command_probe(int argc, char **argv);

#endif
