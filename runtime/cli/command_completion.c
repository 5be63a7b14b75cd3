/* command_completion: prints the completion scripts of bash, zsh and fish from the rows of
 * commands. */
#include "runtime/cli/command_table.h"
#include "runtime/settings/settings.h"
#include "targets/profiles.h"

#include <stdio.h>
#include <string.h>

/* Prints text that is in single quotes in the script: puts a backslash before each character of
 * `special`. A single quote cannot be escaped in a POSIX shell, so a quote is written as '\'',
 * which ends and reopens the quotes. */
static void print_quoted(const char *text, const char *special) {
    for (; *text != '\0'; text++) {
        if (*text == '\'' && strchr(special, '\'') == NULL) {
            printf("'\\''");
        } else {
            printf("%s%c", strchr(special, *text) != NULL ? "\\" : "", *text);
        }
    }
}

/* Prints the words of a list such as "a|b", separated by spaces. */
static void print_words(const char *list) {
    char word[WORD_BYTES];
    const char *separator = "";
    while (list != NULL) {
        list = word_next(list, word);
        printf("%s%s", separator, word);
        separator = " ";
    }
}

static void print_targets(void) {
    for (int i = 0; i < EMBEDDED_PROFILE_COUNT; i++) {
        printf("%s%s", i > 0 ? " " : "", EMBEDDED_PROFILES[i].name);
    }
}

static void print_keys(void) {
    for (int i = 0; i < setting_key_count(); i++) {
        printf("%s%s=", i > 0 ? " " : "", setting_key_at(i)->name);
    }
}

static void print_command_names(void) {
    for (int i = 0; i < COMMAND_COUNT; i++) {
        printf("%s%s", i > 0 ? " " : "", COMMANDS[i]->name);
    }
}

/* ---- bash ---- */

static void print_bash_value(const struct command *command, const struct option *option) {
    switch (option_completion(option)) {
    case COMPLETE_FILES:
        printf("    '%s %s') _skep_files -f; return ;;\n", command->name, option->name);
        return;
    case COMPLETE_FOLDERS:
        printf("    '%s %s') _skep_files -d; return ;;\n", command->name, option->name);
        return;
    case COMPLETE_TARGETS:
        printf("    '%s %s') _skep_words \"$targets\"; return ;;\n", command->name, option->name);
        return;
    case COMPLETE_WORDS:
        printf("    '%s %s') _skep_words '", command->name, option->name);
        print_words(option->value_name);
        printf("'; return ;;\n");
        return;
    case COMPLETE_NOTHING:
        printf("    '%s %s') return ;;\n", command->name, option->name);
        return;
    }
}

static void print_bash_command(const struct command *command) {
    printf("    %s)\n        options='", command->name);
    for (int i = 0; i < GLOBAL_OPTION_COUNT; i++) {
        printf("%s%s", i > 0 ? " " : "", GLOBAL_OPTIONS[i].name);
    }
    for (int i = 0; i < command->option_count; i++) {
        printf(" %s", command->options[i].name);
    }
    printf("'\n        actions='");
    print_words(command->actions != NULL ? command->actions : "");
    printf("'\n        keys=%s ;;\n", command->takes_overrides ? "$all_keys" : "");
}

