/* attention_params: the arguments of the attention kernels, and the shapes of tiles that a launch
 * and its kernel share. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_ATTENTION_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_ATTENTION_PARAMS_H

#include "kernels/scalars.h"

/* Kernels for bf16 tensors use tensor cores and pad heads to the next of these dims. Each kernel
 * has one line: X(dim, row tiles, warps, others)
 *
 *   dim        elements of a head's row in shared memory; those beyond head_dim are zero
 *   row tiles  number of tiles of 16 rows that a warp processes: rows of queries, or of keys in the
 *              kernels for the gradient of keys
 *   warps      of a block others     rows of the streamed tiles: rows of keys, or of queries in the
 *   kernels for the gradient
 *              of keys
 *
 * The shapes are chosen so that no kernel spills with 255 registers and a block fits the 99 KiB of
 * shared memory that every architecture has, with two blocks on a multiprocessor where that costs
 * no reuse. Two row tiles halve the reads of shared memory for each product. */
#define ATTENTION_FORWARD_TILES(X)                                                                 \
    X(64, 2, 4, 64)                                                                                \
    X(80, 2, 4, 64)                                                                                \
    X(96, 2, 4, 64)                                                                                \
    X(128, 2, 4, 32)                                                                               \
    X(256, 1, 8, 32)
/* Tiles of the kernels for a few queries over a cache. These kernels are limited by memory, so
 * small blocks keep many loads in flight. */
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
/* With heads of 256 elements, the sums of dk and dv do not fit in a thread's registers together, so
 * that each is computed in a pass of its own. */
#define ATTENTION_KEY_GRADIENT_PASSES(X) X(256, 1, 4, 16)

/* Tensors of f32: X(dim, rows), square tiles without tensor cores, of ATTENTION_F32_SIDE squared
 * threads. */
#define ATTENTION_F32_TILES(X)                                                                     \
    X(64, 32)                                                                                      \
    X(128, 32)                                                                                     \
    X(256, 16)

enum {
    ATTENTION_CHUNK_ELEMENTS = 8, /* number of bf16 elements that one copy moves */
    ATTENTION_ROW_TILE = 16,      /* rows of a matrix instruction */
    ATTENTION_STAGES = 2,    /* buffers of streamed tiles: one is in use while the next is loaded */
    ATTENTION_F32_SIDE = 16, /* rows and columns of a tile of the f32 kernels */
    ATTENTION_PREPARE_THREADS = 128, /* threads of a block */
    ATTENTION_PREPARE_LANES = 8,     /* number of threads that process one row */
    ATTENTION_COMBINE_THREADS = 128, /* threads of a block */
};

/* Number of elements from one row of a bf16 tile to the next: 8 rows at the same column must be in
 * 8 different groups of banks. Multiples of 64 are swizzled, other widths padded
 * (attention_tile.h). / */
#define ATTENTION_PITCH(dim)            ((dim) % 64 == 0 ? (dim) : (dim) + ATTENTION_CHUNK_ELEMENTS)
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

/* Shared memory of an f32 kernel: `tiles` tiles and one tile of weights, with rows padded by one
 * element. */
#define ATTENTION_F32_SHARED(dim, rows, tiles)                                                     \
    (4 * ((tiles) * (rows) * ((dim) + 1) + (rows) * ((rows) + 1)))

/* The arguments common to all attention kernels; strides as in struct attention_args. */
struct cuda_attention_shape {
    int64_t q_stride, kv_stride, out_stride; /* elements from one token to the next */
    int32_t time;                            /* tokens in a row */
    /* number of query heads; of key-value heads; elements of a head */
    int32_t heads, kv_heads, head_dim;
    int32_t window; /* maximum number of keys that a query sees; INT32_MAX: no bound */
    /* 1: rows can be copied in chunks of 16 bytes, because every row of every tensor is aligned to
     * 16 bytes and head_dim % 8 == 0 */
    int32_t vector;
    float scale; /* factor of q . k before the softmax */
};

/* Grid: x is a row and a group of `stacked_heads` query heads, y the tile of queries counted from
 * the last one, z the part of the keys. The rows of a tile are `stacked_heads` heads of one token,
 * then of the next one. */
struct cuda_attention_forward_params {
    struct cuda_attention_shape shape;
    const void *q, *k, *v;    /* queries, keys and values */
    const int32_t *positions; /* NULL: attention over a cache */
    /* for attention over a cache: scalars that contain its length */
    const struct step_scalars *scalars;
    void *out;  /* attention output of each query */
    float *lse; /* log of each row's softmax sum; NULL: not computed */
    /* [key_parts, heads / stacked_heads, time * stacked_heads, head_dim]: output of each part of
     * the keys, not yet divided by the sums; used if key_parts > 1 */
    float *part_outs;
    /* [key_parts, heads / stacked_heads, time * stacked_heads, 2]: in each part of the keys, the
     * largest score and the sum of exp(score - largest); used if key_parts > 1 */
    float *part_sums;
    int32_t stacked_heads; /* query heads in one tile */
    int32_t key_parts;     /* number of parts into which the keys are divided */
};

/* Grid: x covers the rows of all query heads, one warp each. */
struct cuda_attention_combine_params {
    struct cuda_attention_shape shape;
    const float *part_outs, *part_sums;
    void *out;
    int32_t stacked_heads; /* query heads in one tile */
    int32_t key_parts;     /* number of parts into which the keys are divided */
};

/* The values of a query that the backward pass needs: 16 bytes, so that one copy loads them. */
struct cuda_attention_query {
    float lse;     /* log of the softmax sum; multiplied by log2(e) for bf16 */
    float delta;   /* dot product of the query's output and the gradient of that output */
    int32_t first; /* the first key that the query sees */
    int32_t token; /* index of the query in its row */
};

/* The kernel writes queries [rows, heads, time], `count` in total. */
struct cuda_attention_prepare_params {
    struct cuda_attention_shape shape;
    const void *out, *dout;
    const float *lse;
    const int32_t *positions;
    struct cuda_attention_query *queries; /* [rows, heads, time] output */
    int64_t count;                        /* number of queries */
    float lse_factor;                     /* factor by which each lse is multiplied */
};

/* Grid for dq: x is a row's query head, y the tile of queries counted from the last one. For dk and
 * dv: x is a row's key-value head, y the tile of keys. */
struct cuda_attention_backward_params {
    struct cuda_attention_shape shape;
    const void *q, *k, *v, *dout;
    const struct cuda_attention_query *queries;
    const int32_t *positions;
    void *dq, *dk, *dv; /* gradients of q, k and v */
};

#endif
