/* command_table: the list of all commands, and everything that is made from their rows: the help,
 * the man pages, the completions of the shells and docs/COMMANDS.md. A command or an option that
 * has a row appears in all of them. */
#ifndef SKEP_CLI_COMMAND_TABLE_H
#define SKEP_CLI_COMMAND_TABLE_H

#include "runtime/cli/cli.h"

/* The commands, in the order in which `skep help` lists commands. */
extern const struct command *const COMMANDS[];
extern const int COMMAND_COUNT;

/* Options that every command accepts. */
extern const struct option GLOBAL_OPTIONS[];
extern const int GLOBAL_OPTION_COUNT;

/* One row of a list in the man page skep(1) and in docs/COMMANDS.md, such as an exit code and its
 * meaning. */
struct named_meaning {
    const char *name, *meaning; /* the item, and what it means */
};

extern const struct named_meaning EXIT_CODES[], VARIABLES[];
extern const int EXIT_CODE_COUNT, VARIABLE_COUNT;

/* What the shells suggest as the value of an option. */
enum completion {
    COMPLETE_NOTHING, /* the shell suggests nothing */
    COMPLETE_FILES,   /* paths of files */
    COMPLETE_FOLDERS, /* paths of folders */
    COMPLETE_TARGETS, /* names of built-in profiles */
    COMPLETE_WORDS    /* the words of the value's name, such as on|off */
};

/* option_completion: the kind of completion that the name of the option's value selects. */
enum completion option_completion(const struct option *option);

/* option_has_value: whether the option takes a value, which may be the next argument. */
bool option_has_value(const struct option *option);

/* command_find: the command with this name, or NULL. */
const struct command *command_find(const char *name);

/* word_next: copies the first word of a list such as "list|verify" to `word`, and returns the rest,
 * or NULL if it was the last. */
enum { WORD_BYTES = 64 };
const char *word_next(const char *list, char word[static WORD_BYTES]);

/* All functions below print to standard output.
 * command_print_usage    one line: "skep train RUN.yaml [--fresh] ... [key=value...]"
 * command_print_help     the usage, the details and every option with an example
 * command_print_general  the list of commands */
void command_print_usage(const struct command *command);
void command_print_help(const struct command *command);
void command_print_general(void);

/* command_print_markdown: print the text of docs/COMMANDS.md. */
void command_print_markdown(void);

/* command_print_man: print the man page of `command`; NULL: that of the program, skep(1).
 * keys_print_man: print skep-run(5), the man page on the keys of a run file. */
void command_print_man(const struct command *command);
void keys_print_man(void);

/* command_print_completion: print the completion script for "bash", "zsh" or "fish".
 * returns  false, with nothing printed, for another shell */
bool command_print_completion(const char *shell);

#endif
