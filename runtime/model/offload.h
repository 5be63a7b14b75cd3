/* offload: trades time on the link to the host for device memory. What a block's forward pass saves
 * for its backward pass lies in host memory in between. */
#ifndef SKEP_MODEL_OFFLOAD_H
#define SKEP_MODEL_OFFLOAD_H

#include "runtime/model/graph.h"

/* A page: below it a copy takes longer to start than to run. */
enum { OFFLOAD_BYTES_MIN = 4096 };

/* offload_apply: rewrite a training graph. Every activation of at least OFFLOAD_BYTES_MIN that the
 * backward pass reads is copied out behind its last use in the forward pass, its bytes are released
 * one layer later, and a new tensor is copied in one layer before the first use in the backward
 * pass; what reads it there reads the new tensor. Each copy so has the time of a whole layer.
 *
 *   layer         1         2              3    head   3        2              1
 *   compute   x = f()  ...  release x  ...                 ...             ... g(x')
 *   copies              out x                                    in x'
 *
 * What layers use that nothing but the head follows stays: it would be wanted at once. So do
 * tensors that recompute_apply makes again.
 * limits  backward_build has been called; recompute_apply, if at all, before; at most once
 * result  the same gradients to the bit
 * memory  in the graph's region */
void offload_apply(struct graph *graph);

#endif
