/* command_man: prints the rows of commands and the keys of a run file as man pages, in the man(7)
 * macros. */
#include "build_config.h"
#include "runtime/cli/command_table.h"
#include "runtime/settings/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Prints text with the characters escaped that troff interprets. */
static void print_escaped(const char *text) {
    static const struct {
        char plain;
        const char *escaped;
    } ESCAPES[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"}, {'`', "\\(ga"},
                   {'^', "\\(ha"}, {'~', "\\(ti"}, {'"', "\\(dq"}};
    if (*text == '.') {
        printf("\\&");
    }
    for (; *text != '\0'; text++) {
        const char *escaped = NULL;
        for (size_t i = 0; i < ARRAY_COUNT(ESCAPES); i++) {
            escaped = ESCAPES[i].plain == *text ? ESCAPES[i].escaped : escaped;
        }
        if (escaped != NULL) {
            fputs(escaped, stdout);
        } else {
            putchar(*text);
        }
    }
}

static void print_line(const char *before, const char *text, const char *after) {
    fputs(before, stdout);
    print_escaped(text);
    fputs(after, stdout);
}

static void print_title(const char *name, int section, const char *summary) {
    printf(".TH \"");
    for (const char *c = name; *c != '\0'; c++) {
        char upper[2] = {(char)toupper((unsigned char)*c), '\0'};
        print_escaped(upper);
    }
    printf("\" %d \"\" \"skep " SKEP_VERSION "\" \"Skep\"\n.SH NAME\n", section);
    print_line("", name, " \\- ");
    print_line("", summary, "\n");
}

static void print_example(const char *command, const char *arguments) {
    printf(".EX\n");
    print_line("skep ", command, command[0] != '\0' ? " " : "");
    print_line("", arguments, "\n.EE\n");
}

static void print_options(const char *command, const struct option *options, int count) {
    for (int i = 0; i < count; i++) {
        const struct option *option = &options[i];
        print_line(".TP\n\\fB", option->name, "\\fR");
        if (option_has_value(option)) {
            print_line(" \\fI", option->value_name, "\\fR");
        }
        print_line("\n", option->help, ".\n");
        printf(".RS\n");
        print_example(command, option->example);
        printf(".RE\n");
    }
}

static void print_named_meanings(const char *title, const struct named_meaning *facts, int count) {
    printf(".SH \"%s\"\n", title);
    for (int i = 0; i < count; i++) {
        print_line(".TP\n\\fB", facts[i].name, "\\fR\n");
        print_line("", facts[i].meaning, ".\n");
    }
}

static void print_references(const struct command *command) {
    printf(".SH \"SEE ALSO\"\n");
    if (command != NULL) {
        printf(".BR skep (1),\n");
    }
    for (int i = 0; i < COMMAND_COUNT && command == NULL; i++) {
        printf(".BR skep\\-%s (1),\n", COMMANDS[i]->name);
    }
    printf(".BR skep\\-run (5)\n");
}

static void print_synopsis(const struct command *command) {
    printf(".SH SYNOPSIS\n.B skep %s\n", command->name);
    if (command->arguments[0] != '\0') {
        print_line("", command->arguments, "\n");
    }
    for (int i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        print_line("[\\fB", option->name, "\\fR");
        if (option_has_value(option)) {
            print_line(" \\fI", option->value_name, "\\fR");
        }
        printf("]\n");
    }
    if (command->takes_overrides) {
        printf("[\\fIkey\\fR=\\fIvalue\\fR...]\n");
    }
}

static void print_command(const struct command *command) {
    char name[WORD_BYTES];
    snprintf(name, sizeof name, "skep-%s", command->name);
    print_title(name, 1, command->summary);
    print_synopsis(command);
    print_line(".SH DESCRIPTION\n", command->details, "\n");
    if (command->takes_overrides) {
        printf(".PP\n\\fIkey\\fR=\\fIvalue\\fR sets a key of the run file, see\n"
               ".BR skep\\-run (5).\n");
    }
    printf(".SH OPTIONS\n");
    print_options(command->name, command->options, command->option_count);
    print_options("", GLOBAL_OPTIONS, GLOBAL_OPTION_COUNT);
    printf(".SH EXAMPLE\n");
    print_example(command->name, command->example);
}

static void print_program(void) {
    print_title("skep", 1, "train language models in one planned block of memory");
    printf(".SH SYNOPSIS\n.B skep\n\\fIcommand\\fR [\\fIargument\\fR...]\n"
           ".SH DESCRIPTION\nSkep trains Hugging Face models on one machine or in a swarm of "
           "machines.\nIt computes every byte that training needs before anything runs.\n"
           ".SH COMMANDS\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        printf(".TP\n.BR skep\\-%s (1)\n", COMMANDS[i]->name);
        print_line("", COMMANDS[i]->summary, ".\n");
    }
    printf(".SH OPTIONS\n");
    print_options("", GLOBAL_OPTIONS, GLOBAL_OPTION_COUNT);
    printf(".TP\n\\fB\\-\\-version\\fR\nPrint the version.\n");
}

void command_print_man(const struct command *command) {
    if (command != NULL) {
        print_command(command);
    } else {
        print_program();
    }
    print_named_meanings("EXIT STATUS", EXIT_CODES, EXIT_CODE_COUNT);
    if (command == NULL) {
        print_named_meanings("ENVIRONMENT", VARIABLES, VARIABLE_COUNT);
    }
    print_references(command);
}

static void print_key(const struct setting_key *key) {
    print_line(".TP\n\\fB", key->name, "\\fR");
    print_line(": ", key->default_text != NULL ? key->default_text : "unset", "\n");
    print_line("", key->help, "");
    if (key->choices != NULL) {
        print_line(" (", key->choices, ")");
    }
    print_line(key->unit[0] != '\0' ? ", in " : "", key->unit, "");
    printf(".\n%s.\n", key->class == SETTING_SHARED ? "Shared" : "Local");
}

void keys_print_man(void) {
    print_title("skep-run", 5, "the file that describes a training run");
    printf(".SH DESCRIPTION\nA run file is YAML. `a: {b: 1}` and `a.b: 1` are equal. Every key "
           "below can also be set\non the command line as \\fIkey\\fR=\\fIvalue\\fR. A shared key "
           "determines the mathematics and is\nequal for all members of a swarm; a local key "
           "concerns one machine.\n.SH EXAMPLE\n.EX\nmodel: models/tiny\ninit: random\n"
           "steps: 2000\ndata:\n  train: train.u16\n  validation: validation.u16\n"
           "batch: {sequence: 512, microbatch: 8, tokens: 32768}\n.EE\n"
           ".SH \"KEYS AND DEFAULTS\"\n");
    for (int i = 0; i < setting_key_count(); i++) {
        print_key(setting_key_at(i));
    }
    printf(".SH \"SEE ALSO\"\n.BR skep (1),\n.BR skep\\-train (1),\n.BR skep\\-plan (1)\n");
}
