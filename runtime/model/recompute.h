/* recompute: trades memory for work. A tensor that is not kept for the backward pass is made again,
 * by clones of the ops that made it, just before its first use there. */
#ifndef SKEP_MODEL_RECOMPUTE_H
#define SKEP_MODEL_RECOMPUTE_H

#include "runtime/model/graph.h"

enum recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE, /* outputs of norms and of the MLP's activation are made again */
    RECOMPUTE_BLOCK,     /* everything of a block but its input is made again */
    RECOMPUTE_COUNT
};

const char *recompute_name(enum recompute kind);

/* recompute_apply: rewrite the backward pass of `graph`.
 * policy  one entry per layer
 * limits  backward_build has been called; at most once per graph
 * result  the same gradients to the bit: clones run the same kernels on the same values */
void recompute_apply(struct graph *graph, const enum recompute *policy);

#endif
