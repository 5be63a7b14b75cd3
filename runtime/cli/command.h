/* command: what main knows of each command. */
#ifndef SKEP_CLI_COMMAND_H
#define SKEP_CLI_COMMAND_H

/* A command takes its own arguments, argv[0] being its name, and gives the exit code. */
typedef int command(int argc, char **argv);

command command_inspect, command_plan, command_pack, command_train, command_eval, command_generate,
    command_mesh, command_comm, command_dump, command_join, command_keys, command_ledger,
    command_probe, command_roster, command_snapshot, command_status, command_track;

#endif
