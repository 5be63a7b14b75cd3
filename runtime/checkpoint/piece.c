#include "runtime/checkpoint/piece.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

/* Floats between the two types of a conversion: small enough for the stack and the first cache. */
enum { BLOCK_ELEMENTS = 1024 };

struct tensor_piece piece_of_spec(const struct tensor_spec *spec, void *memory) {
    struct tensor_piece piece = {
        .name = spec->name, .dtype = spec->dtype, .rank = spec->rank, .memory = memory};
    memcpy(piece.shape, spec->shape, sizeof piece.shape);
    return piece;
}

static int64_t elements_of(const int64_t *shape, int rank) {
    int64_t elements = 1;
    for (int axis = 0; axis < rank; axis++) {
        elements *= shape[axis];
    }
    return elements;
}

int64_t spec_elements(const struct tensor_spec *spec) {
    return elements_of(spec->shape, spec->rank);
}

int64_t piece_elements(const struct tensor_piece *piece) {
    return elements_of(piece->shape, piece->rank);
}

int64_t piece_count(const struct tensor_piece *piece) {
    return piece->count > 0 ? piece->count : piece_elements(piece);
}

/* A type's two ways. */
#define CONVERSIONS(type, element)                                                                 \
    static void type##_widen(const void *restrict elements, int64_t count,                         \
                             float *restrict values) {                                             \
        const element *restrict from = elements;                                                   \
        for (int64_t i = 0; i < count; i++) {                                                      \
            values[i] = type##_to_f32(from[i]);                                                    \
        }                                                                                          \
    }                                                                                              \
    static void type##_round(const float *restrict values, int64_t count,                          \
                             void *restrict elements) {                                            \
        element *restrict to = elements;                                                           \
        for (int64_t i = 0; i < count; i++) {                                                      \
            to[i] = type##_from_f32(values[i]);                                                    \
        }                                                                                          \
    }

static inline float f32_to_f32(float value) {
    return value;
}

static inline float f32_from_f32(float value) {
    return value;
}

CONVERSIONS(f32, float)
CONVERSIONS(bf16, uint16_t)
CONVERSIONS(f16, uint16_t)

static const struct {
    void (*widen)(const void *elements, int64_t count, float *values);
    void (*round)(const float *values, int64_t count, void *elements);
} CONVERTED[DTYPE_COUNT] = {[DTYPE_F32] = {f32_widen, f32_round},
                            [DTYPE_BF16] = {bf16_widen, bf16_round},
                            [DTYPE_F16] = {f16_widen, f16_round}};

void convert_to_f32(enum dtype from, const void *elements, int64_t count, float *values) {
    ASSERT(CONVERTED[from].widen != NULL);
    CONVERTED[from].widen(elements, count, values);
}

void convert_from_f32(enum dtype to, const float *values, int64_t count, void *elements) {
    ASSERT(CONVERTED[to].round != NULL);
    CONVERTED[to].round(values, count, elements);
}

/* The least magnitude that rounds to infinity: half a unit behind the type's largest value. */
static float infinite_from(enum dtype dtype) {
    return dtype == DTYPE_BF16 ? 0x1.ffp127f : dtype == DTYPE_F16 ? 65520.0f : INFINITY;
}

/* Index of the first value that is not finite in `dtype`, or `count`. */
static int64_t first_unfit(enum dtype dtype, const float *values, int64_t count) {
    float limit = infinite_from(dtype);
    int unfit = 0;
    for (int64_t i = 0; i < count; i++) { /* without a way out, so that it vectorises */
        unfit |= !(fabsf(values[i]) < limit);
    }
    int64_t i = unfit ? 0 : count;
    while (i < count && fabsf(values[i]) < limit) {
        i++;
    }
    return i;
}

/* Elements of a piece on their way from one type to another. */
struct crossing {
    const struct tensor_piece *piece;
    const char *path;
    enum dtype from, to;
    enum status unfit; /* what it is when a value is not finite */
};

/* `count` elements, the first of which is element `first` of the tensor. */
static enum status convert(const struct crossing *crossing, int64_t first, int64_t count,
                           const void *source, void *target, struct fault *fault) {
    float values[BLOCK_ELEMENTS];
    enum dtype from = crossing->from;
    enum dtype to = crossing->to;
    for (int64_t done = 0; done < count; done += BLOCK_ELEMENTS) {
        int64_t block = count - done < BLOCK_ELEMENTS ? count - done : BLOCK_ELEMENTS;
        convert_to_f32(from, (const char *)source + done * dtype_bytes(from), block, values);
        int64_t bad = first_unfit(to, values, block);
        if (bad < block) {
            return fault_set(
                fault, crossing->unfit, crossing->path, "the weights are damaged or have diverged",
                "tensor '%s': element %lld is %g, not finite in %s", crossing->piece->name,
                (long long)(first + done + bad), (double)values[bad], dtype_name(to));
        }
        convert_from_f32(to, values, block, (char *)target + done * dtype_bytes(to));
    }
    return OK;
}

static void check_staging(const struct staging *staging) {
    ASSERT(staging != NULL && staging->bytes >= STAGING_BYTES_MIN);
    ASSERT((uintptr_t)staging->memory % 64 == 0);
}

enum status piece_write(const struct piece_place *place, const struct tensor_piece *piece,
                        const struct staging *staging, struct fault *fault) {
    int64_t width = dtype_bytes(place->dtype);
    int64_t at = place->at + piece->first * width;
    int64_t count = piece_count(piece);
    if (place->dtype == piece->dtype) {
        return file_write_at(place->fd, place->path, piece->memory, (size_t)(count * width), at,
                             fault);
    }
    check_staging(staging);
    const struct crossing out = {piece, place->path, piece->dtype, place->dtype, STATUS_FAILED};
    int64_t chunk_max = (int64_t)staging->bytes / width;
    enum status status = OK;
    for (int64_t done = 0; done < count && status == OK; done += chunk_max) {
        int64_t chunk = count - done < chunk_max ? count - done : chunk_max;
        status = convert(&out, piece->first + done, chunk,
                         (const char *)piece->memory + done * dtype_bytes(piece->dtype),
                         staging->memory, fault);
        if (status == OK) {
            status = file_write_at(place->fd, place->path, staging->memory, (size_t)(chunk * width),
                                   at + done * width, fault);
        }
    }
    return status;
}

enum status piece_read(const struct piece_place *place, const struct tensor_piece *piece,
                       bool finite_only, const struct staging *staging, struct fault *fault) {
    int64_t width = dtype_bytes(place->dtype);
    int64_t at = place->at + piece->first * width;
    int64_t count = piece_count(piece);
    if (!finite_only) {
        ASSERT(place->dtype == piece->dtype);
        return file_read_at(place->fd, place->path, piece->memory, (size_t)(count * width), at,
                            fault);
    }
    check_staging(staging);
    const struct crossing in = {piece, place->path, place->dtype, piece->dtype, STATUS_INPUT};
    int64_t chunk_max = (int64_t)staging->bytes / width;
    enum status status = OK;
    for (int64_t done = 0; done < count && status == OK; done += chunk_max) {
        int64_t chunk = count - done < chunk_max ? count - done : chunk_max;
        status = file_read_at(place->fd, place->path, staging->memory, (size_t)(chunk * width),
                              at + done * width, fault);
        if (status == OK) {
            status = convert(&in, piece->first + done, chunk, staging->memory,
                             (char *)piece->memory + done * dtype_bytes(piece->dtype), fault);
        }
    }
    return status;
}
