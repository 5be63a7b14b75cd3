/* setting_value: converts the value of one key from text to its field in struct settings, and from
 * the field to text. */
#ifndef SKEP_SETTINGS_SETTING_VALUE_H
#define SKEP_SETTINGS_SETTING_VALUE_H

#include "base/fault.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/settings/setting_keys.h"

struct settings;

/* The text of a setting's value, and the data needed to convert it. */
struct setting_value {
    const struct setting_key *key; /* row of the key */
    /* Text of the value; NULL: the default applies. The items of a list are joined by commas. */
    const char *text;
    const char *const *items; /* Items of a SETTING_PATHS value, which does not use `text`. */
    int item_count;           /* number of items given; 0: not set, so the default applies */
    const char *location;     /* Source of the value: "run.yaml:3:7" or "command line". */
    const char *folder;       /* Base folder of relative paths; "": the working directory. */
    struct region *region;    /* Memory for texts and paths. */
};

/* setting_read: check a value against the key's type, choices and bounds, and store it in the
 * field. An empty text or path selects the default.
 * errors  STATUS_INPUT at setting->location, with the name of the key; the field is then
 *         unchanged */
MUST_CHECK enum status setting_read(const struct setting_value *setting, struct settings *settings,
                                    struct fault *fault);

/* setting_write: append the value as YAML, which is valid JSON except for choices and dtypes, which
 * have no quotes. A real number has the fewest digits that parse to the same value. Paths in the
 * run file's folder are relative to it, so that the text does not depend on the working
 * directory. */
void setting_write(const struct settings *settings, const struct setting_key *key,
                   struct text *text);

/* setting_bytes_max: the maximum number of bytes that setting_write appends. */
size_t setting_bytes_max(const struct settings *settings, const struct setting_key *key);

#endif
