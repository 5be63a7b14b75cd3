/* Our own matrix products, for use when cuBLASLt is missing or has no suitable algorithm: bf16 on
 * tensor cores, f32 on ordinary cores. Every sum runs along the depth in one order for all tile
 * sizes, so the bits do not depend on the grid. */
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/matmul_params.h"

/* The first row and column of this block's tile of C. */
struct tile_origin {
    int64_t row, column;
};

template <int TILE> DEVICE tile_origin tile_of_block(const matmul_params &p) {
    unsigned block = blockIdx.x;
    unsigned per_group = (unsigned)(MATMUL_GROUP_ROWS * p.tile_columns);
    unsigned most = MATMUL_GROUP_ROWS;
    unsigned first = block / per_group * most;
    unsigned left = (unsigned)p.tile_rows - first;
    unsigned rows = left < most ? left : most;
    unsigned within = block % per_group;
    return tile_origin{(int64_t)(first + within % rows) * TILE, (int64_t)(within / rows) * TILE};
}

/* ---- storing a sum ---- */

struct alignas(8) float_pair {
    float value[2];
};

/* How a tile's sums are stored: added to C or overwriting it, with the bias or without it. */
struct ending {
    bool adds, last;
};

template <typename T>
DEVICE float finished(const matmul_params &p, ending how, int64_t column, float sum) {
    return how.last && p.bias != nullptr ? sum + to_float(((const T *)p.bias)[column]) : sum;
}

DEVICE void store_one(const matmul_params &p, ending how, int64_t at, float sum) {
    if (p.out_bf16) {
        ((bf16 *)p.c)[at] = from_float<bf16>(sum);
        return;
    }
    float *c = (float *)p.c + at;
    *c = how.adds ? *c + sum : sum;
}

/* Stores the sums of (row, column) and (row, column + 1); the column is even. */
template <typename T>
DEVICE void store_pair(const matmul_params &p, ending how, int64_t row, int64_t column,
                       const float sums[2]) {
    if (row >= p.m || column >= p.n) {
        return;
    }
    int64_t at = row * p.ldc + column;
    float low = finished<T>(p, how, column, sums[0]);
    if (column + 1 == p.n) {
        store_one(p, how, at, low);
        return;
    }
    float high = finished<T>(p, how, column + 1, sums[1]);
    if (!p.c_paired) {
        store_one(p, how, at, low);
        store_one(p, how, at + 1, high);
    } else if (p.out_bf16) {
        *(uint32_t *)((bf16 *)p.c + at) = pack_bf16(low, high);
    } else {
        float_pair *c = (float_pair *)((float *)p.c + at);
        float_pair before = {{0, 0}};
        if (how.adds) {
            before = *c;
        }
        *c = float_pair{{before.value[0] + low, before.value[1] + high}};
    }
}

/* ---- bf16 ---- */

/* A stage holds a part of A and one of B in their memory layout, rows of COLUMNS elements in chunks
 * of 8. Chunks are permuted within a row so that one chunk of eight rows, which a matrix load reads
 * at once, is in different banks. */
template <int COLUMNS> DEVICE int chunk_offset(int row, int chunk) {
    constexpr int CHUNKS = COLUMNS / 8;
    int turn = CHUNKS >= 8 ? row & 7 : row >> 1 & 3;
    return (row * CHUNKS + (chunk ^ turn)) * 16;
}

/* Loads eight elements, of which `left` exist, and sets the others to zero. */
DEVICE void load_chunk(unsigned char *shared, const bf16 *from, int left, bool aligned) {
    if (aligned && left >= 8) {
        copy_async(shared, from, true);
        return;
    }
    words4 words = {{0, 0, 0, 0}};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t low = 2 * i < left ? from[2 * i].bits : 0;
        uint32_t high = 2 * i + 1 < left ? from[2 * i + 1].bits : 0;
        words.word[i] = low | high << 16;
    }
    *(words4 *)shared = words;
}

/* A thread's part of one operand: COUNT chunks at the same column of rows that are ROWS_APART
 * apart. DEPTH_ALONG: stored rows run along the depth ([TILE, DEPTH]); else across it ([DEPTH,
 * TILE]). */
