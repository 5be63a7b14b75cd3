#include "kernels/cuda/launch/attention_tiling.h"

#include "base/check.h"
#include "kernels/cuda/launch/workspace.h"

enum {
    DECODE_ROWS_MAX = 64, /* stacked rows up to which small tiles are used */
    DECODE_TILE_ROWS = ATTENTION_ROW_TILE,
    DECODE_BLOCKS = 1024, /* blocks in a grid: 8 for each of 132 multiprocessors */
    /* 2 for each multiprocessor, because large tiles write large partial results */
    FORWARD_BLOCKS = 256,
    FORWARD_TILE_ROWS = 128, /* rows of every large tile */
    PARTS_MAX = 64,
    PART_KEYS_MIN = 64, /* keys of a part: one or two tiles */
};

static int64_t cuts(int64_t count, int64_t size) {
    return (count + size - 1) / size;
}

struct cuda_attention_tiling cuda_attention_tiling_of(const struct attention_args *args,
                                                      int64_t context) {
    int64_t group = args->heads / args->kv_heads;
    bool decode = args->time * group <= DECODE_ROWS_MAX;
    int64_t stack = decode ? group : 1;
    int64_t rows = args->time * stack;
    int64_t tiles = cuts(rows, decode ? DECODE_TILE_ROWS : FORWARD_TILE_ROWS);
    int64_t blocks = args->heads / stack * tiles;
    int64_t parts = (decode ? DECODE_BLOCKS : FORWARD_BLOCKS) / blocks;
    int64_t most = cuts(context, PART_KEYS_MIN);
    parts = parts < most ? parts : most;
    parts = parts < PARTS_MAX ? parts : PARTS_MAX;
    return (struct cuda_attention_tiling){
        .decode = decode,
        .stack = (int)stack,
        .rows = rows,
        .tiles = tiles,
        .parts = parts > 1 ? (int)parts : 1,
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
    struct cuda_attention_tiling tiling = cuda_attention_tiling_of(args, context);
    int64_t rows = tiling.parts * args->heads * args->time;
    return tiling.parts == 1 ? 0 : (uint64_t)(rows * (args->head_dim + 2)) * sizeof(float);
}
