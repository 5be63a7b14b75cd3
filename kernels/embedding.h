/* embedding: looks up rows of a table by token id, and adds learned positions if the model has
 * them. */
#ifndef SKEP_KERNELS_EMBEDDING_H
#define SKEP_KERNELS_EMBEDDING_H

#include "base/dtype.h"
#include "kernels/kernels.h"

struct embedding_args {
    int64_t tokens, dim; /* number of tokens; elements of a row */
    int64_t vocab;       /* number of token ids; the data loader checks that all are below it */
    int64_t padding;     /* padding id, whose row gets no gradient; -1: there is none */
    enum dtype dtype;    /* type of table, position_table, out and dout: f32 or bf16 */
};

/* embedding_forward: out[t] = table[ids[t]] (+ position_table[positions[t]] unless NULL).
 * shapes    ids, positions [tokens] i32; table [vocab, dim]; position_table [any, dim];
 *           out [tokens, dim]
 * memory    caller owns all; positions is not read when position_table is NULL
 * errors    none
 * accuracy  a copy, or one rounded addition */
void embedding_forward(const struct compute *compute, const struct embedding_args *args,
                       const int32_t *ids, const int32_t *positions, const void *table,
                       const void *position_table, void *out);

/* embedding_backward: dtable[ids[t]] += dout[t] unless ids[t] is the padding,
 * dposition_table[positions[t]] += dout[t].
 * shapes    dout [tokens, dim]; dtable [vocab, dim] f32; dposition_table [any, dim] f32; either may
 *           be NULL: for a frozen table, or a model without position table
 * memory    caller owns all
 * errors    none
 * accuracy  f32 additions in token order for each row, hence the same bits for any thread count */
void embedding_backward(const struct compute *compute, const struct embedding_args *args,
                        const int32_t *ids, const int32_t *positions, const void *dout,
                        float *dtable, float *dposition_table);

#endif
