/* translate: one graph becomes one segment's instructions. */
#ifndef SKEP_SCHEDULE_TRANSLATE_H
#define SKEP_SCHEDULE_TRANSLATE_H

#include "runtime/schedule/extents.h"

/* Extents that a graph shares with others. */
struct translate_context {
    struct device_inputs inputs;
    const int *caches; /* [2 * layers] in the order of graph->caches; NULL without generation */
    int logits;        /* EXTENT_NONE unless the graph makes them */
};

/* translate_graph: append the instructions of `graph`, copies on the copy lane, all else on the
 * compute lane, to `segment`, and
 * around them those that gather params and reduce gradients, by the spans of the graph; extents for
 * its activations and workspaces are added on the way. */
void translate_graph(struct schedule *schedule, const struct graph *graph,
                     enum segment_kind segment, const struct translate_context *context);

#endif