template <int TILE, int THREADS, bool DEPTH_ALONG> struct operand {
    static constexpr int COLUMNS = DEPTH_ALONG ? MATMUL_DEPTH : TILE;
    static constexpr int CHUNKS = COLUMNS / 8;
    static constexpr int COUNT = TILE * MATMUL_DEPTH / 8 / THREADS;
    static constexpr int ROWS_APART = THREADS / CHUNKS;
    const bf16 *from; /* the first chunk at the next depth */
    int across;       /* existing lanes of the tile from the chunk's first on */
};

/* `lanes`: number of rows of A or columns of B from `lane` on. */
template <int TILE, int THREADS, bool DEPTH_ALONG>
DEVICE void operand_init(operand<TILE, THREADS, DEPTH_ALONG> &own, const void *base, int64_t stride,
                         int64_t lane, int64_t lanes) {
    typedef operand<TILE, THREADS, DEPTH_ALONG> shape;
    int most = lanes < TILE ? (int)lanes : TILE;
    int row = (int)threadIdx.x / shape::CHUNKS;
    int column = (int)threadIdx.x % shape::CHUNKS * 8;
    int64_t at = DEPTH_ALONG ? (lane + row) * stride + column : row * stride + lane + column;
    own.from = (const bf16 *)base + at;
    own.across = most - (DEPTH_ALONG ? row : column);
}

/* Start loading the next stage, of which `depth` depths exist. */
template <int TILE, int THREADS, bool DEPTH_ALONG>
DEVICE void operand_load(operand<TILE, THREADS, DEPTH_ALONG> &own, unsigned char *shared,
                         int64_t stride, bool aligned, int depth) {
    typedef operand<TILE, THREADS, DEPTH_ALONG> shape;
#pragma unroll
    for (int i = 0; i < shape::COUNT; i++) {
        int row = (int)threadIdx.x / shape::CHUNKS + i * shape::ROWS_APART;
        int chunk = (int)threadIdx.x % shape::CHUNKS;
        int left = row < depth ? own.across : 0;
        if (DEPTH_ALONG) {
            left = own.across > i * shape::ROWS_APART ? depth - chunk * 8 : 0;
        }
        load_chunk(shared + chunk_offset<shape::COLUMNS>(row, chunk),
                   own.from + i * shape::ROWS_APART * stride, left, aligned);
    }
    own.from += MATMUL_DEPTH * (DEPTH_ALONG ? 1 : stride);
}

/* The 16 x 16 elements at (lane, depth) of a stage, in the order of mma's A: the lower eight lanes
 * and depths, upper lanes, upper depths, both upper. */
template <int TILE, bool DEPTH_ALONG>
DEVICE void load_left(uint32_t part[4], const unsigned char *stage, int lane, int depth) {
    int thread = (int)threadIdx.x % WARP;
    int within = thread % 8;
    int upper_lanes = thread / 8 % 2 * 8;
    int upper_depths = thread / 16 * 8;
    if (DEPTH_ALONG) {
        load_matrices(part, stage + chunk_offset<MATMUL_DEPTH>(lane + upper_lanes + within,
                                                               (depth + upper_depths) / 8));
    } else {
        load_matrices_transposed(part, stage + chunk_offset<TILE>(depth + upper_depths + within,
                                                                  (lane + upper_lanes) / 8));
    }
}

/* The same for two neighbouring B of 8 columns each: upper depths come before upper columns. */
template <int TILE, bool DEPTH_ALONG>
DEVICE void load_right(uint32_t part[4], const unsigned char *stage, int lane, int depth) {
    int thread = (int)threadIdx.x % WARP;
    int within = thread % 8;
    int upper_depths = thread / 8 % 2 * 8;
    int upper_lanes = thread / 16 * 8;
    if (DEPTH_ALONG) {
        load_matrices(part, stage + chunk_offset<MATMUL_DEPTH>(lane + upper_lanes + within,
                                                               (depth + upper_depths) / 8));
    } else {
        load_matrices_transposed(part, stage + chunk_offset<TILE>(depth + upper_depths + within,
                                                                  (lane + upper_lanes) / 8));
    }
}

