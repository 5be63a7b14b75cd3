/* generation: moving rows into and out of a generation whose length is known only at run time. */
#ifndef SKEP_KERNELS_GENERATION_H
#define SKEP_KERNELS_GENERATION_H

#include "base/dtype.h"
#include "kernels/kernels.h"
#include "kernels/scalars.h"

struct generation_args {
    int64_t tokens;  /* rows of the new piece; scalars->token_count of them are valid */
    int64_t width;   /* elements of a row */
    int64_t stride;  /* elements from one row of the piece to the next */
    int64_t context; /* rows of the cache */
    enum dtype dtype;
};

/* cache_append: the valid rows of `rows` [tokens, width] go behind the scalars->cache_length rows
 * that `cache` [context, width] already holds.
 * limits  cache_length + token_count <= context (a caller's bug otherwise) */
void cache_append(const struct generation_args *args, const struct step_scalars *scalars,
                  const void *rows, void *cache);

/* select_last: the last valid row of `rows` to `out` [width]. */
void select_last(const struct generation_args *args, const struct step_scalars *scalars,
                 const void *rows, void *out);

#endif
