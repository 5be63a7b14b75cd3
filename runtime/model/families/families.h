/* families: makes a blueprint from config.json, and the forward graph from a blueprint. Each family
 * is one file: the fields of config.json that it reads, the values it gives the blueprint, and its
 * list of parameters. A field that no family reads and that is not known to be harmless is
 * rejected, because it may change the mathematics. The room owns no state. runtime/session and
 * runtime/swarm_setup read models through it, and runtime/schedule builds graphs. */
#ifndef SKEP_MODEL_FAMILIES_FAMILIES_H
#define SKEP_MODEL_FAMILIES_FAMILIES_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/model/graph.h"
#include "runtime/model/model.h"

#include <stddef.h>

/* blueprint_read: make a blueprint from the text of a config.json.
 * subject  the name of the file in faults
 * memory   everything is in `region`
 * errors  STATUS_INPUT naming file, field, what was found and what is supported; *blueprint
 *         untouched */
MUST_CHECK enum status blueprint_read(const char *json, size_t length, const char *subject,
                                      struct region *region, struct blueprint *blueprint,
                                      struct fault *fault);

/* blueprint_open: make one from `path`: a folder holding config.json, a config.json itself, or
 * org/name found in the Hub cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub).
 * folder: receives the model folder's path (PATH_BYTES), "" when `path` is a bare file. */
MUST_CHECK enum status blueprint_open(const char *path, struct region *region,
                                      struct blueprint *blueprint, char *folder,
                                      struct fault *fault);

/* graph_build: make the forward graph of `blueprint` with the builder of its family.
 * memory  everything in `region`, which must outlive the graph
 * errors  none: the blueprint has been checked */
void graph_build(const struct blueprint *blueprint, const struct graph_shape *shape,
                 struct region *region, struct graph *graph);

#endif