/* A warp computes ROWS x COLUMNS of the tile; a row of the tile has TILE / COLUMNS warps. */
template <int TILE, int ROWS, int COLUMNS, bool TRANSPOSE_A, bool TRANSPOSE_B>
DEVICE void multiply_stage(float (&sums)[ROWS / 16][COLUMNS / 8][4], const unsigned char *a,
                           const unsigned char *b) {
    int warp = (int)threadIdx.x / WARP;
    int row = warp / (TILE / COLUMNS) * ROWS;
    int column = warp % (TILE / COLUMNS) * COLUMNS;
#pragma unroll
    for (int depth = 0; depth < MATMUL_DEPTH; depth += 16) {
        uint32_t right[COLUMNS / 16][4];
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; j++) {
            load_right<TILE, TRANSPOSE_B>(right[j], b, column + j * 16, depth);
        }
#pragma unroll
        for (int i = 0; i < ROWS / 16; i++) {
            uint32_t left[4];
            load_left<TILE, !TRANSPOSE_A>(left, a, row + i * 16, depth);
#pragma unroll
            for (int j = 0; j < COLUMNS / 8; j++) {
                mma_bf16(sums[i][j], left, right[j / 2] + j % 2 * 2);
            }
        }
    }
}

template <int TILE, int ROWS, int COLUMNS>
DEVICE void store_sums(const matmul_params &p, tile_origin origin,
                       const float (&sums)[ROWS / 16][COLUMNS / 8][4]) {
    ending how = {p.accumulate != 0, true};
    int warp = (int)threadIdx.x / WARP;
    int thread = (int)threadIdx.x % WARP;
    int64_t row = origin.row + warp / (TILE / COLUMNS) * ROWS + thread / 4;
    int64_t column = origin.column + warp % (TILE / COLUMNS) * COLUMNS + thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < ROWS / 16; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++) {
            const float *sum = sums[i][j];
            store_pair<bf16>(p, how, row + i * 16, column + j * 8, sum);
            store_pair<bf16>(p, how, row + i * 16 + 8, column + j * 8, sum + 2);
        }
    }
}

template <int TILE, int ROWS, int COLUMNS, bool TRANSPOSE_A, bool TRANSPOSE_B>
DEVICE void product_bf16(const matmul_params &p) {
    constexpr int THREADS = TILE / ROWS * (TILE / COLUMNS) * WARP;
    constexpr int PART_BYTES = TILE * MATMUL_DEPTH * 2;
    DYNAMIC_SHARED(stages);
    tile_origin origin = tile_of_block<TILE>(p);
    operand<TILE, THREADS, !TRANSPOSE_A> a;
    operand<TILE, THREADS, TRANSPOSE_B> b;
    operand_init(a, p.a, p.lda, origin.row, p.m - origin.row);
    operand_init(b, p.b, p.ldb, origin.column, p.n - origin.column);
    float sums[ROWS / 16][COLUMNS / 8][4] = {};
    int64_t coming = p.k; /* depths that are not requested yet */
    int steps = (int)((p.k + MATMUL_DEPTH - 1) / MATMUL_DEPTH);
    /* One group for each stage, even an empty one, so that the number of groups is the number of
     * stages. */
    for (int step = 1 - MATMUL_STAGES; step < steps; step++) {
        if (step >= 0) {
            copy_wait<MATMUL_STAGES - 2>();
            __syncthreads();
        }
        if (coming > 0) {
            int depth = coming < MATMUL_DEPTH ? (int)coming : MATMUL_DEPTH;
            unsigned char *stage =
                stages + (step + MATMUL_STAGES - 1) % MATMUL_STAGES * 2 * PART_BYTES;
            operand_load(a, stage, p.lda, p.a_aligned != 0, depth);
            operand_load(b, stage + PART_BYTES, p.ldb, p.b_aligned != 0, depth);
            coming -= depth;
        }
        copy_commit();
        if (step >= 0) {
            const unsigned char *stage = stages + step % MATMUL_STAGES * 2 * PART_BYTES;
            multiply_stage<TILE, ROWS, COLUMNS, TRANSPOSE_A, TRANSPOSE_B>(sums, stage,
                                                                          stage + PART_BYTES);
        }
    }
    store_sums<TILE, ROWS, COLUMNS>(p, origin, sums);
}

