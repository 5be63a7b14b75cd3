/* model_config: a model's config.json as text, as it was found. */
#ifndef SKEP_SETTINGS_MODEL_CONFIG_H
#define SKEP_SETTINGS_MODEL_CONFIG_H

#include "base/fault.h"
#include "base/region.h"

/* model_config_read: of a model that blueprint_open has found.
 * model   as the run names it; folder: as blueprint_open gave it, "" for a bare config.json
 * memory  CONFIG_BYTES_MAX in `region`
 * errors  those of file_read_text; *text and *length are then untouched */
MUST_CHECK enum status model_config_read(const char *model, const char *folder,
                                         struct region *region, const char **text, size_t *length,
                                         struct fault *fault);

#endif
