/* command_help: prints the rows of commands for people: as help and as docs/COMMANDS.md. */
#include "runtime/cli/command_table.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS = 80, INDENT = 4 }; /* width of the help text in columns, and of its left margin */

/* Prints text that is broken at blanks before the right margin. */
static void print_wrapped(const char *text, int indent) {
    int column = 0;
    while (*text != '\0') {
        int length = (int)strcspn(text, " ");
        if (column > 0 && column + 1 + length > COLUMNS) {
            putchar('\n');
            column = 0;
        }
        column += column == 0 ? printf("%*s%.*s", indent, "", length, text)
                              : printf(" %.*s", length, text);
        text += length;
        text += strspn(text, " ");
    }
    putchar('\n');
}

void command_print_usage(const struct command *command) {
    printf("skep %s%s%s", command->name, command->arguments[0] != '\0' ? " " : "",
           command->arguments);
    for (int i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        printf(" [%s%s%s]", option->name, option_has_value(option) ? " " : "",
               option_has_value(option) ? option->value_name : "");
    }
    printf("%s", command->takes_overrides ? " [key=value...]" : "");
}

static void print_option(const struct command *command, const struct option *option) {
    printf("\n  %s%s%s\n", option->name, option_has_value(option) ? " " : "",
           option_has_value(option) ? option->value_name : "");
    print_wrapped(option->help, 2 * INDENT);
    printf("%*sexample: skep %s%s%s\n", 2 * INDENT, "", command != NULL ? command->name : "",
           command != NULL ? " " : "", option->example);
}

void command_print_help(const struct command *command) {
    command_print_usage(command);
    printf("\n\n%s\n\n", command->summary);
    print_wrapped(command->details, 0);
    printf("\nexample: skep %s %s\n", command->name, command->example);
    if (command->takes_overrides) {
        printf("\nkey=value sets a key of the run file; `skep help keys` lists them.\n");
    }
    if (command->option_count > 0) {
        printf("\noptions:\n");
    }
    for (int i = 0; i < command->option_count; i++) {
        print_option(command, &command->options[i]);
    }
}

void command_print_general(void) {
    printf("skep trains Hugging Face models inside one planned block of memory.\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        printf("  %-9s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    }
    printf("\n`skep help COMMAND` explains one command, `skep help keys` lists the settings of "
           "run.yaml.\n"
           "-q prints less and -v prints more; arguments after -- are not options.\n");
}

/* Prints the text of a table cell, with '|' escaped, because '|' ends a cell. */
static void print_table_cell(const char *text) {
    for (; *text != '\0'; text++) {
        printf("%s%c", *text == '|' ? "\\" : "", *text);
    }
}

static void print_option_table(const char *command, const struct option *options, int count) {
    printf("\n| option | meaning | example |\n|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        const struct option *option = &options[i];
        printf("| `%s", option->name);
        if (option_has_value(option)) {
            putchar(' ');
            print_table_cell(option->value_name);
        }
        printf("` | ");
        print_table_cell(option->help);
        printf(" | `skep %s%s", command, command[0] != '\0' ? " " : "");
        print_table_cell(option->example);
        printf("` |\n");
    }
}

static void print_named_meanings(const char *title, const char *column,
                                 const struct named_meaning *facts, int count) {
    printf("\n## %s\n\n| %s | meaning |\n|---|---|\n", title, column);
    for (int i = 0; i < count; i++) {
        printf("| `%s` | %s |\n", facts[i].name, facts[i].meaning);
    }
}

static void print_section(const struct command *command) {
    printf("\n## skep %s\n\n", command->name);
    printf("    skep %s%s%s%s\n\n", command->name, command->arguments[0] != '\0' ? " " : "",
           command->arguments, command->takes_overrides ? " [key=value...]" : "");
    print_wrapped(command->details, 0);
    printf("\n    skep %s %s\n", command->name, command->example);
    if (command->option_count > 0) {
        print_option_table(command->name, command->options, command->option_count);
    }
}

void command_print_markdown(void) {
    printf("# Commands\n\n`skep help markdown` prints this page, from the same rows as `skep "
           "help`, the man pages and\nthe completions of the shells. After a change of an option, "
           "run\n\n    build/skep help markdown >docs/COMMANDS.md\n\n"
           "`key=value` sets a key of the run file: [RUN.md](RUN.md#all-keys) lists them. "
           "Arguments after\n`--` are not options.\n\n| command | does |\n|---|---|\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        printf("| [`%s`](#skep-%s) | %s |\n", COMMANDS[i]->name, COMMANDS[i]->name,
               COMMANDS[i]->summary);
    }
    printf("\nEvery command accepts\n");
    print_option_table("", GLOBAL_OPTIONS, GLOBAL_OPTION_COUNT);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        print_section(COMMANDS[i]);
    }
    print_named_meanings("Exit codes", "code", EXIT_CODES, EXIT_CODE_COUNT);
    print_named_meanings("Environment", "variable", VARIABLES, VARIABLE_COUNT);
}
