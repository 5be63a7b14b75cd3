/* backward: appends to a forward graph the operations that make every gradient. */
#ifndef SKEP_MODEL_BACKWARD_H
#define SKEP_MODEL_BACKWARD_H

#include "runtime/model/graph.h"

/* backward_build: from the loss back to the embedding, one rule per op kind. Parameter gradients
 * are added to (they hold earlier microbatches), activation gradients are made and used up here.
 * A frozen parameter (graph->shape.frozen) has no gradient tensor and no op that makes one; an
 * activation that no trainable parameter comes before has none either.
 * limits  graph->shape.mode is GRAPH_TRAIN and backward has not been built yet; not all parameters
 *         are frozen
 * result  graph->forward_count: how many ops were there before */
void backward_build(struct graph *graph);

#endif
