#include "runtime/cli/unknown_option.h"

#include "base/limits.h"
#include "base/text.h"
#include "runtime/settings/other_trainers.h"
#include "runtime/settings/setting_keys.h"

#include <string.h>

/* Writes the name in "--NAME=VALUE" or "--NAME" in the spelling of a run file's keys, without
 * dashes. */
static void write_key_spelling(const char *word, char name[static NAME_BYTES]) {
    const char *start = word + strspn(word, "-");
    size_t length = strcspn(start, "=");
    length = length < NAME_BYTES ? length : NAME_BYTES - 1;
    for (size_t i = 0; i < length; i++) {
        name[i] = start[i];
        if (start[i] == '-') {
            name[i] = '_';
        }
    }
    name[length] = '\0';
}

/* Returns the value in "--NAME=VALUE" or "--NAME VALUE", or the word "VALUE" if none is given. */
static const char *given_value(const struct invocation *invocation, int index) {
    const char *equals = strchr(invocation->argv[index], '=');
    const char *next = index + 1 < invocation->argc ? invocation->argv[index + 1] : "-";
    return equals != NULL ? equals + 1 : next[0] != '-' ? next : "VALUE";
}

static bool means_run_file(const char *name) {
    return strcmp(name, "config") == 0 || strcmp(name, "config_file") == 0 ||
           strcmp(name, "run") == 0 || strcmp(name, "file") == 0;
}

static void suggest_setting(const struct invocation *invocation, int index, const char *name,
                            struct text *remedy) {
    const struct setting_key *key = setting_key_find_by_end(name);
    const char *other = other_trainers_remedy(name);
    if (key != NULL) {
        text_add(remedy, "write %s=%.60s", key->name, given_value(invocation, index));
    } else if (other != NULL) {
        text_add(remedy, "%s", other);
    } else if (means_run_file(name)) {
        text_add(remedy, "pass the run file without an option");
    }
}

static int nearest_option(const struct command *command, const char *word) {
    const char *names[OPTIONS_MAX];
    for (int i = 0; i < command->option_count; i++) {
        names[i] = command->options[i].name;
    }
    return text_find_nearest(word, names, command->option_count);
}

enum status unknown_option_fault(const struct command *command, struct invocation *invocation,
                                 int index) {
    const char *word = invocation->argv[index];
    char name[NAME_BYTES];
    char bytes[sizeof invocation->fault.remedy];
    struct text remedy = text_over(bytes, sizeof bytes);
    int nearest = nearest_option(command, word);
    write_key_spelling(word, name);
    if (nearest >= 0) {
        text_add(&remedy, "did you mean %s?", command->options[nearest].name);
    } else if (command->takes_overrides) {
        suggest_setting(invocation, index, name, &remedy);
    }
    if (remedy.length == 0) {
        text_add(&remedy, "see `skep help %s`", command->name);
    }
    return fault_set(&invocation->fault, STATUS_USAGE, command->name, remedy.bytes,
                     "unknown option: \"%.200s\"", word);
}
