/* families: makes a blueprint from config.json, and the forward graph from a blueprint. Each family
 * is one file with the config.json fields that it reads, a function that fills the blueprint, and
 * its list of parameters. A field that no family reads and that is not known to be harmless is
 * rejected, because it may change the mathematics. This module owns no state. runtime/session and
 * runtime/swarm_setup read models through it, and runtime/schedule builds graphs. */
#ifndef SKEP_MODEL_FAMILIES_FAMILIES_H
#define SKEP_MODEL_FAMILIES_FAMILIES_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/model/graph.h"
#include "runtime/model/model.h"

#include <stddef.h>

/* blueprint_read: make a blueprint from the text of a config.json.
 * subject  the file name for fault messages
 * memory   all of the blueprint is in `region`
 * errors   STATUS_INPUT with the file, the field, its value and the supported values; *blueprint is
 *          unchanged */
MUST_CHECK enum status blueprint_read(const char *json, size_t length, const char *subject,
                                      struct region *region, struct blueprint *blueprint,
                                      struct fault *fault);

/* blueprint_open: make a blueprint from `path`: a folder with a config.json, a config.json file, or
 * the org/name of a model in the Hub cache (in $HF_HUB_CACHE, $HF_HOME/hub,
 * $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub).
 * folder  receives the model folder's path (capacity PATH_BYTES), or "" when `path` is a file */
MUST_CHECK enum status blueprint_open(const char *path, struct region *region,
                                      struct blueprint *blueprint, char *folder,
                                      struct fault *fault);

/* graph_build: make the forward graph of `blueprint` with the builder of its family.
 * memory  all of the graph is in `region`, which must outlive it
 * errors  none, because the blueprint has been checked */
void graph_build(const struct blueprint *blueprint, const struct graph_shape *shape,
                 struct region *region, struct graph *graph);

#endif
