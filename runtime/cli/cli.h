/* cli: the command line. Each command is one file: a row that declares its options, and a function
 * that does the work and reports the result. main finds the row by the command's name, and
 * command_run reads the arguments as the row declares them, calls the function, prints its fault
 * and returns the exit code. start_ranks.h makes a command one rank of a site. The room prints and
 * computes little: long reports are in runtime/cli/reports, measurements in runtime/diagnose. Only
 * main and tests call it.
 *
 * public   start_ranks.h */
#ifndef SKEP_CLI_CLI_H
#define SKEP_CLI_CLI_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/cli/start_ranks.h"

#include <stdbool.h>

enum {
    POSITIONALS_MAX = 2,
    OVERRIDES_MAX = 256,     /* key=value arguments that a command accepts */
    OVERRIDES_ADDED_MAX = 4, /* that a command adds itself */
    OPTIONS_MAX = 8,
};

/* How the value of an option is read, and the type of its field in the command's request. */
enum option_kind {
    OPTION_FLAG,    /* bool; the option has no value */
    OPTION_TEXT,    /* const char *; NULL when not given */
    OPTION_INTEGER, /* int64_t */
    OPTION_NUMBER,  /* double */
    OPTION_BYTES,   /* uint64_t: an amount like 512MiB, above 0; 0 when not given */
    OPTION_RUN_KEY, /* no field: overrides the run key of the same name */
};

struct option {
    const char *name; /* "--steps" */
    enum option_kind kind;
    size_t offset; /* of the field in the request */
    /* Of integers and numbers: the value when the option is not given, and its limits. */
    double initial, minimum, maximum; /* maximum 0: none */
};

/* OPTION: the first fields of a row. {OPTION("--steps", INTEGER, steps), .minimum = 1} sets the
 * field `steps` of the file's struct request. */
#define OPTION(option_name, option_kind, field)                                                    \
    .name = (option_name), .kind = OPTION_##option_kind, .offset = offsetof(struct request, field)

/* One execution of a command. */
struct invocation {
    int argc; /* the command's name, then its arguments */
    char **argv;
    void *request; /* the command's own struct: zeroed, then filled from its options */
    const char *positionals[POSITIONALS_MAX];
    int positional_count;
    const char *overrides[OVERRIDES_MAX + OVERRIDES_ADDED_MAX];
    int override_count;
    struct region region;    /* released at the end */
    struct session *session; /* zeroed; finished at the end */
    struct ranks ranks;      /* of a command that called ranks_begin */
    struct fault fault;
};

struct command {
    const char *name;
    const char *usage; /* its arguments */
    const char *summary;
    const struct option *options;
    int option_count;
    size_t request_bytes;
    int positional_count, optional_count; /* required positionals, and further ones */
    bool takes_overrides;                 /* key=value arguments after the positionals */
    /* Does the work. A returned fault is in invocation->fault. */
    enum status (*run)(struct invocation *invocation);
    void (*finish)(void *request); /* releases what run() took, after any outcome; may be NULL */
};

/* REQUEST_OPTIONS: the fields of a command's row that describe its file's OPTIONS and struct
 * request. */
#define REQUEST_OPTIONS                                                                            \
    .options = OPTIONS, .option_count = ARRAY_COUNT(OPTIONS),                                      \
    .request_bytes = sizeof(struct request)

extern const struct command COMMAND_COMM, COMMAND_DUMP, COMMAND_EVAL, COMMAND_GENERATE,
    COMMAND_INSPECT, COMMAND_JOIN, COMMAND_KEYS, COMMAND_LEDGER, COMMAND_MESH, COMMAND_PACK,
    COMMAND_PLAN, COMMAND_PROBE, COMMAND_ROSTER, COMMAND_SNAPSHOT, COMMAND_STATUS, COMMAND_TRACK,
    COMMAND_TRAIN;

/* command_run: read the arguments, run the command, print its fault.
 * argv    argv[0] is the command's name
 * result  the exit code (cli.md, Habits) */
int command_run(const struct command *command, int argc, char **argv);

/* command_skip_argument: the index after argv[index], and after its value if that is an option of
 * `command` that takes one. `command` may be NULL: then no option takes a value. */
int command_skip_argument(const struct command *command, char *const *argv, int index);

/* command_options_end: the index of "--", after which no argument is an option; argc without it. */
int command_options_end(const struct command *command, int argc, char *const *argv);

/* invocation_override: add "KEY=VALUE" to the overrides.
 * memory  in invocation->region
 * limits  at most OVERRIDES_ADDED_MAX calls */
void invocation_override(struct invocation *invocation, const char *key, const char *value);

/* invocation_read_session: read the run file, model, manifest or join string that the first
 * positional names, with the overrides, into *session.
 * errors  those of member_session_or_run_read */
MUST_CHECK enum status invocation_read_session(struct invocation *invocation,
                                               struct session *session);

#endif
