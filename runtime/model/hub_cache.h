/* hub_cache: finds a model by org/name in the local Hugging Face cache. Never downloads. */
#ifndef SKEP_MODEL_HUB_CACHE_H
#define SKEP_MODEL_HUB_CACHE_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

/* hub_cache_names_model: whether `path` has the form org/name (one slash, the characters the Hub
 * allows), so that it may stand for a cached model. */
bool hub_cache_names_model(const char *path);

/* hub_cache_find: the snapshot folder of refs/main of `name`, under $HF_HUB_CACHE, else
 * $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
 * folder  PATH_BYTES
 * errors  STATUS_INPUT with the download command as remedy; folder untouched */
MUST_CHECK enum status hub_cache_find(const char *name, char *folder, struct fault *fault);

#endif
