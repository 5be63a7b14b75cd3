/* families: from config.json to a blueprint, and from a blueprint to its forward graph. Each family
 * is one file: the fields of config.json that it reads, the blueprint that they make, its
 * parameters. A field that no family reads and that is not known to be harmless is rejected
 * (hf_fields.h). */
#ifndef SKEP_MODEL_FAMILIES_FAMILIES_H
#define SKEP_MODEL_FAMILIES_FAMILIES_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/model/blueprint.h"
#include "runtime/model/graph.h"

#include <stddef.h>

/* blueprint_read: from a config.json's text.
 * place   how errors name the file
 * memory  everything lives in `region`
 * errors  STATUS_INPUT naming file, field, what was found and what is supported; *blueprint
 *         untouched */
MUST_CHECK enum status blueprint_read(const char *json, size_t length, const char *place,
                                      struct region *region, struct blueprint *blueprint,
                                      struct fault *fault);

/* blueprint_open: the same from `path`: a folder holding config.json, a config.json itself, or
 * org/name found in the Hub cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub).
 * folder: receives the model folder's path (PATH_BYTES), "" when `path` is a bare file. */
MUST_CHECK enum status blueprint_open(const char *path, struct region *region,
                                      struct blueprint *blueprint, char *folder,
                                      struct fault *fault);

/* graph_build: the forward graph of `blueprint`, by its family's builder.
 * memory  everything in `region`, which must outlive the graph
 * errors  none: the blueprint has been checked */
void graph_build(const struct blueprint *blueprint, const struct graph_shape *shape,
                 struct region *region, struct graph *graph);

#endif
