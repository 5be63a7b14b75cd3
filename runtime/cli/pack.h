/* pack: `skep pack PROBLEM.csv [--capacity BYTES] [--seconds S] [-o OUT.csv]`: the planner on a
 * bare packing problem. */
#ifndef SKEP_CLI_PACK_H
#define SKEP_CLI_PACK_H

/* command_pack: prints peak, lower bound, gap and seconds, and writes the offsets if asked to.
 * argv[0]  "pack"
 * returns  the process's exit code; 3 when --capacity is not met, and nothing is then written */
int command_pack(int argc, char **argv);

#endif
