/* Rows are read from memory once; a second pass over a row finds it in a cache. A thread processes
 * the same columns in every pass and every row, so no other thread accesses its part of a row or of
 * the sums of dweight and dbias. */

#include "kernels/cuda/device/element_spans.h"
#include "kernels/cuda/device/norm_params.h"
#include "kernels/cuda/device/partials.h"

struct pair {
    float a, b;
};

/* Both sums over the threads of a team, returned to every thread of it. `turn` alternates from call
 * to call, so that a fast warp never overwrites what a slow one still reads. */
template <int warps> DEVICE pair team_sum(pair values, int turn) {
    values = pair{warp_sum(values.a), warp_sum(values.b)};
    if (warps == 1) {
        return values;
    }
    SHARED(pair, of_warps, 2 * CUDA_NORM_WARPS);
    pair *sums = of_warps + turn % 2 * warps;
    if (threadIdx.x % WARP == 0) {
        sums[threadIdx.x / WARP] = values;
    }
    __syncthreads();
    pair total = {0, 0};
    for (int i = 0; i < warps; i++) {
        total.a += sums[i].a;
        total.b += sums[i].b;
    }
    return total;
}

/* ---- forward ---- */

template <typename T, int width, int warps> struct forward_row {
    const T *x;
    int first, step, dim;

    DEVICE float sum_of(bool squares, float about) const {
        float total = 0;
        for (int i = first; i < dim; i += step) {
            float values[width];
            load_span<T, width>(x + i, true, width, values);
            for (int j = 0; j < width; j++) {
                float value = values[j] - about;
                total += squares ? value * value : value;
            }
        }
        return total;
    }
};

template <typename T, int width, int warps>
DEVICE void norm_forward(const cuda_norm_forward_params &p) {
    constexpr int team_threads = warps * WARP;
    int64_t row = (int64_t)blockIdx.x * (CUDA_NORM_WARPS / warps) + threadIdx.x / team_threads;
    if (row >= p.rows) {
        return; /* a whole team returns; if the team is the block, this never happens */
    }
    int dim = (int)p.dim;
    int lane = (int)threadIdx.x % team_threads;
    forward_row<T, width, warps> in = {static_cast<const T *>(p.x) + row * p.dim, lane * width,
                                       team_threads * width, dim};
    const T *weight = static_cast<const T *>(p.weight);
    const T *bias = static_cast<const T *>(p.bias);
    T *out = static_cast<T *>(p.out) + row * p.dim;
    float mean = 0;
    if (bias != nullptr) {
        mean = team_sum<warps>(pair{in.sum_of(false, 0), 0}, 0).a / (float)dim;
    }
    float squares = team_sum<warps>(pair{in.sum_of(true, mean), 0}, 1).a;
    float inverse = div_exact(1, sqrt_exact(squares / (float)dim + p.epsilon));
    for (int i = in.first; i < dim; i += in.step) {
        float values[width];
        float weights[width];
        float biases[width] = {};
        load_span<T, width>(in.x + i, true, width, values);
        load_span<T, width>(weight + i, true, width, weights);
        if (bias != nullptr) {
            load_span<T, width>(bias + i, true, width, biases);
        }
        for (int j = 0; j < width; j++) {
            float scaled = (values[j] - mean) * inverse;
            scaled = bias != nullptr ? scaled : to_float(from_float<T>(scaled));
            values[j] = scaled * weights[j] + biases[j];
        }
        store_span<T, width>(out + i, true, width, values);
    }
    if (lane == 0) {
        p.inverse[row] = inverse;
        if (bias != nullptr) {
            p.mean[row] = mean;
        }
    }
}

/* ---- backward ---- */

/* The buffers in which a team sums dweight and dbias. */
struct team_sums {
    float *dweight, *dbias;
};

/* The index of column `i` + `j` of a thread among the sums. In shared memory the elements of a
 * team's threads are adjacent, and therefore in different banks. */
template <int width, int warps, bool in_shared> DEVICE int sum_index(int i, int j, int lane) {
    return in_shared ? i - lane * width + j * warps * WARP + lane : i + j;
}

/* The work of a team's thread at `lane` on one row. */
template <typename T, int width, int warps, bool in_shared> struct backward_row {
    const cuda_norm_backward_params &p;
    int64_t row;
    int lane, turn;

    DEVICE void load(const void *tensor, int64_t at, float values[width]) const {
        load_span<T, width>(static_cast<const T *>(tensor) + at, true, width, values);
    }

    /* The means over the row of dout x weight, and of dout x weight x normalized x. */
    DEVICE pair means(float mean, float inverse) const {
        pair sums = {0, 0};
        for (int i = lane * width; i < p.dim; i += warps * WARP * width) {
            float x[width];
            float dout[width];
            float weight[width];
            load(p.x, row * p.dim + i, x);
            load(p.dout, row * p.dim + i, dout);
            load(p.weight, i, weight);
            for (int j = 0; j < width; j++) {
                float gradient = dout[j] * weight[j];
                sums.a += gradient;
                sums.b += gradient * ((x[j] - mean) * inverse);
            }
        }
        sums = team_sum<warps>(sums, turn);
        return pair{p.mean != nullptr ? sums.a / (float)p.dim : 0, sums.b / (float)p.dim};
    }

    DEVICE void add_sums(team_sums sums, int i, const float dout[width],
                         const float scaled[width]) const {
        for (int j = 0; j < width && p.dweight != nullptr; j++) {
            sums.dweight[sum_index<width, warps, in_shared>(i, j, lane)] += dout[j] * scaled[j];
        }
        for (int j = 0; j < width && p.dbias != nullptr; j++) {
            sums.dbias[sum_index<width, warps, in_shared>(i, j, lane)] += dout[j];
        }
    }

    DEVICE void run(team_sums sums) const {
        float mean = p.mean != nullptr ? p.mean[row] : 0;
        float inverse = p.inverse[row];
        pair of_row = means(mean, inverse);
        for (int i = lane * width; i < p.dim; i += warps * WARP * width) {
            float scaled[width];
            float dout[width];
            float values[width];
            float add[width] = {};
            load(p.x, row * p.dim + i, scaled);
            load(p.dout, row * p.dim + i, dout);
            load(p.weight, i, values);
            for (int j = 0; j < width; j++) {
                scaled[j] = (scaled[j] - mean) * inverse;
            }
            add_sums(sums, i, dout, scaled);
            if (p.dx == nullptr) {
                continue;
            }
            if (p.dadd != nullptr) {
                load(p.dadd, row * p.dim + i, add);
            }
            for (int j = 0; j < width; j++) {
                float gradient = dout[j] * values[j] - of_row.a - scaled[j] * of_row.b;
                values[j] = add[j] + gradient * inverse;
            }
            store_span<T, width>(static_cast<T *>(p.dx) + row * p.dim + i, true, width, values);
        }
    }
};

