/* translate: turns one graph into the instructions of one segment. */
#ifndef SKEP_SCHEDULE_TRANSLATE_H
#define SKEP_SCHEDULE_TRANSLATE_H

#include "runtime/schedule/extents.h"

/* Extents that several graphs of a program share. */
struct translate_context {
    struct device_inputs inputs; /* extents of the graph's inputs */
    const int *caches; /* [2 * layers]: extents of the key-value caches; NULL without generation */
    int logits;        /* extent of the logits; EXTENT_NONE unless the graph has logits */
};

/* translate_graph: append the instructions of `graph` to `segment`: copies on the copy lane, all
 * others on the compute lane, and between them the gathers of params and reductions of gradients
 * that the spans of the graph require. Adds the extents of activations and workspaces. */
void translate_graph(struct schedule *schedule, const struct graph *graph,
                     enum segment_kind segment, const struct translate_context *context);

#endif
