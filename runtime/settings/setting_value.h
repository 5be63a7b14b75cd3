/* setting: one key's value: from text into struct settings, and from there to text again. */
#ifndef SKEP_SETTINGS_SETTING_VALUE_H
#define SKEP_SETTINGS_SETTING_VALUE_H

#include "base/fault.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/settings/setting_keys.h"

struct settings;

/* A value on its way into the struct. */
struct setting_value {
    const struct setting_key *key;
    const char *text;         /* NULL: the key's default; a list's items joined by commas */
    const char *const *items; /* SETTING_PATHS takes these instead */
    int item_count;           /* 0: the default */
    const char *place;        /* "run.yaml:3:7" or "command line" */
    const char *folder;       /* what paths are relative to; "": the working directory */
    struct region *region;    /* holds texts and paths */
};

/* setting_read: check the text against the key's type, choices and bounds, and put it in its field.
 * An empty text or path means the default too.
 * errors  STATUS_INPUT at setting->place, naming the key; the field is then untouched */
MUST_CHECK enum status setting_read(const struct setting_value *setting, struct settings *settings,
                                    struct fault *fault);

/* setting_write: the value as YAML; as JSON too, but for choices and dtypes, which are bare words.
 * Real numbers have as few digits as read back to the same value; paths are relative to the run
 * file where they can be, so that the text does not depend on the working directory. */
void setting_write(const struct settings *settings, const struct setting_key *key,
                   struct text *text);

/* setting_bytes_max: bytes that setting_write adds at most. */
size_t setting_bytes_max(const struct settings *settings, const struct setting_key *key);

#endif