#define PRODUCT_BF16(name, transpose_a, transpose_b)                                               \
    BOUNDED_KERNEL(matmul_bf16_##name##_large, matmul_params, 256, 2) {                            \
        product_bf16<MATMUL_TILE_LARGE, 64, 32, transpose_a, transpose_b>(p);                      \
    }                                                                                              \
    BOUNDED_KERNEL(matmul_bf16_##name##_small, matmul_params, 128, 4) {                            \
        product_bf16<MATMUL_TILE_SMALL, 32, 32, transpose_a, transpose_b>(p);                      \
    }

PRODUCT_BF16(nn, false, false)
PRODUCT_BF16(nt, false, true)
PRODUCT_BF16(tn, true, false)
PRODUCT_BF16(tt, true, true)

/* ---- f32 ---- */

/* Loads four elements of a stored row, of which `left` exist. */
DEVICE void load_four(float value[4], const float *from, int left, bool aligned) {
    if (aligned && left >= 4) {
        words4 words = *(const words4 *)from;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            value[i] = bits_to_float(words.word[i]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        value[i] = i < left ? from[i] : 0.0f;
    }
}

/* Depths of a stage: each thread loads four elements of each operand. */
template <int TILE> struct shape_f32 {
    static constexpr int DEPTH = 4 * MATMUL_F32_THREADS / TILE;
    static constexpr int ROW = TILE + MATMUL_F32_PADDING;
    static constexpr int PART = DEPTH * ROW;
};

/* One operand's part of a stage has layout [DEPTH, TILE] in shared memory; an operand stored
 * otherwise is transposed in registers. */
struct operand_f32 {
    const float *from; /* the thread's four elements at the next depth */
    int across;        /* existing lanes from the thread's first on */
    int depth;         /* of the thread's first element, within a stage */
    int at;            /* where they go */
};

template <int TILE>
DEVICE operand_f32 operand_f32_init(const void *base, int64_t stride, tile_origin lanes,
                                    bool depth_along) {
    typedef shape_f32<TILE> shape;
    int quads = (depth_along ? shape::DEPTH : TILE) / 4;
    int row = (int)threadIdx.x / quads;
    int column = (int)threadIdx.x % quads * 4;
    int lane = depth_along ? row : column;
    int most = lanes.column < TILE ? (int)lanes.column : TILE;
    operand_f32 own;
    own.depth = depth_along ? column : row;
    own.across = most - lane;
    own.at = own.depth * shape::ROW + lane;
    own.from = (const float *)base + (depth_along ? (lanes.row + row) * stride + column
                                                  : row * stride + lanes.row + lane);
    return own;
}

/* Load the next stage to registers, of which `depths` depths exist. */
template <int TILE>
DEVICE void fetch(operand_f32 &own, float value[4], int64_t stride, bool depth_along, bool aligned,
                  int64_t depths) {
    typedef shape_f32<TILE> shape;
    int within = depths < shape::DEPTH ? (int)depths : shape::DEPTH;
    int left = own.depth < within ? own.across : 0;
    if (depth_along) {
        left = own.across > 0 ? within - own.depth : 0;
    }
    load_four(value, own.from, left, aligned);
    own.from += shape::DEPTH * (depth_along ? 1 : stride);
}

template <int TILE>
DEVICE void keep(const operand_f32 &own, const float value[4], bool depth_along, float *stage) {
    int step = depth_along ? shape_f32<TILE>::ROW : 1;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        stage[own.at + i * step] = value[i];
    }
}

/* One stage of both operands. */
struct fetched {
    float a[4], b[4];
};

template <int TILE>
DEVICE void fetch_both(const matmul_params &p, operand_f32 &a, operand_f32 &b, fetched &next,
                       int64_t depths) {
    fetch<TILE>(a, next.a, p.lda, !p.transpose_a, p.a_aligned != 0, depths);
    fetch<TILE>(b, next.b, p.ldb, p.transpose_b != 0, p.b_aligned != 0, depths);
}

