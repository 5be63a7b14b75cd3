/* generation: copies rows to and from the key-value cache of text generation. The number of rows in
 * the cache is known only at run time. */
#ifndef SKEP_KERNELS_GENERATION_H
#define SKEP_KERNELS_GENERATION_H

#include "base/dtype.h"
#include "kernels/kernels.h"
#include "kernels/scalars.h"

struct generation_args {
    int64_t tokens;   /* number of new rows, of which the first scalars->token_count are valid */
    int64_t width;    /* number of elements in a row */
    int64_t stride;   /* elements from one new row to the next */
    int64_t context;  /* capacity of the cache in rows */
    enum dtype dtype; /* type of the rows and the cache */
};

/* cache_append: copy the valid rows of `rows` [tokens, width] to `cache` [context, width], after
 * the scalars->cache_length rows that it already holds.
 * limits  cache_length + token_count <= context (a caller's bug otherwise) */
void cache_append(const struct generation_args *args, const struct step_scalars *scalars,
                  const void *rows, void *cache);

/* select_last: copy the last valid row of `rows` to `out` [width]. */
void select_last(const struct generation_args *args, const struct step_scalars *scalars,
                 const void *rows, void *out);

#endif
