#include "kernels/generation.h"

#include <string.h>

static const char *row_address(const struct generation_args *args, const void *rows, int64_t row) {
    return (const char *)rows + row * args->stride * dtype_bytes(args->dtype);
}

void cache_append(const struct generation_args *args, const struct step_scalars *scalars,
                  const void *rows, void *cache) {
    int64_t row_bytes = args->width * dtype_bytes(args->dtype);
    int64_t cached = scalars->cache_length;
    int64_t valid = scalars->token_count;
    ASSERT(valid >= 1 && valid <= args->tokens && cached >= 0 && cached + valid <= args->context);
    for (int64_t row = 0; row < valid; row++) {
        memcpy((char *)cache + (cached + row) * row_bytes, row_address(args, rows, row),
               (size_t)row_bytes);
    }
}

void select_last(const struct generation_args *args, const struct step_scalars *scalars,
                 const void *rows, void *out) {
    int64_t valid = scalars->token_count;
    ASSERT(valid >= 1 && valid <= args->tokens);
    memcpy(out, row_address(args, rows, valid - 1),
           (size_t)(args->width * dtype_bytes(args->dtype)));
}
