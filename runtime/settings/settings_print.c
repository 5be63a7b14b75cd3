/* settings_print: writes the settings of a run, and the table of keys of `skep help keys`. */
#include "runtime/settings/setting_value.h"
#include "runtime/settings/settings.h"

#include <string.h>

enum {
    LINE_EXTRA_BYTES = 8, /* bytes for the quotes of name and value, the colon and the line break */
};

void settings_describe_key(const struct settings *settings, const struct setting_key *key,
                           struct text *text) {
    setting_write(settings, key, text);
}

size_t settings_describe_bytes_max(const struct settings *settings) {
    size_t bytes = 1;
    for (int i = 0; i < setting_key_count(); i++) {
        bytes += strlen(setting_key_at(i)->name) + LINE_EXTRA_BYTES +
                 setting_bytes_max(settings, setting_key_at(i));
    }
    return bytes;
}

void settings_describe(const struct settings *settings, bool shared_only, struct text *text) {
    for (int i = 0; i < setting_key_count(); i++) {
        const struct setting_key *key = setting_key_at(i);
        if (key->class == SETTING_SHARED || !shared_only) {
            text_add(text, "%s: ", key->name);
            setting_write(settings, key, text);
            text_add(text, "\n");
        }
    }
}

void settings_print_keys(struct text *text) {
    text_add(text, "%-24s %-6s %-12s %-8s %s\n", "key", "class", "default", "unit", "meaning");
    for (int i = 0; i < setting_key_count(); i++) {
        const struct setting_key *key = setting_key_at(i);
        text_add(text, "%-24s %-6s %-12s %-8s %s", key->name,
                 key->class == SETTING_SHARED ? "shared" : "local",
                 key->default_text == NULL ? "-" : key->default_text,
                 key->unit[0] == '\0' ? "-" : key->unit, key->help);
        if (key->choices != NULL) {
            text_add(text, " (%s)", key->choices);
        }
        text_add(text, "\n");
    }
}
