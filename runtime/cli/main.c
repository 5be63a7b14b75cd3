/* main: runs the command that the first argument specifies, and prints help. */
#include "base/log.h"
#include "base/text.h"
#include "build_config.h"
#include "runtime/cli/command_table.h"
#include "runtime/settings/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COMMANDS_MAX = 64 }; /* maximum number of commands in the table */

static void print_text(const char *text) {
    fputs(text, stdout);
}

static int print_keys_help(void) {
    static char buffer[32 * 1024];
    struct text text = text_over(buffer, sizeof buffer);
    settings_print_keys(&text);
    print_text(buffer);
    return 0;
}

static int report_unknown_command(const char *name) {
    const char *names[COMMANDS_MAX];
    char remedy[64];
    struct fault fault;
    ASSERT(COMMAND_COUNT <= COMMANDS_MAX);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = COMMANDS[i]->name;
    }
    int nearest = text_find_nearest(name, names, COMMAND_COUNT);
    snprintf(remedy, sizeof remedy, nearest >= 0 ? "did you mean %s?" : "`skep help`%s",
             nearest >= 0 ? names[nearest] : " lists them");
    fault_set(&fault, STATUS_USAGE, "command line", remedy, "no command \"%s\"", name);
    fault_print(&fault, STDERR_FILENO);
    return 2;
}

static int print_completion(const char *shell) {
    struct fault fault;
    if (shell != NULL && command_print_completion(shell)) {
        return 0;
    }
    fault_set(&fault, STATUS_USAGE, "help", "write bash, zsh or fish",
              shell != NULL ? "no completion for \"%s\"" : "the name of a shell is missing", shell);
    fault_print(&fault, STDERR_FILENO);
    return 2;
}

/* Prints the man page of a command, of the run file ("run") or, without a name, of the program. */
static int print_man(const char *name) {
    const struct command *command = name != NULL ? command_find(name) : NULL;
    if (name != NULL && strcmp(name, "run") == 0) {
        keys_print_man();
        return 0;
    }
    if (name != NULL && command == NULL) {
        return report_unknown_command(name);
    }
    command_print_man(command);
    return 0;
}

static int print_general_help(void) {
    command_print_general();
    return 0;
}

static int print_command_help(const struct command *command) {
    command_print_help(command);
    return 0;
}

/* Prints help for a command, or one of the pages that are made from the table of commands. `skep
 * help keys` lists the keys of run.yaml, which is needed more often than the command `keys`, which
 * `skep keys --help` explains. `detail` is NULL if there is no further argument. */
static int print_help(const char *name, const char *detail) {
    if (strcmp(name, "keys") == 0) {
        return print_keys_help();
    }
    if (strcmp(name, "man") == 0) {
        return print_man(detail);
    }
    if (strcmp(name, "completion") == 0) {
        return print_completion(detail);
    }
    if (strcmp(name, "markdown") == 0) {
        command_print_markdown();
        return 0;
    }
    const struct command *command = command_find(name);
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
    return i < argc ? command_find(argv[i]) : NULL;
}

/* Removes -q and -v from argv, except after "--" and where they are the value of an option, so that
 * commands need not accept -q and -v. *verbosity counts them. Returns the new argc. */
static int remove_verbosity(int argc, char **argv, int *verbosity) {
    const struct command *command = find_named_command(argc, argv);
    const int end = command_find_options_end(command, argc, argv);
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

static int run_command_line(int argc, char **argv) {
    if (argc < 2 || is_help_option(argv[1])) {
        return argc < 2 ? (print_general_help(), 2) : print_general_help();
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_text("skep " SKEP_VERSION "\n");
        return 0;
    }
    if (strcmp(argv[1], "help") == 0) {
        return argc < 3 ? print_general_help() : print_help(argv[2], argc > 3 ? argv[3] : NULL);
    }
    const struct command *command = command_find(argv[1]);
    if (command == NULL) {
        return report_unknown_command(argv[1]);
    }
    const int end = command_find_options_end(command, argc, argv);
    for (int i = 2; i < end; i = command_skip_argument(command, argv, i)) {
        if (is_help_option(argv[i])) {
            return print_command_help(command);
        }
    }
    return command_run(command, argc - 1, argv + 1);
}

/* Returns `code`, or the code of a failure if standard output could not be written, as to a full
 * disk: then the printed report is truncated. */
static int check_output_was_written(int code) {
    errno = 0;
    return code != 0 || (fflush(stdout) == 0 && !ferror(stdout)) ? code
                                                                 : command_report_output(errno);
}

/* Opens /dev/null for each closed standard stream. Otherwise the next file or socket that is opened
 * would get the number of that stream, and printed text would be written to the file or socket.
 * /dev/null is opened for reading only, so that printing still fails. */
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
    /* A write beyond the limit on file sizes fails, like one to a full disk, instead of ending the
     * process. Ranks inherit this setting. */
    signal(SIGXFSZ, SIG_IGN);
    argc = remove_verbosity(argc, argv, &verbosity);
    log_init(verbosity);
    int code = check_output_was_written(run_command_line(argc, argv));
    log_end_progress();
    return code;
}
