#include "kernels/cuda/launch/attention_tiling.h"

#include "base/check.h"
#include "kernels/cuda/launch/workspace.h"

enum {
    DECODE_ROWS_MAX = 64, /* maximum number of stacked rows for which small tiles are used */
    DECODE_TILE_ROWS = ATTENTION_ROW_TILE, /* rows of a small tile */
    /* target number of blocks of a decode kernel: 8 for each of 132 multiprocessors */
    DECODE_BLOCKS = 1024,
    /* target number of blocks of a forward kernel: 2 for each multiprocessor, as large tiles write
     * large partial results */
    FORWARD_BLOCKS = 256,
    FORWARD_TILE_ROWS = 128, /* rows of every large tile */
    PARTS_MAX = 64,          /* maximum number of parts of the keys */
    PART_KEYS_MIN = 64,      /* minimum number of keys of a part: one or two tiles */
};

static int64_t ceil_div(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

struct cuda_attention_tiling cuda_attention_choose_tiling(const struct attention_args *args,
                                                          int64_t context) {
    int64_t group = args->heads / args->kv_heads;
    bool decode = args->time * group <= DECODE_ROWS_MAX;
    int64_t stacked_heads = decode ? group : 1;
    int64_t rows = args->time * stacked_heads;
    int64_t tiles = ceil_div(rows, decode ? DECODE_TILE_ROWS : FORWARD_TILE_ROWS);
    int64_t blocks = args->heads / stacked_heads * tiles;
    int64_t key_parts = (decode ? DECODE_BLOCKS : FORWARD_BLOCKS) / blocks;
    int64_t parts_max = ceil_div(context, PART_KEYS_MIN);
    key_parts = key_parts < parts_max ? key_parts : parts_max;
    key_parts = key_parts < PARTS_MAX ? key_parts : PARTS_MAX;
    return (struct cuda_attention_tiling){
        .decode = decode,
        .stacked_heads = (int)stacked_heads,
        .rows = rows,
        .tiles = tiles,
        .key_parts = key_parts > 1 ? (int)key_parts : 1,
    };
}

uint64_t cuda_attention_backward_workspace_bytes(const struct attention_args *args,
                                                 const struct target *target) {
    (void)target;
    return (uint64_t)(args->rows * args->heads * args->time) * sizeof(struct cuda_attention_query);
}

uint64_t cuda_attention_cached_workspace_bytes(const struct attention_args *args, int64_t context,
                                               const struct target *target) {
    (void)target;
    ASSERT(args->rows == 1 && args->time <= context);
    if (args->dtype == DTYPE_F32) {
        return 0;
    }
    struct cuda_attention_tiling tiling = cuda_attention_choose_tiling(args, context);
    int64_t rows = tiling.key_parts * args->heads * args->time;
    return tiling.key_parts == 1 ? 0 : (uint64_t)(rows * (args->head_dim + 2)) * sizeof(float);
}
