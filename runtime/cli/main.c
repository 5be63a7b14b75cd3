/* main: finds the command of that name and runs it. */
#include "base/log.h"
#include "base/text.h"
#include "build_config.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/settings/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct command_row {
    const char *name;
    command *run;
    const char *usage;
    const char *summary;
};

static const struct command_row COMMANDS[] = {
    {"inspect", command_inspect, "inspect MODEL [--shards N] [--json]",
     "print the parameters, units, FLOPs and bytes per token, and tensors of a model"},
    {"plan", command_plan,
     "plan RUN-or-MODEL-or-SWARM [--target T] [--ranks N] [--json] [--program] [--svg FILE] "
     "[key=value...]",
     "place every buffer of a run in memory; exit code 0 if it fits, 3 if not"},
    {"mesh", command_mesh,
     "mesh NAME=SIZE,... [--table RANK,...] [--per-node K] [--bytes NAME=B,...] [--json]",
     "print the coordinates and groups of each rank, and their placement on nodes"},
    {"comm", command_comm, "comm [--ranks N] [--test] [--bandwidth] [--bytes SIZE,...] [--json]",
     "test the collectives between ranks and measure their speed"},
    {"pack", command_pack, "pack PROBLEM.csv [--capacity BYTES] [--seconds S] [-o OUT.csv]",
     "run the planner on a packing problem given as CSV"},
    {"train", command_train, "train RUN.yaml [--ranks N] [--fresh] [key=value...]",
     "train a model, resuming from the newest good snapshot"},
    {"eval", command_eval, "eval RUN-or-MODEL --data FILE [--json] [key=value...]",
     "compute loss and perplexity on a token file"},
    {"generate", command_generate,
     "generate MODEL --prompt TEXT [--tokens N] [--temperature X] [--seed S] [--ids]",
     "sample a continuation of a prompt"},
    {"dump", command_dump,
     "dump MODEL BATCH.safetensors -o OUT.safetensors [--gradients] [--steps N] [--ranks N] "
     "[key=value...]",
     "write logits, losses, gradients and weights, for comparison with other programs"},
    {"join", command_join,
     "join SWARM [--check] [--target T] [--ranks N] [--identity FILE] [--listen ADDR] "
     "[--public ADDR] [--name NAME] [key=value...]",
     "train as a member of a swarm, given as NAME.skep or tcp://HOST:PORT#KEY"},
    {"snapshot", command_snapshot,
     "snapshot list, verify, inspect, export FOLDER [-o OUT] [--dtype T] [--json]",
     "list, verify or print snapshots; export one as a model folder"},
    {"keys", command_keys, "keys [--identity FILE] [--json]",
     "print the public key of this machine; creates an identity if there is none"},
    {"track", command_track,
     "track RUN.yaml [--listen ADDR] [--public ADDR] [--state DIR] [--roster FILE] "
     "[--identity FILE] [--ledger FILE] [--json] [key=value...]",
     "run the tracker of a swarm until it is stopped; prints the join string"},
    {"roster", command_roster,
     "roster add KEY [--name NAME], remove KEY-or-NAME, list  --roster FILE [--json]",
     "edit the allow-list of a tracker; a running tracker applies the change"},
    {"status", command_status, "status SWARM [--identity FILE] [--json]",
     "print the current state of a swarm, as its tracker reports it"},
    {"ledger", command_ledger,
     "ledger FILE-or-SWARM [--verify] [--tracker KEY] [--export OUT.jsonl] [--identity FILE] "
     "[--json]",
     "print, verify or export the ledger of a swarm"},
    {"probe", command_probe, "probe [--target T] [--ranks N] [--write FILE] [--json]",
     "measure this machine and compare it with a profile"},
};

static void print(const char *text) {
    fputs(text, stdout);
}

