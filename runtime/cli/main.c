/* main: runs the command that the first argument specifies, and prints help. */
#include "base/log.h"
#include "base/text.h"
#include "build_config.h"
#include "runtime/cli/cli.h"
#include "runtime/settings/settings.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command *const COMMANDS[] = {
    &COMMAND_INSPECT,  &COMMAND_PLAN,  &COMMAND_MESH,     &COMMAND_COMM,   &COMMAND_PACK,
    &COMMAND_TRAIN,    &COMMAND_EVAL,  &COMMAND_GENERATE, &COMMAND_DUMP,   &COMMAND_JOIN,
    &COMMAND_SNAPSHOT, &COMMAND_KEYS,  &COMMAND_TRACK,    &COMMAND_ROSTER, &COMMAND_STATUS,
    &COMMAND_LEDGER,   &COMMAND_PROBE,
};

static void print_text(const char *text) {
    fputs(text, stdout);
}

static int print_general_help(void) {
    print_text("skep trains Hugging Face models inside one planned block of memory.\n\n");
    for (size_t i = 0; i < ARRAY_COUNT(COMMANDS); i++) {
        printf("  %-9s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    }
    print_text("\n`skep help COMMAND` explains one command, `skep help keys` lists the settings of "
               "run.yaml.\n"
               "-q prints less and -v prints more; arguments after -- are not options.\n");
    return 0;
}

static int print_keys_help(void) {
    static char buffer[32 * 1024];
    struct text text = text_over(buffer, sizeof buffer);
    settings_print_keys(&text);
    print_text(buffer);
    return 0;
}

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(COMMANDS); i++) {
        if (strcmp(COMMANDS[i]->name, name) == 0) {
            return COMMANDS[i];
        }
    }
    return NULL;
}

static int report_unknown_command(const char *name) {
    const char *names[ARRAY_COUNT(COMMANDS)];
    char remedy[64];
    struct fault fault;
    for (size_t i = 0; i < ARRAY_COUNT(COMMANDS); i++) {
        names[i] = COMMANDS[i]->name;
    }
    int nearest = text_find_nearest(name, names, ARRAY_COUNT(names));
    snprintf(remedy, sizeof remedy, nearest >= 0 ? "did you mean %s?" : "`skep help`%s",
             nearest >= 0 ? names[nearest] : " lists them");
    fault_set(&fault, STATUS_USAGE, "command line", remedy, "no command \"%s\"", name);
    fault_print(&fault, STDERR_FILENO);
    return 2;
}

static int print_command_help(const struct command *command) {
    printf("skep %s %s\n\n%s\n", command->name, command->usage, command->summary);
    return 0;
}

/* Prints help for a command. `skep help keys` lists the keys of run.yaml instead, which is needed
 * more often. `skep keys --help` explains the command `keys`. */
static int print_help(const char *name) {
    if (strcmp(name, "keys") == 0) {
        return print_keys_help();
    }
    const struct command *command = find_command(name);
    return command != NULL ? print_command_help(command) : report_unknown_command(name);
}

static bool is_verbosity_option(const char *word) {
    return strcmp(word, "-q") == 0 || strcmp(word, "-v") == 0;
}

/* Returns the command whose name is the first argument that is not -q or -v, or NULL. */
static const struct command *find_named_command(int argc, char **argv) {
    int i = 1;
    while (i < argc && is_verbosity_option(argv[i])) {
        i++;
    }
    return i < argc ? find_command(argv[i]) : NULL;
}

/* Removes -q and -v from argv, except after "--" and where they are the value of an option, so that
 * commands need not accept them. Returns the new argc. */
static int remove_verbosity(int argc, char **argv, int *verbosity) {
    const struct command *command = find_named_command(argc, argv);
    const int end = command_options_end(command, argc, argv);
    int kept = 1;
    int next;
    *verbosity = 0;
    for (int i = 1; i < end; i = next) {
        next = command_skip_argument(command, argv, i);
        if (is_verbosity_option(argv[i])) {
            *verbosity = argv[i][1] == 'v' ? 1 : -1;
        } else {
            memmove(&argv[kept], &argv[i], (size_t)(next - i) * sizeof *argv);
            kept += next - i;
        }
    }
    memmove(&argv[kept], &argv[end], (size_t)(argc - end + 1) * sizeof *argv);
    return kept + argc - end;
}

static bool is_help_option(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2 || is_help_option(argv[1])) {
        return argc < 2 ? (print_general_help(), 2) : print_general_help();
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_text("skep " SKEP_VERSION "\n");
        return 0;
    }
    if (strcmp(argv[1], "help") == 0) {
        return argc < 3 ? print_general_help() : print_help(argv[2]);
    }
    const struct command *command = find_command(argv[1]);
    if (command == NULL) {
        return report_unknown_command(argv[1]);
    }
    const int end = command_options_end(command, argc, argv);
    for (int i = 2; i < end; i = command_skip_argument(command, argv, i)) {
        if (is_help_option(argv[i])) {
            return print_command_help(command);
        }
    }
    return command_run(command, argc - 1, argv + 1);
}

/* Returns a failure if standard output could not be written, for example to a full disk: the report
 * would be truncated. */
static int check_output(int code) {
    struct fault fault;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != 0) {
        return code;
    }
    fault_set(&fault, STATUS_FAILED, "standard output", NULL, "cannot be written");
    fault_print(&fault, STDERR_FILENO);
    return 1;
}

/* Opens /dev/null for each closed standard stream. Otherwise the next file or socket would get its
 * number, and printed text would be written to it. /dev/null is opened for reading only, so that
 * printing still fails. */
static void reserve_standard_streams(void) {
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
    reserve_standard_streams();
    argc = remove_verbosity(argc, argv, &verbosity);
    log_init(verbosity);
    return check_output(dispatch(argc, argv));
}