/* Processes a team's rows, one after the other. */
template <typename T, int width, int warps, bool in_shared>
DEVICE void norm_backward_rows(const cuda_norm_backward_params &p, team_sums sums) {
    int team = (int)threadIdx.x / (warps * WARP);
    int lane = (int)threadIdx.x % (warps * WARP);
    for (int i = lane * width; i < p.dim; i += warps * WARP * width) {
        for (int j = 0; j < width && p.dweight != nullptr; j++) {
            sums.dweight[sum_index<width, warps, in_shared>(i, j, lane)] = 0;
        }
        for (int j = 0; j < width && p.dbias != nullptr; j++) {
            sums.dbias[sum_index<width, warps, in_shared>(i, j, lane)] = 0;
        }
    }
    int64_t teams = CUDA_NORM_WARPS / warps;
    int64_t first = ((int64_t)blockIdx.x * teams + team) * CUDA_NORM_ROWS_PER_TEAM;
    for (int i = 0; i < CUDA_NORM_ROWS_PER_TEAM && first + i < p.rows; i++) {
        backward_row<T, width, warps, in_shared>{p, first + i, lane, i}.run(sums);
    }
}

/* One column of dweight or dbias, summed over all teams. */
template <int width, int warps>
DEVICE float team_total(const cuda_norm_backward_params &p, const float *sums, int column) {
    constexpr int step = warps * WARP * width;
    int lane = column % step / width;
    int j = column % width;
    float total = 0;
    for (int team = 0; team < CUDA_NORM_WARPS / warps; team++) {
        total += sums[team * p.shared_columns + sum_index<width, warps, true>(column - j, j, lane)];
    }
    return total;
}

template <typename T, int width, int warps>
DEVICE void norm_backward(const cuda_norm_backward_params &p) {
    constexpr int teams = CUDA_NORM_WARPS / warps;
    DYNAMIC_SHARED(bytes);
    team_sums chunk = {p.dweight != nullptr ? p.dweight + blockIdx.x * p.dim : nullptr,
                       p.dbias != nullptr ? p.dbias + blockIdx.x * p.dim : nullptr};
    if (warps > 1 && p.shared_columns == 0) {
        norm_backward_rows<T, width, warps, false>(p, chunk);
        return;
    }
    float *dweight = reinterpret_cast<float *>(bytes); /* [teams, shared_columns] */
    float *dbias = p.dweight != nullptr ? dweight + teams * p.shared_columns : dweight;
    int own = (int)threadIdx.x / (warps * WARP) * p.shared_columns;
    norm_backward_rows<T, width, warps, true>(p, team_sums{dweight + own, dbias + own});
    __syncthreads();
    for (int i = (int)threadIdx.x; i < p.dim; i += CUDA_NORM_THREADS) {
        if (p.dweight != nullptr) {
            chunk.dweight[i] = team_total<width, warps>(p, dweight, i);
        }
        if (p.dbias != nullptr) {
            chunk.dbias[i] = team_total<width, warps>(p, dbias, i);
        }
    }
}

#define NORM_KERNELS(suffix, T, width, warps)                                                      \
    BOUNDED_KERNEL(norm_forward_##suffix, cuda_norm_forward_params, CUDA_NORM_THREADS, 4) {        \
        norm_forward<T, width, warps>(p);                                                          \
    }                                                                                              \
    BOUNDED_KERNEL(norm_backward_##suffix, cuda_norm_backward_params, CUDA_NORM_THREADS, 2) {      \
        norm_backward<T, width, warps>(p);                                                         \
    }
NORM_KERNELS(f32, float, 1, CUDA_NORM_WARPS)
NORM_KERNELS(bf16, bf16, 1, CUDA_NORM_WARPS)
NORM_KERNELS(short_f32, float, 1, 1)
NORM_KERNELS(short_bf16, bf16, 1, 1)
NORM_KERNELS(wide_f32, float, 4, CUDA_NORM_WARPS)
NORM_KERNELS(wide_bf16, bf16, 8, CUDA_NORM_WARPS)
NORM_KERNELS(wide_short_f32, float, 4, 1)
NORM_KERNELS(wide_short_bf16, bf16, 8, 1)

BOUNDED_KERNEL(norm_add, cuda_partials_params, CUDA_PARTIALS_THREADS, 4) {
    add_partial_sums(p);
}