static int help_all(void) {
    print("skep trains Hugging Face models inside one planned block of memory.\n\n");
    for (size_t i = 0; i < ARRAY_COUNT(COMMANDS); i++) {
        printf("  %-9s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    }
    print("\n`skep help COMMAND` explains one command, `skep help keys` lists the settings of "
          "run.yaml.\n"
          "-q prints less and -v prints more; arguments after -- are not flags.\n");
    return 0;
}

static int help_keys(void) {
    static char buffer[32 * 1024];
    struct text text = text_over(buffer, sizeof buffer);
    settings_print_keys(&text);
    print(buffer);
    return 0;
}

static const struct command_row *find(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(COMMANDS); i++) {
        if (strcmp(COMMANDS[i].name, name) == 0) {
            return &COMMANDS[i];
        }
    }
    return NULL;
}

static int unknown(const char *name) {
    const char *names[ARRAY_COUNT(COMMANDS)];
    char remedy[64];
    struct fault fault;
    for (size_t i = 0; i < ARRAY_COUNT(COMMANDS); i++) {
        names[i] = COMMANDS[i].name;
    }
    int nearest = text_nearest(name, names, ARRAY_COUNT(names));
    snprintf(remedy, sizeof remedy, nearest >= 0 ? "did you mean %s?" : "`skep help`%s",
             nearest >= 0 ? names[nearest] : " lists them");
    fault_set(&fault, STATUS_USAGE, "command line", remedy, "no command \"%s\"", name);
    fault_print(&fault, STDERR_FILENO);
    return 2;
}

static int help_command(const struct command_row *row) {
    printf("skep %s\n\n%s\n", row->usage, row->summary);
    return 0;
}

/* `skep help keys` lists the keys of run.yaml, which are needed more often than help about the
 * command `keys`. `skep keys --help` explains that command. */
static int help(const char *name) {
    if (strcmp(name, "keys") == 0) {
        return help_keys();
    }
    const struct command_row *row = find(name);
    return row != NULL ? help_command(row) : unknown(name);
}

/* Removes -q and -v, which may be anywhere except after "--" or as a flag's value, so that commands
 * need not know them. */
static int take_verbosity(int argc, char **argv, int *verbosity) {
    const int end = arguments_flags_end(argc, argv);
    int kept = 1;
    int next;
    *verbosity = 0;
    for (int i = 1; i < end; i = next) {
        next = arguments_skip(argv, i);
        if (strcmp(argv[i], "-q") == 0) {
            *verbosity = -1;
        } else if (strcmp(argv[i], "-v") == 0) {
            *verbosity = 1;
        } else {
            memmove(&argv[kept], &argv[i], (size_t)(next - i) * sizeof *argv);
            kept += next - i;
        }
    }
    memmove(&argv[kept], &argv[end], (size_t)(argc - end + 1) * sizeof *argv);
    return kept + argc - end;
}

static int asks_for_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2 || asks_for_help(argv[1])) {
        return argc < 2 ? (help_all(), 2) : help_all();
    }
    if (strcmp(argv[1], "--version") == 0) {
        print("skep " SKEP_VERSION "\n");
        return 0;
    }
    if (strcmp(argv[1], "help") == 0) {
        return argc < 3 ? help_all() : help(argv[2]);
    }
    const struct command_row *row = find(argv[1]);
    if (row == NULL) {
        return unknown(argv[1]);
    }
    for (int i = 2; i < arguments_flags_end(argc, argv); i = arguments_skip(argv, i)) {
        if (asks_for_help(argv[i])) {
            return help_command(row);
        }
    }
    return row->run(argc - 1, argv + 1);
}

/* A report that a full disk truncated is a failure of any command. */
static int check_output(int code) {
    struct fault fault;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != 0) {
        return code;
    }
    fault_set(&fault, STATUS_FAILED, "standard output", NULL, "cannot be written");
    fault_print(&fault, STDERR_FILENO);
    return 1;
}

/* If a standard stream is closed, the next file or socket would get its number, and printed text
 * would go into that. /dev/null is opened for reading, so that printing to it still fails. */
static void keep_standard_numbers(void) {
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDONLY);
    }
    if (fd > STDERR_FILENO) {
        close(fd);
    }
}

int main(int argc, char **argv) {
    int verbosity;
    keep_standard_numbers();
    argc = take_verbosity(argc, argv, &verbosity);
    log_init(verbosity);
    return check_output(dispatch(argc, argv));
}
