/* model_config: reads the text of a model's config.json. */
#ifndef SKEP_SETTINGS_MODEL_CONFIG_H
#define SKEP_SETTINGS_MODEL_CONFIG_H

#include "base/fault.h"
#include "base/region.h"

/* model_config_read: read the config.json of a model that blueprint_open has found.
 * model   the value of the key `model`
 * folder  the result of blueprint_open; "" if `model` is the path of a config.json
 * memory  CONFIG_BYTES_MAX bytes in `region`
 * errors  those of file_read_text; *text and *length are then unchanged */
MUST_CHECK enum status model_config_read(const char *model, const char *folder,
                                         struct region *region, const char **text, size_t *length,
                                         struct fault *fault);

#endif