/* A thread's rows or columns of the tile: four neighbours in every 64. */
template <int TILE> DEVICE void take(float (&values)[TILE / 16], const float *row, int first) {
#pragma unroll
    for (int part = 0; part < TILE / 64; part++) {
        words4 words = *(const words4 *)(row + part * 64 + first);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values[part * 4 + i] = bits_to_float(words.word[i]);
        }
    }
}

template <int TILE>
DEVICE void multiply_stage_f32(float (&sums)[TILE / 16][TILE / 16], const float *stage, int row,
                               int column) {
    typedef shape_f32<TILE> shape;
#pragma unroll 1
    for (int depth = 0; depth < shape::DEPTH; depth++) {
        float left[TILE / 16], right[TILE / 16];
        take<TILE>(left, stage + depth * shape::ROW, row);
        take<TILE>(right, stage + shape::PART + depth * shape::ROW, column);
#pragma unroll
        for (int i = 0; i < TILE / 16; i++) {
#pragma unroll
            for (int j = 0; j < TILE / 16; j++) {
                sums[i][j] = fma_exact(left[i], right[j], sums[i][j]);
            }
        }
    }
}

/* Stores the sums and resets them to 0. */
template <int TILE>
DEVICE void store_sums_f32(const matmul_params &p, ending how, tile_origin origin,
                           float (&sums)[TILE / 16][TILE / 16]) {
#pragma unroll
    for (int i = 0; i < TILE / 16; i++) {
#pragma unroll
        for (int j = 0; j < TILE / 16; j += 2) {
            store_pair<float>(p, how, origin.row + i / 4 * 64 + i % 4,
                              origin.column + j / 4 * 64 + j % 4, sums[i] + j);
            sums[i][j] = sums[i][j + 1] = 0;
        }
    }
}

/* After every MATMUL_F32_BLOCK depths the sums are added to C, so that small terms are not added to
 * a large sum one by one, which would lose their low bits. */
template <int TILE> DEVICE void product_f32(const matmul_params &p) {
    typedef shape_f32<TILE> shape;
    constexpr int EACH = TILE / 16; /* rows, and columns, of a thread */
    DYNAMIC_SHARED(bytes);
    tile_origin origin = tile_of_block<TILE>(p);
    operand_f32 a = operand_f32_init<TILE>(p.a, p.lda, tile_origin{origin.row, p.m - origin.row},
                                           !p.transpose_a);
    operand_f32 b = operand_f32_init<TILE>(
        p.b, p.ldb, tile_origin{origin.column, p.n - origin.column}, p.transpose_b != 0);
    int row = (int)threadIdx.x / 16 * 4;
    int column = (int)threadIdx.x % 16 * 4;
    float sums[EACH][EACH] = {};
    fetched next;
    fetch_both<TILE>(p, a, b, next, p.k);
    int turn = 0;
    ending how = {p.accumulate != 0, false};
#pragma unroll 1
    for (int64_t left = p.k; left > 0;) {
        int64_t rest = left > MATMUL_F32_BLOCK && !p.out_bf16 ? left - MATMUL_F32_BLOCK : 0;
#pragma unroll 1
        for (; left > rest; left -= shape::DEPTH) {
            float *stage = (float *)bytes + turn * 2 * shape::PART;
            keep<TILE>(a, next.a, !p.transpose_a, stage);
            keep<TILE>(b, next.b, p.transpose_b != 0, stage + shape::PART);
            __syncthreads();
            if (left > shape::DEPTH) {
                fetch_both<TILE>(p, a, b, next, left - shape::DEPTH);
            }
            multiply_stage_f32<TILE>(sums, stage, row, column);
            turn ^= 1;
        }
        how.last = left <= 0;
        store_sums_f32<TILE>(p, how, tile_origin{origin.row + row, origin.column + column}, sums);
        how.adds = true;
    }
}

BOUNDED_KERNEL(matmul_f32_large, matmul_params, MATMUL_F32_THREADS, 1) {
    product_f32<MATMUL_TILE_LARGE>(p);
}
BOUNDED_KERNEL(matmul_f32_small, matmul_params, MATMUL_F32_THREADS, 2) {
    product_f32<MATMUL_TILE_SMALL>(p);
}
