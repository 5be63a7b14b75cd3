/* main: finds the command and hands over. */
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
     "parameters, units, FLOPs and bytes per token, tensors"},
    {"plan", command_plan,
     "plan RUN-or-MODEL-or-SWARM [--target T] [--ranks N] [--json] [--program] [--svg FILE] "
     "[key=value...]",
     "lay out every byte; exit 0 fits, 3 does not"},
    {"mesh", command_mesh,
     "mesh NAME=SIZE,... [--table RANK,...] [--per-node K] [--bytes NAME=B,...] [--json]",
     "where each rank of a site sits, its groups, and how to place them on nodes"},
    {"comm", command_comm, "comm [--ranks N] [--test] [--bandwidth] [--bytes SIZE,...] [--json]",
     "try out the transport between ranks: right, and how fast"},
    {"pack", command_pack, "pack PROBLEM.csv [--capacity BYTES] [--seconds S] [-o OUT.csv]",
     "the planner on a bare packing problem"},
    {"train", command_train, "train RUN.yaml [--ranks N] [--fresh] [key=value...]",
     "train; goes on from the newest good snapshot"},
    {"eval", command_eval, "eval RUN-or-MODEL --data FILE [--json] [key=value...]",
     "loss and perplexity"},
    {"generate", command_generate,
     "generate MODEL --prompt TEXT [--tokens N] [--temperature X] [--seed S] [--ids]",
     "sample a continuation"},
    {"dump", command_dump,
     "dump MODEL BATCH.safetensors -o OUT.safetensors [--gradients] [--steps N] [--ranks N] "
     "[key=value...]",
     "logits, losses, gradients and weights, for comparing"},
    {"join", command_join,
     "join SWARM [--check] [--target T] [--ranks N] [--identity FILE] [--listen ADDR] "
     "[--public ADDR] [--name NAME] [key=value...]",
     "train as a member of a swarm: NAME.skep or tcp://HOST:PORT#KEY"},
    {"snapshot", command_snapshot,
     "snapshot list, verify, inspect, export FOLDER [-o OUT] [--dtype T] [--json]",
     "look into snapshots; write one as a model folder"},
    {"keys", command_keys, "keys [--identity FILE] [--json]",
     "this machine's identity in swarms; made if there is none"},
    {"track", command_track,
     "track RUN.yaml [--listen ADDR] [--public ADDR] [--state DIR] [--roster FILE] "
     "[--identity FILE] [--ledger FILE] [--json] [key=value...]",
     "the tracker of a swarm: prints the join string, and serves it until it is stopped"},
    {"roster", command_roster,
     "roster add KEY [--name NAME], remove KEY-or-NAME, list  --roster FILE [--json]",
     "whose processes a tracker lets in; a running one sees the change"},
    {"status", command_status, "status SWARM [--identity FILE] [--json]",
     "what a swarm is doing now, as its tracker says"},
    {"ledger", command_ledger,
     "ledger FILE-or-SWARM [--verify] [--tracker KEY] [--export OUT.jsonl] [--identity FILE] "
     "[--json]",
     "a swarm's ledger: what it records, and whether it holds together"},
    {"probe", command_probe, "probe [--target T] [--ranks N] [--write FILE] [--json]",
     "a profile against this machine"},
};

static void print(const char *text) {
    fputs(text, stdout);
}

static int help_all(void) {
    print("skep trains Hugging Face models inside one planned block of memory.\n\n");
    for (size_t i = 0; i < ARRAY_COUNT(COMMANDS); i++) {
        printf("  %-9s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    }
    print("\n`skep help COMMAND` for one of them, `skep help keys` for the settings of run.yaml.\n"
          "-q and -v say less and more than usual; behind -- nothing is a flag.\n");
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

/* The keys of run.yaml are asked for far more often than the command of that name, whose own
 * --help is about itself. */
static int help(const char *name) {
    if (strcmp(name, "keys") == 0) {
        return help_keys();
    }
    const struct command_row *row = find(name);
    return row != NULL ? help_command(row) : unknown(name);
}

/* -q and -v may stand anywhere but as a flag's value and behind "--"; they are taken out before the
 * command sees its arguments. */
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

/* A report that a full disk cut short is a failure, whichever command made it. */
static int check_output(int code) {
    struct fault fault;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != 0) {
        return code;
    }
    fault_set(&fault, STATUS_FAILED, "standard output", NULL, "cannot be written");
    fault_print(&fault, STDERR_FILENO);
    return 1;
}

/* Where a standard stream is closed the next file or socket would take its number, and what is
 * printed would go into it. Opened for reading, a report that goes nowhere is still noticed. */
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
