/* command_table: the list of commands, the options of all commands, and the tables of the general
 * man page. */
#include "runtime/cli/command_table.h"

#include "base/text.h"

#include <string.h>

const struct command *const COMMANDS[] = {
    &COMMAND_INSPECT, &COMMAND_PLAN,     &COMMAND_MESH,  &COMMAND_COMM,     &COMMAND_PACK,
    &COMMAND_DATA,    &COMMAND_TRAIN,    &COMMAND_EVAL,  &COMMAND_GENERATE, &COMMAND_DUMP,
    &COMMAND_JOIN,    &COMMAND_SNAPSHOT, &COMMAND_KEYS,  &COMMAND_TRACK,    &COMMAND_ROSTER,
    &COMMAND_STATUS,  &COMMAND_LEDGER,   &COMMAND_PROBE, &COMMAND_DOCTOR,   &COMMAND_VERSION,
};
const int COMMAND_COUNT = ARRAY_COUNT(COMMANDS);

const struct option GLOBAL_OPTIONS[] = {
    {.name = "-q", .help = "print only warnings and errors", .example = "train run.yaml -q"},
    {.name = "-v", .help = "print details", .example = "join austen.skep -v"},
    {.name = "--help", .help = "explain the command", .example = "train --help"},
};
const int GLOBAL_OPTION_COUNT = ARRAY_COUNT(GLOBAL_OPTIONS);

const struct named_meaning EXIT_CODES[] = {
    {"0", "done; also: asked to stop, and saved"},
    {"1", "failed while running"},
    {"2", "bad usage or bad input; nothing changed"},
    {"3", "does not fit into memory or on the disk"},
    {"4", "a rank was lost"},
};
const int EXIT_CODE_COUNT = ARRAY_COUNT(EXIT_CODES);

const struct named_meaning VARIABLES[] = {
    {"SKEP_LOG", "lowest level of the log: error, warning, info or debug; overrides -q and -v"},
    {"SKEP_CPU", "best instruction set to use, such as avx2; default: all that the CPU has"},
    {"NO_COLOR", "if set, nothing is printed in colour"},
    {"STATE_DIRECTORY", "folder for the state of `skep join`, as systemd sets it"},
    {"XDG_STATE_HOME", "folder for the state of `skep join`; default: ~/.local/state"},
    {"XDG_CONFIG_HOME", "folder for skep/identity; default: ~/.config"},
    {"XDG_CACHE_HOME", "folder for skep/, a cache of tokens and data files; default: ~/.cache"},
    {"HF_HOME", "folder of the Hugging Face cache; default: ~/.cache/huggingface"},
    {"NOTIFY_SOCKET", "set by systemd: `skep track` and `skep join` report when they are ready"},
    {"JOURNAL_STREAM", "set by systemd: each line of the log begins with its priority"},
};
const int VARIABLE_COUNT = ARRAY_COUNT(VARIABLES);

bool option_has_value(const struct option *option) {
    return option->value_name != NULL;
}

enum completion option_completion(const struct option *option) {
    const char *value = option->value_name;
    if (value == NULL) {
        return COMPLETE_NOTHING;
    }
    if (strcmp(value, "DIR") == 0) {
        return COMPLETE_FOLDERS;
    }
    if (strcmp(value, "TARGET") == 0) {
        return COMPLETE_TARGETS;
    }
    bool is_list = strstr(value, "...") != NULL;
    if (!is_list && (strcmp(value, "FILE") == 0 || strchr(value, '.') != NULL)) {
        return COMPLETE_FILES;
    }
    return strchr(value, '|') != NULL ? COMPLETE_WORDS : COMPLETE_NOTHING;
}

const struct command *command_find(const char *name) {
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(COMMANDS[i]->name, name) == 0) {
            return COMMANDS[i];
        }
    }
    return NULL;
}

const char *word_next(const char *list, char word[static WORD_BYTES]) {
    size_t length = strcspn(list, "|");
    struct text text = text_over(word, WORD_BYTES);
    text_add_bytes(&text, list, length);
    ASSERT(!text.truncated);
    return list[length] == '|' ? list + length + 1 : NULL;
}