static void print_bash(void) {
    printf("# bash completion of skep, printed by `skep help completion bash`\n"
           "_skep_words() {\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$word\")\n}\n"
           "_skep_files() {\n"
           "    compopt -o filenames\n"
           "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$word\")\n}\n"
           "_skep() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local command='' command_at=0 options='' actions='' keys='' i\n"
           "    local targets='");
    print_targets();
    printf("'\n    local all_keys='");
    print_keys();
    printf("'\n    COMPREPLY=()\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        case ${COMP_WORDS[i]} in\n"
           "        -*) ;;\n"
           "        *) command=${COMP_WORDS[i]} command_at=$i; break ;;\n"
           "        esac\n    done\n"
           "    if [ -z \"$command\" ]; then\n        _skep_words 'help ");
    print_command_names();
    printf(" -q -v --help --version'\n        return\n    fi\n"
           "    if [ \"$word\" = = ]; then word=''; before='='; fi\n"
           "    if [ \"$before\" = = ]; then\n"
           "        case ${COMP_WORDS[COMP_CWORD - 2]} in\n"
           "        =) before=${COMP_WORDS[COMP_CWORD - 3]} ;;\n"
           "        *) before=${COMP_WORDS[COMP_CWORD - 2]} ;;\n        esac\n"
           "        case $before in -*) ;; *) _skep_files -f; return ;; esac\n    fi\n"
           "    case \"$command $before\" in\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        for (int j = 0; j < COMMANDS[i]->option_count; j++) {
            if (option_has_value(&COMMANDS[i]->options[j])) {
                print_bash_value(COMMANDS[i], &COMMANDS[i]->options[j]);
            }
        }
    }
    printf("    esac\n    case $command in\n    help) actions='keys ");
    print_command_names();
    printf("' ;;\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        print_bash_command(COMMANDS[i]);
    }
    printf("    esac\n    case $word in\n    -*) _skep_words \"$options\"; return ;;\n    esac\n"
           "    if [ -n \"$actions\" ] && [ \"$COMP_CWORD\" -eq $((command_at + 1)) ]; then\n"
           "        _skep_words \"$actions\"\n        return\n    fi\n"
           "    if [ -n \"$keys\" ] && [ \"$COMP_CWORD\" -gt $((command_at + 1)) ] &&\n"
           "        [ -n \"$word\" ]; then\n"
           "        _skep_words \"$keys\"\n"
           "        if [ \"${#COMPREPLY[@]}\" -gt 0 ]; then compopt -o nospace; return; fi\n"
           "    fi\n    _skep_files -f\n}\ncomplete -F _skep skep\n");
}

/* ---- zsh ---- */

static void print_zsh_value(const struct option *option) {
    printf(":");
    print_quoted(option->value_name, ":[]\\");
    switch (option_completion(option)) {
    case COMPLETE_FILES:
        printf(":_files");
        return;
    case COMPLETE_FOLDERS:
        printf(":_files -/");
        return;
    case COMPLETE_TARGETS:
        printf(":(");
        print_targets();
        printf(")");
        return;
    case COMPLETE_WORDS:
        printf(":(");
        print_words(option->value_name);
        printf(")");
        return;
    case COMPLETE_NOTHING:
        printf(":");
        return;
    }
}

static void print_zsh_options(const struct option *options, int count) {
    for (int i = 0; i < count; i++) {
        printf(" \\\n            '%s[", options[i].name);
        print_quoted(options[i].help, ":[]\\");
        printf("]");
        if (option_has_value(&options[i])) {
            print_zsh_value(&options[i]);
        }
        printf("'");
    }
}

static void print_zsh_command(const struct command *command) {
    printf("        %s)\n        _arguments", command->name);
    print_zsh_options(GLOBAL_OPTIONS, GLOBAL_OPTION_COUNT);
    print_zsh_options(command->options, command->option_count);
    if (command->actions != NULL) {
        printf(" \\\n            '1:action:(");
        print_words(command->actions);
        printf(")'");
    } else if (command->positional_count > 0) {
        printf(" \\\n            '1:argument:_files'");
    }
    printf(" \\\n            '*:argument:%s' ;;\n",
           command->takes_overrides ? "_skep_keys" : "_files");
}

