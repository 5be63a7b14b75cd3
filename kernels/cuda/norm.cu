/* Rows come from memory once: what a second pass over a row reads is still in a cache. Each thread
 * meets the same columns in every pass and every row, so it alone touches its part of a row and of
 * the sums of dweight and dbias. */
#include "kernels/cuda/device.h"

#include "kernels/cuda/norm_params.h"
#include "kernels/cuda/partials.h"
#include "kernels/cuda/runs.h"

struct pair {
    float a, b;
};

/* Both sums over the threads of a team, in every thread of it. `turn` alternates from call to call:
 * a fast warp writes where nobody reads any more. */
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
            load_run<T, width>(x + i, true, width, values);
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
        return; /* a whole team; where that is a block, there is no such row */
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
        load_run<T, width>(in.x + i, true, width, values);
        load_run<T, width>(weight + i, true, width, weights);
        if (bias != nullptr) {
            load_run<T, width>(bias + i, true, width, biases);
        }
        for (int j = 0; j < width; j++) {
            float scaled = (values[j] - mean) * inverse;
            scaled = bias != nullptr ? scaled : to_float(from_float<T>(scaled));
            values[j] = scaled * weights[j] + biases[j];
        }
        store_run<T, width>(out + i, true, width, values);
    }
    if (lane == 0) {
        p.inverse[row] = inverse;
        if (bias != nullptr) {
            p.mean[row] = mean;
        }
    }
}

/* ---- backward ---- */

/* Where a team adds up dweight and dbias; NULL: not made. */
struct team_sums {
    float *dweight, *dbias;
};

/* One row of a team: what its thread at `lane` has to do with it. */
template <typename T, int width, int warps> struct backward_row {
    const cuda_norm_backward_params &p;
    int64_t row;
    int lane, turn;

    DEVICE void load(const void *tensor, int64_t at, float values[width]) const {
        load_run<T, width>(static_cast<const T *>(tensor) + at, true, width, values);
    }

    /* The means over the row of the gradient before the weight, and of it times what was scaled. */
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
        for (int j = 0; j < width; j++) {
            if (sums.dweight != nullptr) {
                sums.dweight[i + j] += dout[j] * scaled[j];
            }
            if (sums.dbias != nullptr) {
                sums.dbias[i + j] += dout[j];
            }
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
            store_run<T, width>(static_cast<T *>(p.dx) + row * p.dim + i, true, width, values);
        }
    }
};

template <typename T, int width, int warps>
DEVICE void norm_backward(const cuda_norm_backward_params &p) {
    constexpr int teams = CUDA_NORM_WARPS / warps;
    DYNAMIC_SHARED(bytes);
    float *shared = reinterpret_cast<float *>(bytes); /* dweight, then dbias: [teams, dim] */
    int team = (int)threadIdx.x / (warps * WARP);
    int lane = (int)threadIdx.x % (warps * WARP);
    float *chunk_dweight = p.dweight != nullptr ? p.dweight + blockIdx.x * p.dim : nullptr;
    float *chunk_dbias = p.dbias != nullptr ? p.dbias + blockIdx.x * p.dim : nullptr;
    float *shared_dbias = p.dweight != nullptr ? shared + teams * p.dim : shared;
    team_sums sums = {chunk_dweight, chunk_dbias};
    if (p.shared_sums) {
        sums.dweight = p.dweight != nullptr ? shared + team * p.dim : nullptr;
        sums.dbias = p.dbias != nullptr ? shared_dbias + team * p.dim : nullptr;
    }
    for (int i = lane * width; i < p.dim; i += warps * WARP * width) {
        for (int j = 0; j < width; j++) {
            if (sums.dweight != nullptr) {
                sums.dweight[i + j] = 0;
            }
            if (sums.dbias != nullptr) {
                sums.dbias[i + j] = 0;
            }
        }
    }
    int64_t first = ((int64_t)blockIdx.x * teams + team) * CUDA_NORM_TEAM_ROWS;
    for (int i = 0; i < CUDA_NORM_TEAM_ROWS && first + i < p.rows; i++) {
        backward_row<T, width, warps>{p, first + i, lane, i}.run(sums);
    }
    if (!p.shared_sums) {
        return;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < p.dim; i += CUDA_NORM_THREADS) {
        float dweight = 0;
        float dbias = 0;
        for (int t = 0; t < teams; t++) {
            dweight += p.dweight != nullptr ? shared[t * p.dim + i] : 0;
            dbias += p.dbias != nullptr ? shared_dbias[t * p.dim + i] : 0;
        }
        if (p.dweight != nullptr) {
            chunk_dweight[i] = dweight;
        }
        if (p.dbias != nullptr) {
            chunk_dbias[i] = dbias;
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
    add_partials(p);
}
