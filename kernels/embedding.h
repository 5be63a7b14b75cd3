#ifndef SKEP_KERNELS_EMBEDDING_H
#define SKEP_KERNELS_EMBEDDING_H

#include "base/dtype.h"
#include "kernels/compute.h"

struct embedding_args {
    int64_t tokens, dim;
    int64_t vocab;     /* ids are below it: the loader has checked */
    enum dtype dtype;  /* of table, position_table, out, dout */
};

/* out[t] = table[ids[t]] (+ position_table[positions[t]] unless NULL) */
void embedding_forward(const struct compute *compute, const struct embedding_args *args,
                       const int32_t *ids, const int32_t *positions, const void *table,
                       const void *position_table, void *out);
/* dtable, dposition_table f32 are added to, in token order for each row of the table, whatever the
 * thread count; dposition_table may be NULL. */
void embedding_backward(const struct compute *compute, const struct embedding_args *args,
                        const int32_t *ids, const int32_t *positions, const void *dout,
                        float *dtable, float *dposition_table);

#endif