static void print_zsh(void) {
    printf("#compdef skep\n# zsh completion of skep, printed by `skep help completion zsh`\n"
           "_skep_keys() {\n    local -a keys\n    keys=(");
    print_keys();
    printf(")\n    if compset -P '*='; then\n        _files\n    else\n"
           "        compadd -S '' -a keys\n        _files\n    fi\n}\n"
           "_skep() {\n    local curcontext=$curcontext state line\n    local -a commands\n"
           "    commands=(\n        'help:explain a command'\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        printf("        '%s:", COMMANDS[i]->name);
        print_quoted(COMMANDS[i]->summary, ":\\");
        printf("'\n");
    }
    printf("    )\n    _arguments -C");
    print_zsh_options(GLOBAL_OPTIONS, GLOBAL_OPTION_COUNT);
    printf(" \\\n            '--version[print the version]' \\\n"
           "            '1:command:->command' '*::argument:->argument'\n"
           "    case $state in\n    command) _describe command commands ;;\n    argument)\n"
           "        case $words[1] in\n        help) _arguments '1:command:(keys ");
    print_command_names();
    printf(")' ;;\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        print_zsh_command(COMMANDS[i]);
    }
    printf("        esac ;;\n    esac\n}\n"
           "if [[ $funcstack[1] = _skep ]]; then _skep \"$@\"; else compdef _skep skep; fi\n");
}

/* ---- fish ---- */

static void print_fish_value(const struct option *option) {
    switch (option_completion(option)) {
    case COMPLETE_FILES:
        printf(" -r -F");
        return;
    case COMPLETE_FOLDERS:
        printf(" -x -a '(__fish_complete_directories)'");
        return;
    case COMPLETE_TARGETS:
        printf(" -x -a '");
        print_targets();
        printf("'");
        return;
    case COMPLETE_WORDS:
        printf(" -x -a '");
        print_words(option->value_name);
        printf("'");
        return;
    case COMPLETE_NOTHING:
        printf(" -x");
        return;
    }
}

/* Prints the line of the fish script for an option. `command` is NULL for options that every
 * command accepts. */
static void print_fish_option(const struct command *command, const struct option *option) {
    bool is_long = option->name[1] == '-';
    printf("complete -c skep");
    if (command != NULL) {
        printf(" -n '__fish_seen_subcommand_from %s'", command->name);
    }
    printf(" -%c %s -d '", is_long ? 'l' : 's', option->name + (is_long ? 2 : 1));
    print_quoted(option->help, "'\\");
    printf("'");
    if (option_has_value(option)) {
        print_fish_value(option);
    }
    printf("\n");
}

static void print_fish_command(const struct command *command) {
    const char *name = command->name;
    printf("complete -c skep -n __fish_use_subcommand -a %s -d '", name);
    print_quoted(command->summary, "'\\");
    printf("'\ncomplete -c skep -n '__fish_seen_subcommand_from %s' -F\n", name);
    if (command->actions != NULL) {
        printf("complete -c skep -n '__fish_seen_subcommand_from %s' -a '", name);
        print_words(command->actions);
        printf("'\n");
    }
    if (command->takes_overrides) {
        printf("complete -c skep -n '__fish_seen_subcommand_from %s' -a \"$__skep_keys\"\n", name);
    }
    for (int i = 0; i < command->option_count; i++) {
        print_fish_option(command, &command->options[i]);
    }
}

static void print_fish(void) {
    printf("# fish completion of skep, printed by `skep help completion fish`\n"
           "set -g __skep_keys '");
    print_keys();
    printf("'\ncomplete -c skep -f\n"
           "complete -c skep -n __fish_use_subcommand -a help -d 'explain a command'\n"
           "complete -c skep -n __fish_use_subcommand -l version -d 'print the version'\n"
           "complete -c skep -n '__fish_seen_subcommand_from help' -a 'keys ");
    print_command_names();
    printf("'\n");
    for (int i = 0; i < GLOBAL_OPTION_COUNT; i++) {
        print_fish_option(NULL, &GLOBAL_OPTIONS[i]);
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        print_fish_command(COMMANDS[i]);
    }
}

bool command_print_completion(const char *shell) {
    static const struct {
        const char *name;
        void (*print)(void);
    } SHELLS[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < ARRAY_COUNT(SHELLS); i++) {
        if (strcmp(shell, SHELLS[i].name) == 0) {
            SHELLS[i].print();
            return true;
        }
    }
    return false;
}
