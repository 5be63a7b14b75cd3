/* What the threads of a warp do together, and copies that run beside them. */
#include "tests/emulated/block.h"

#include "base/check.h"
#include "base/dtype.h"

#include <math.h>
#include <string.h>

enum { COPY_BYTES = 16, COPY_GARBAGE = 0xFF };

static struct thread *current_thread(void) {
    return &emulated_block.threads[emulated_block.current];
}

void emulated_warp_barrier(int line) {
    emulated_step(&(struct step){.kind = STEP_SYNC, .line = line});
}

uint32_t emulated_shuffle(uint32_t value, int lane, int line) {
    const struct warp *warp = &emulated_block.warps[emulated_block.current / LANES];
    unsigned turn = warp->steps % 2;
    if (lane < 0 || lane >= LANES) {
        emulated_fail("a shuffle from lane %d in line %d", lane, line);
    }
    emulated_step(&(struct step){.kind = STEP_SHUFFLE, .line = line, .value = value});
    return warp->brought[turn][lane];
}

/* ---- tensor cores ---- */

enum { TILE_M = 16, TILE_N = 8, TILE_K = 16 };

void emulated_mma(float d[4], const uint32_t a[4], const uint32_t b[2], int line) {
    emulated_step(&(struct step){.kind = STEP_MMA, .line = line, .in = {a, b}, .out = d});
}

static float half_of(uint32_t packed, int half) {
    return bf16_to_f32((uint16_t)(packed >> (16 * half)));
}

/* Tensor cores cut off what does not fit, they do not round to nearest. */
static float toward_zero(double value) {
    float rounded = (float)value;
    return isfinite(rounded) && fabs((double)rounded) > fabs(value) ? nextafterf(rounded, 0)
                                                                    : rounded;
}

/* Row `i` of a lies in the threads 4 (i % 8) .. + 3, columns 2 t and 2 t + 1 of its halves in
 * thread t of them; b the same with its columns. */
static void take_mma(const struct thread threads[LANES]) {
    float a[TILE_M][TILE_K];
    float b[TILE_N][TILE_K];
    for (int lane = 0; lane < LANES; lane++) {
        const uint32_t *in_a = threads[lane].step.in[0];
        const uint32_t *in_b = threads[lane].step.in[1];
        int group = lane / 4;
        int column = lane % 4 * 2;
        for (int i = 0; i < 8; i++) {
            int half = i % 2;
            int part = i / 2;
            a[group + part % 2 * 8][column + part / 2 * 8 + half] = half_of(in_a[part], half);
        }
        for (int i = 0; i < 4; i++) {
            b[group][column + i / 2 * 8 + i % 2] = half_of(in_b[i / 2], i % 2);
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        float *d = threads[lane].step.out;
        for (int i = 0; i < 4; i++) {
            const float *row = a[lane / 4 + i / 2 * 8];
            const float *column = b[lane % 4 * 2 + i % 2];
            double sum = (double)d[i];
            for (int k = 0; k < TILE_K; k++) {
                sum += (double)row[k] * (double)column[k];
            }
            d[i] = toward_zero(sum);
        }
    }
}

void emulated_load_matrices(uint32_t r[4], const void *row, bool transposed, int line) {
    if ((uintptr_t)row % 16 != 0 || !shared_holds(row, 16)) {
        emulated_fail("line %d loads a matrix row that is not 16 aligned bytes of shared memory",
                      line);
    }
    emulated_step(&(struct step){.kind = transposed ? STEP_LOAD_TRANSPOSED : STEP_LOAD,
                                 .line = line,
                                 .in = {row},
                                 .out = r});
}

static uint16_t element_of(const struct thread threads[LANES], int matrix, int row, int column) {
    uint16_t bits;
    memcpy(&bits, (const char *)threads[matrix * 8 + row].step.in[0] + 2 * column, sizeof bits);
    return bits;
}

static void take_load(const struct thread threads[LANES], bool transposed) {
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t *r = threads[lane].step.out;
        for (int matrix = 0; matrix < 4; matrix++) {
            int outer = lane / 4;
            int inner = lane % 4 * 2;
            uint32_t low = transposed ? element_of(threads, matrix, inner, outer)
                                      : element_of(threads, matrix, outer, inner);
            uint32_t high = transposed ? element_of(threads, matrix, inner + 1, outer)
                                       : element_of(threads, matrix, outer, inner + 1);
            r[matrix] = low | high << 16;
        }
    }
}

void step_take(struct warp *warp, struct thread threads[LANES]) {
    switch (threads[0].step.kind) {
    case STEP_SYNC:
        break;
    case STEP_SHUFFLE:
        for (int lane = 0; lane < LANES; lane++) {
            warp->brought[warp->steps % 2][lane] = threads[lane].step.value;
        }
        break;
    case STEP_MMA:
        take_mma(threads);
        break;
    case STEP_LOAD:
    case STEP_LOAD_TRANSPOSED:
        take_load(threads, threads[0].step.kind == STEP_LOAD_TRANSPOSED);
        break;
    }
    warp->steps++;
}

/* ---- copies ---- */

void emulated_global(const void *global) {
    if (shared_holds(global, 1)) {
        emulated_fail("gives shared memory to what takes global memory");
    }
}

void emulated_copy(void *shared, const void *global, bool valid) {
    struct thread *thread = current_thread();
    emulated_global(global);
    bool aligned =
        (uintptr_t)shared % COPY_BYTES == 0 && (!valid || (uintptr_t)global % COPY_BYTES == 0);
    if (!aligned || !shared_holds(shared, COPY_BYTES)) {
        emulated_fail("copies to or from what is not aligned to 16, or not into shared memory");
    }
    if (thread->copy_count == COPIES_MAX) {
        emulated_fail("more than %d copies under way", COPIES_MAX);
    }
    memset(shared, COPY_GARBAGE, COPY_BYTES);
    thread->copies[thread->copy_count++] =
        (struct copy){shared, valid ? global : NULL, thread->group};
}

void emulated_copy_commit(void) {
    current_thread()->group++;
}

void emulated_copy_wait(int pending) {
    struct thread *thread = current_thread();
    int landed = 0;
    while (landed < thread->copy_count && thread->copies[landed].group < thread->group - pending) {
        const struct copy *copy = &thread->copies[landed++];
        if (copy->from != NULL) {
            memcpy(copy->to, copy->from, COPY_BYTES);
        } else {
            memset(copy->to, 0, COPY_BYTES);
        }
    }
    thread->copy_count -= landed;
    memmove(thread->copies, thread->copies + landed,
            (size_t)thread->copy_count * sizeof thread->copies[0]);
}
