/* attention_tile: the parts of the tensor-core kernels of attention: tiles of bf16 in shared memory
 * and products of tiles by a warp.
 *
 * A warp owns ROW_TILES x 16 rows of a product. Its 8-column blocks of sums have the layout of
 * mma_bf16(): thread t holds the columns 2 (t % 4) and 2 (t % 4) + 1 of row t / 4 (sums 0 and 1)
 * and of row t / 4 + 8 (sums 2 and 3). Two adjacent blocks, rounded to bf16, are the left operand
 * of the next product, so that probabilities stay in registers. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_ATTENTION_TILE_H
#define SKEP_KERNELS_CUDA_DEVICE_ATTENTION_TILE_H

#include "kernels/cuda/device/attention_facts.h"

#ifdef SKEP_EMULATED
#define UNROLL
#define ROLLED
#else
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#endif

enum { CHUNK = ATTENTION_CHUNK_ELEMENTS, ROW_TILE = ATTENTION_ROW_TILE }; /* elements; rows */

/* ---- tiles ---- */

/* The offset of a chunk of a row, in elements from the tile's start. */
template <int DIM> DEVICE int chunk_offset(int row, int chunk) {
    int swizzled = DIM % 64 == 0 ? chunk ^ (row & 7) : chunk;
    return row * ATTENTION_PITCH(DIM) + swizzled * CHUNK;
}

/* Load `count` elements of a row that may be unaligned, and set the rest of the chunk to zero. */
DEVICE words4 load_unaligned_chunk(const bf16 *from, int count) {
    words4 chunk;
    UNROLL
    for (int i = 0; i < 4; i++) {
        uint32_t low = 2 * i < count ? from[2 * i].bits : 0;
        uint32_t high = 2 * i + 1 < count ? from[2 * i + 1].bits : 0;
        chunk.word[i] = low | high << 16;
    }
    return chunk;
}

template <int DIM>
DEVICE void load_chunk(bf16 *tile, int row, int chunk, const bf16 *from, int count, bool vector) {
    bf16 *to = tile + chunk_offset<DIM>(row, chunk);
    if (vector) {
        copy_async(to, from, count > 0);
    } else {
        *reinterpret_cast<words4 *>(to) = load_unaligned_chunk(from, count);
    }
}

/* The rows of a tile in a tensor: one for each token, or `stacked_heads` heads of one token, then
 * those of the next. */
struct token_rows {
    bf16 *base;     /* address of the first row */
    int64_t stride; /* elements from one token to the next */
};
struct stacked_rows {
    bf16 *base;
    int64_t stride;
    int stacked_heads, head_dim, first; /* first: index of the tile's first stacked row */
};

DEVICE bf16 *row_address(const token_rows &rows, int row) {
    return rows.base + row * rows.stride;
}
DEVICE bf16 *row_address(const stacked_rows &rows, int row) {
    int token = (rows.first + row) / rows.stacked_heads;
    int head = (rows.first + row) % rows.stacked_heads;
    return rows.base + token * rows.stride + head * rows.head_dim;
}

/* Start loading rows [0, valid) and set the others to zero. `base` must be a valid address even
 * when no row is valid. */
template <int DIM, int ROWS, int THREADS, typename PLACE>
DEVICE void load_tile(bf16 *tile, const PLACE &rows, int valid, const cuda_attention_shape &shape) {
    constexpr int CHUNKS = DIM / CHUNK;
    ROLLED
    for (int at = (int)threadIdx.x; at < ROWS * CHUNKS; at += THREADS) {
        int row = at / CHUNKS;
        int chunk = at % CHUNKS;
        int count = row < valid ? shape.head_dim - chunk * CHUNK : 0;
        const bf16 *from = count > 0 ? row_address(rows, row) + chunk * CHUNK : rows.base;
        load_chunk<DIM>(tile, row, chunk, from, count, shape.vector != 0);
    }
}

/* ---- products of a warp ---- */

/* A thread's address for load_matrices(): `start` is the address of a row whose index is `lane`
 * modulo 8, and `odd` selects one of the two chunks from `chunk` (even) on. It depends on few
 * values, which the compiler can keep in registers; all other offsets are compile-time
 * constants. */
template <int DIM>
DEVICE const bf16 *matrix_row_address(const bf16 *start, int lane, int chunk, int odd) {
    if (DIM % 64 == 0) {
        return start + chunk / 8 * 8 * CHUNK + (chunk % 8 ^ (odd ^ lane % 8)) * CHUNK;
    }
    return start + odd * CHUNK + chunk * CHUNK;
}

template <int N> DEVICE void clear_sums(float (&sums)[N][4]) {
    UNROLL
    for (int n = 0; n < N; n++) {
        sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
    }
}

/* sums [16 ROW_TILES, 8 BLOCKS] = a b^T over DIM: `a` holds the warp's rows; each row of `b` is a
 * column of the product. */
