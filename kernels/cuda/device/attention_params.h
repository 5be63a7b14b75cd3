/* attention_params: the arguments of the attention kernels, and the shapes of tiles that a launch
 * and its kernel share. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_ATTENTION_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_ATTENTION_PARAMS_H

#include "kernels/scalars.h"

/* Tensors of bf16 use tensor cores, with heads padded to the next of these dims. One line for each
 * kernel: X(dim, row tiles, warps, others)
 *
 *   dim        elements of a head's row in shared memory; those beyond head_dim are zero
 *   row tiles  of 16 rows each, that a warp owns: of queries, or of keys for their gradient
 *   warps      of a block
 *   others     rows of the streamed tiles: of keys, or of queries for the gradient of keys
 *
 * Chosen so that no kernel spills with 255 registers and a block fits the 99 KiB of shared memory
 * that every architecture has, with two blocks on a multiprocessor where that costs no reuse. Two
 * row tiles halve the reads of shared memory for each product. */
#define ATTENTION_FORWARD_TILES(X)                                                                 \
    X(64, 2, 4, 64)                                                                                \
    X(80, 2, 4, 64)                                                                                \
    X(96, 2, 4, 64)                                                                                \
    X(128, 2, 4, 32)                                                                               \
    X(256, 1, 8, 32)
/* For a few queries over a cache: limited by memory, so small blocks keep many loads in flight. */
#define ATTENTION_DECODE_TILES(X)                                                                  \
    X(64, 1, 1, 64)                                                                                \
    X(128, 1, 1, 64)                                                                               \
    X(256, 1, 1, 32)
#define ATTENTION_QUERY_GRADIENT_TILES(X)                                                          \
    X(64, 2, 4, 32)                                                                                \
    X(80, 1, 8, 32)                                                                                \
    X(96, 1, 8, 32)                                                                                \
    X(128, 1, 8, 32)                                                                               \
    X(256, 1, 4, 16)
#define ATTENTION_KEY_GRADIENT_TILES(X)                                                            \
    X(64, 2, 4, 16)                                                                                \
    X(80, 1, 8, 32)                                                                                \
    X(96, 1, 8, 32)                                                                                \
    X(128, 1, 8, 32)
/* The sums of dk and dv with 256 elements do not fit a thread's registers together, so there is one
 * pass for each. */
#define ATTENTION_KEY_GRADIENT_PASSES(X) X(256, 1, 4, 16)

/* Tensors of f32: X(dim, rows), square tiles without tensor cores, of ATTENTION_F32_SIDE squared
 * threads. */
#define ATTENTION_F32_TILES(X)                                                                     \
    X(64, 32)                                                                                      \
    X(128, 32)                                                                                     \
    X(256, 16)

enum {
    ATTENTION_CHUNK = 8, /* elements of bf16 that one copy moves */
    ATTENTION_ROW_TILE = 16,
    ATTENTION_STAGES = 2, /* of streamed tiles: one is used while the next one is loaded */
    ATTENTION_F32_SIDE = 16,
    ATTENTION_PREPARE_THREADS = 128,
    ATTENTION_PREPARE_LANES = 8, /* threads that process one row */
    ATTENTION_COMBINE_THREADS = 128,
};

/* Elements from one row of a tile of bf16 to the next: 8 rows at the same column must be in 8
 * different groups of banks. Multiples of 64 are swizzled, other widths padded (attention_tile.h).
 */
#define ATTENTION_PITCH(dim)            ((dim) % 64 == 0 ? (dim) : (dim) + ATTENTION_CHUNK)
#define ATTENTION_TILE_BYTES(dim, rows) (2 * ATTENTION_PITCH(dim) * (rows))

#define ATTENTION_BLOCK_ROWS(row_tiles, warps) (ATTENTION_ROW_TILE * (row_tiles) * (warps))

/* Dynamic shared memory of a block, in the order in which a kernel lays it out. */
#define ATTENTION_FORWARD_SHARED(dim, row_tiles, warps, keys)                                      \
    (ATTENTION_TILE_BYTES(dim, ATTENTION_BLOCK_ROWS(row_tiles, warps)) +                           \
     2 * ATTENTION_TILE_BYTES(dim, keys))
#define ATTENTION_QUERY_GRADIENT_SHARED(dim, row_tiles, warps, keys)                               \
    (2 * ATTENTION_TILE_BYTES(dim, ATTENTION_BLOCK_ROWS(row_tiles, warps)) +                       \
     2 * ATTENTION_STAGES * ATTENTION_TILE_BYTES(dim, keys))
#define ATTENTION_KEY_GRADIENT_SHARED(dim, row_tiles, warps, queries)                              \
    (2 * ATTENTION_TILE_BYTES(dim, ATTENTION_BLOCK_ROWS(row_tiles, warps)) +                       \
     2 * ATTENTION_STAGES * ATTENTION_TILE_BYTES(dim, queries) + ATTENTION_STAGES * (queries)*16)

/* Tiles of f32 are padded by one element; `tiles` of them and one of weights. */
#define ATTENTION_F32_SHARED(dim, rows, tiles)                                                     \
    (4 * ((tiles) * (rows) * ((dim) + 1) + (rows) * ((rows) + 1)))

/* The arguments common to all attention kernels; strides as in struct attention_args. */
struct cuda_attention_shape {
    int64_t q_stride, kv_stride, out_stride;
    int32_t time;
    int32_t heads, kv_heads, head_dim;
    int32_t window; /* INT32_MAX: no bound */
    /* 1: every row of every tensor is aligned to 16 bytes and head_dim % 8 == 0 */
    int32_t vector;
    float scale;
};

/* Grid: x is a row and a group of `stack` query heads, y the tile of queries counted from the last
 * one, z the part of the keys. The rows of a tile are `stack` heads of one token, then of the next
 * one. */
struct cuda_attention_forward_params {
    struct cuda_attention_shape shape;
    const void *q, *k, *v;
    const int32_t *positions;           /* NULL: over a cache */
    const struct step_scalars *scalars; /* over a cache: holds its length */
    void *out;
    float *lse; /* NULL: not computed */
    /* parts > 1: [parts, heads / stack, time * stack, head_dim], not divided by the sums */
    float *part_outs;
    float *part_sums; /* parts > 1: [parts, heads / stack, time * stack, 2]: maximum and sum */
    int32_t stack;
    int32_t parts;
};

/* Grid: x covers the rows of all query heads, one warp each. */
struct cuda_attention_combine_params {
    struct cuda_attention_shape shape;
    const float *part_outs, *part_sums;
    void *out;
    int32_t stack;
    int32_t parts;
};

/* The values of a query that the backward pass needs: 16 bytes, one copy. */
struct cuda_attention_query {
    float lse;     /* multiplied by log2 e for bf16 */
    float delta;   /* dout . out */
    int32_t first; /* the first key that it sees */
    int32_t token;
};

/* queries [rows, heads, time], `count` in total. */
struct cuda_attention_prepare_params {
    struct cuda_attention_shape shape;
    const void *out, *dout;
    const float *lse;
    const int32_t *positions;
    struct cuda_attention_query *queries;
    int64_t count;
    float lse_factor;
};

/* Grid for dq: x is a row's query head, y the tile of queries counted from the last one. For dk and
 * dv: x is a row's key-value head, y the tile of keys. */
struct cuda_attention_backward_params {
    struct cuda_attention_shape shape;
    const void *q, *k, *v, *dout;
    const struct cuda_attention_query *queries;
    const int32_t *positions;
    void *dq, *dk, *dv;
};

#endif
