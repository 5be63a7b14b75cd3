/* cli: the command line. Each command is one file: a row that declares its options, and a function
 * that does the work and reports the result. main finds the row by the command's name, and
 * command_run reads the arguments as the row declares them, calls the function, prints its fault
 * and returns the exit code. start_ranks.h makes a command one rank of a site. These files contain
 * little code other than printing: long reports are in runtime/cli/reports, measurements in
 * runtime/diagnose. Only main and tests call it.
 *
 * public   start_ranks.h */
#ifndef SKEP_CLI_CLI_H
#define SKEP_CLI_CLI_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/cli/start_ranks.h"

#include <stdbool.h>

enum {
    POSITIONALS_MAX = 2,     /* maximum number of arguments that are not options */
    OVERRIDES_MAX = 256,     /* maximum number of key=value arguments of a command */
    OVERRIDES_ADDED_MAX = 4, /* maximum number of key=value overrides that a command adds */
    OPTIONS_MAX = 24,        /* maximum number of options of a command */
    /* maximum number of times that an option can be given, if it may be repeated */
    OPTION_VALUES_MAX = 16,
};

/* How the value of an option is read, and the type of its field in the command's request. */
enum option_kind {
    OPTION_FLAG,    /* bool; the option has no value */
    OPTION_TEXT,    /* const char *; NULL when not given */
    OPTION_TEXTS,   /* struct option_texts: the option may be repeated */
    OPTION_INTEGER, /* int64_t */
    OPTION_NUMBER,  /* double */
    OPTION_BYTES,   /* uint64_t: a size such as 512MiB, above 0; 0 when not given */
    OPTION_RUN_KEY, /* overrides the run key of the same name, and sets no field */
};

/* The values of an option that may be repeated, in the order of the arguments. */
struct option_texts {
    const char *texts[OPTION_VALUES_MAX];
    int count;
};

/* One option of a command. The help, the man page, the completions and docs/COMMANDS.md are made
 * from the rows of options (command_table.h). */
struct option {
    const char *name; /* "--steps" */
    enum option_kind kind;
    size_t field_offset; /* offset in the struct request of the field that the option sets */
    /* for integers and numbers: the value if the option is not given, and the limits (maximum 0: no
     * limit) */
    double default_value, minimum, maximum;
    /* Name of the value, NULL for a flag. The name selects what the shells complete: files for FILE
     * and names with a suffix such as OUT.csv, folders for DIR, profiles for TARGET, and the words
     * for "f32|bf16". */
    const char *value_name;
    /* the option's effect and default, in one line without a period at the end */
    const char *help;
    const char *example; /* complete arguments of the command that include this option */
};

/* OPTION: the first fields of a row. {OPTION("--steps", INTEGER, steps), .minimum = 1,
 * .value_name = "N", .help = "number of steps", .example = "run.yaml --steps 2"} sets the field
 * `steps` of the file's struct request. */
#define OPTION(option_name, option_kind, field)                                                    \
    .name = (option_name), .kind = OPTION_##option_kind,                                           \
    .field_offset = offsetof(struct request, field)

/* One execution of a command. */
struct invocation {
    int argc;      /* number of elements of `argv` */
    char **argv;   /* the command's name, then its arguments */
    void *request; /* the command's struct request, filled from its options */
    const char *positionals[POSITIONALS_MAX]; /* arguments that are not options */
    int positional_count;
    const char **inputs; /* [input_count] input files, if the command takes inputs; else NULL */
    int input_count;
    const char *overrides[OVERRIDES_MAX + OVERRIDES_ADDED_MAX]; /* key=value arguments */
    int override_count;
    struct region region; /* memory that is released at the end of the command */
    /* session of the command: zeroed before the command, finished after it */
    struct session *session;
    struct ranks ranks; /* this process's rank and the number of ranks, set by ranks_begin */
    struct fault fault;
};

struct command {
    const char *name;
    const char *arguments; /* synopsis of the arguments that are not options; "" for none */
    const char *actions;   /* values of the first argument, as "list|verify"; NULL: any value */
    const char *summary;   /* the command's effect in one line, for help */
    const char *details;   /* what the arguments are and what the command does, in sentences */
    const char *example;   /* arguments in a typical use of the command */
    const struct option *options; /* [option_count] */
    int option_count;
    size_t request_bytes; /* size of the command's struct request */
    /* numbers of required and of optional arguments besides options */
    int positional_count, optional_count;
    bool takes_overrides; /* whether the command accepts key=value arguments */
    /* whether the command accepts any number of files in place of other arguments */
    bool takes_inputs;
    bool runs_long; /* the command's log lines begin with the time */
    /* Executes the command. After an error, invocation->fault describes it. */
    enum status (*run)(struct invocation *invocation);
    void (*finish)(
        void *request); /* releases the resources of run(), also after an error; may be NULL */
};

/* REQUEST_OPTIONS: sets the fields of a command's row that describe the OPTIONS and the struct
 * request of its file. */
#define REQUEST_OPTIONS                                                                            \
    .options = OPTIONS, .option_count = ARRAY_COUNT(OPTIONS),                                      \
    .request_bytes = sizeof(struct request)

/* command_read_arguments: reads invocation->argv as the rows of `command` declare, and sets the
 * request, positionals and overrides of the invocation.
 * errors  STATUS_USAGE, with a remedy */
MUST_CHECK enum status command_read_arguments(const struct command *command,
                                              struct invocation *invocation);

extern const struct command COMMAND_COMM, COMMAND_DATA, COMMAND_DOCTOR, COMMAND_DUMP, COMMAND_EVAL,
    COMMAND_GENERATE, COMMAND_INSPECT, COMMAND_JOIN, COMMAND_KEYS, COMMAND_LEDGER, COMMAND_MESH,
    COMMAND_PACK, COMMAND_PLAN, COMMAND_PROBE, COMMAND_ROSTER, COMMAND_SNAPSHOT, COMMAND_STATUS,
    COMMAND_TRACK, COMMAND_TRAIN, COMMAND_VERSION;

/* command_run: reads the arguments, runs the command and prints its fault.
 * argv    argv[0] is the command's name
 * result  the exit code (docs/PIPELINE.md, Errors) */
int command_run(const struct command *command, int argc, char **argv);

/* command_report_output: print that standard output could not be written, and return the exit code.
 * error  errno of the write, or 0 if it is not known */
int command_report_output(int error);

/* command_skip_argument: returns the index of the argument after argv[index]. If argv[index] is an
 * option of `command` with a value, skips the value too. `command` may be NULL: then no option has
 * a value. */
int command_skip_argument(const struct command *command, char *const *argv, int index);

/* command_find_options_end: returns the index of "--", after which no argument is an option, or
 * argc if there is none. */
int command_find_options_end(const struct command *command, int argc, char *const *argv);

/* invocation_add_override: adds "KEY=VALUE" to the overrides of the invocation.
 * memory  the text is in invocation->region
 * limits  at most OVERRIDES_ADDED_MAX calls */
void invocation_add_override(struct invocation *invocation, const char *key, const char *value);

/* invocation_read_session: reads the run file, model, manifest or join string that the first
 * positional argument specifies, applies the overrides, and fills in *session.
 * errors  those of member_session_or_run_read */
MUST_CHECK enum status invocation_read_session(struct invocation *invocation,
                                               struct session *session);

#endif