template <int DIM, int ROW_TILES, int BLOCKS>
DEVICE void product_of_rows(float (&sums)[ROW_TILES][BLOCKS][4], const bf16 *a, int a_row,
                            const bf16 *b) {
    int lane = (int)threadIdx.x % WARP;
    const bf16 *start_of_a = a + (a_row + lane % 16) * ATTENTION_PITCH(DIM);
    const bf16 *start_of_b = b + (lane % 8 + lane / 16 * 8) * ATTENTION_PITCH(DIM);
    UNROLL
    for (int r = 0; r < ROW_TILES; r++) {
        clear_sums(sums[r]);
    }
    UNROLL
    for (int k = 0; k < DIM / 16; k++) {
        uint32_t left[ROW_TILES][4];
        UNROLL
        for (int r = 0; r < ROW_TILES; r++) {
            load_matrices(left[r],
                          matrix_row_address<DIM>(start_of_a + r * 16 * ATTENTION_PITCH(DIM), lane,
                                                  2 * k, lane / 16));
        }
        UNROLL
        for (int n = 0; n < BLOCKS; n += 2) {
            uint32_t right[4];
            load_matrices(right, matrix_row_address<DIM>(start_of_b + n * 8 * ATTENTION_PITCH(DIM),
                                                         lane, 2 * k, lane / 8 % 2));
            UNROLL
            for (int r = 0; r < ROW_TILES; r++) {
                mma_bf16(sums[r][n], left[r], right);
                mma_bf16(sums[r][n + 1], left[r], right + 2);
            }
        }
    }
}

/* sums [16 ROW_TILES, DIM] += a b: `a` [16 ROW_TILES, 8 BLOCKS] has the layout of sums and is
 * rounded to bf16 here; `b` [8 BLOCKS, DIM] is a tile. */
template <int DIM, int ROW_TILES, int BLOCKS>
DEVICE void add_product(float (&sums)[ROW_TILES][DIM / 8][4],
                        const float (&a)[ROW_TILES][BLOCKS][4], const bf16 *b) {
    int lane = (int)threadIdx.x % WARP;
    const bf16 *start = b + lane % 16 * ATTENTION_PITCH(DIM);
    UNROLL
    for (int k = 0; k < BLOCKS / 2; k++) {
        uint32_t left[ROW_TILES][4];
        UNROLL
        for (int r = 0; r < ROW_TILES; r++) {
            const float(&first)[4] = a[r][2 * k];
            const float(&second)[4] = a[r][2 * k + 1];
            left[r][0] = pack_bf16(first[0], first[1]);
            left[r][1] = pack_bf16(first[2], first[3]);
            left[r][2] = pack_bf16(second[0], second[1]);
            left[r][3] = pack_bf16(second[2], second[3]);
        }
        UNROLL
        for (int n = 0; n < DIM / 8; n += 2) {
            uint32_t right[4];
            load_matrices_transposed(
                right,
                matrix_row_address<DIM>(start + k * 16 * ATTENTION_PITCH(DIM), lane, n, lane / 16));
            UNROLL
            for (int r = 0; r < ROW_TILES; r++) {
                mma_bf16(sums[r][n], left[r], right);
                mma_bf16(sums[r][n + 1], left[r], right + 2);
            }
        }
    }
}

/* ---- storing the rows of a warp ---- */

/* Multiply the warp's rows i by factors[i / 16][i / 8 % 2], round them, and store them in its rows
 * of a tile that is no longer used. */
template <int DIM, int ROW_TILES>
DEVICE void round_rows(bf16 *tile, int row, const float (&sums)[ROW_TILES][DIM / 8][4],
                       const float (&factors)[ROW_TILES][2]) {
    int lane = (int)threadIdx.x % WARP;
    __syncwarp();
    UNROLL
    for (int r = 0; r < ROW_TILES; r++) {
        UNROLL
        for (int n = 0; n < DIM / 8; n++) {
            UNROLL
            for (int h = 0; h < 2; h++) {
                bf16 *to =
                    tile + chunk_offset<DIM>(row + r * 16 + h * 8 + lane / 4, n) + lane % 4 * 2;
                *reinterpret_cast<uint32_t *>(to) = pack_bf16(
                    sums[r][n][2 * h] * factors[r][h], sums[r][n][2 * h + 1] * factors[r][h]);
            }
        }
    }
    __syncwarp();
}

template <int DIM>
DEVICE void store_chunk(bf16 *to, const bf16 *tile, int row, int chunk, int count, bool vector) {
    words4 words = *reinterpret_cast<const words4 *>(tile + chunk_offset<DIM>(row, chunk));
    if (vector) {
        *reinterpret_cast<words4 *>(to) = words;
        return;
    }
    UNROLL
    for (int i = 0; i < CHUNK; i++) {
        if (i < count) {
            to[i].bits = (uint16_t)(words.word[i / 2] >> (i % 2 * 16));
        }
    }
}

/* Store rows [row, row + 16 ROW_TILES) of a tile, by the warp that rounded them, except those from
 * `valid` on. */
template <int DIM, int ROW_TILES, typename PLACE>
DEVICE void store_rows(const PLACE &rows, const bf16 *tile, int row, int valid,
                       const cuda_attention_shape &shape) {
    constexpr int CHUNKS = DIM / CHUNK;
    ROLLED
    for (int i = (int)threadIdx.x % WARP; i < ROW_TILES * 16 * CHUNKS; i += WARP) {
        int at = row + i / CHUNKS;
        int chunk = i % CHUNKS;
        int count = shape.head_dim - chunk * CHUNK;
        if (at < valid && count > 0) {
            store_chunk<DIM>(row_address(rows, at) + chunk * CHUNK, tile, at, chunk, count,
                             shape.vector != 0);
        }
    }
}

#endif
