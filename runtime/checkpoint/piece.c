#include "runtime/checkpoint/piece.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"

#include <math.h>
#include <string.h>

/* Number of values that one step of a conversion handles: few enough that their floats fit on the
 * stack and in the L1 cache. */
enum { BLOCK_ELEMENTS = 1024 };

struct tensor_piece piece_of_spec(const struct tensor_spec *spec, void *memory) {
    struct tensor_piece piece = {
        .name = spec->name, .dtype = spec->dtype, .rank = spec->rank, .memory = memory};
    memcpy(piece.shape, spec->shape, sizeof piece.shape);
    return piece;
}

static int64_t shape_elements(const int64_t *shape, int rank) {
    int64_t elements = 1;
    for (int axis = 0; axis < rank; axis++) {
        elements *= shape[axis];
    }
    return elements;
}

int64_t spec_elements(const struct tensor_spec *spec) {
    return shape_elements(spec->shape, spec->rank);
}

int64_t piece_tensor_elements(const struct tensor_piece *piece) {
    return shape_elements(piece->shape, piece->rank);
}

int64_t piece_range_elements(const struct tensor_piece *piece) {
    return piece->count > 0 ? piece->count : piece_tensor_elements(piece);
}

/* Defines the functions that convert arrays of one type to float and from float. */
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

/* The smallest magnitude that rounds to infinity: half a unit above the largest value. */
static float overflow_threshold(enum dtype dtype) {
    return dtype == DTYPE_BF16 ? 0x1.ffp127f : dtype == DTYPE_F16 ? 65520.0f : INFINITY;
}

/* Index of the first value that is not finite in `dtype`, or `count`. */
static int64_t first_nonfinite(enum dtype dtype, const float *values, int64_t count) {
    float limit = overflow_threshold(dtype);
    int any = 0;
    for (int64_t i = 0; i < count; i++) { /* a loop without an early exit vectorises */
        any |= !(fabsf(values[i]) < limit);
    }
    int64_t i = any ? 0 : count;
    while (i < count && fabsf(values[i]) < limit) {
        i++;
    }
    return i;
}

/* The parameters with which a piece is converted between memory and file. */
struct conversion {
    const struct tensor_piece *piece;
    const char *path;    /* file name for faults */
    enum dtype from, to; /* element types of the source and the destination */
    enum status error;   /* the status returned for a value that is not finite */
};

/* Converts `count` elements; the first one is element `first` of the tensor. */
static enum status convert_elements(const struct conversion *conversion, int64_t first,
                                    int64_t count, const void *source, void *target,
                                    struct fault *fault) {
    float values[BLOCK_ELEMENTS];
    enum dtype from = conversion->from;
    enum dtype to = conversion->to;
    for (int64_t done = 0; done < count; done += BLOCK_ELEMENTS) {
        int64_t block = min_i64(count - done, BLOCK_ELEMENTS);
        convert_to_f32(from, (const char *)source + done * dtype_bytes(from), block, values);
        int64_t bad = first_nonfinite(to, values, block);
        if (bad < block) {
            return fault_set(fault, conversion->error, conversion->path,
                             "the weights are damaged or have diverged",
                             "tensor '%s': element %lld is %g, which is not finite in %s",
                             conversion->piece->name, (long long)(first + done + bad),
                             (double)values[bad], dtype_name(to));
        }
        convert_from_f32(to, values, block, (char *)target + done * dtype_bytes(to));
    }
    return OK;
}

static void check_staging(const struct staging *staging) {
    ASSERT(staging != NULL && staging->bytes >= STAGING_BYTES_MIN);
    ASSERT((uintptr_t)staging->memory % 64 == 0);
}

/* ---- between a file and memory ---- */

/* A piece passes through the staging buffer in chunks. A piece in device memory uses one half of
 * the buffer for its own bytes and the other for the bytes of the file. */
struct chunks {
    /* chunk in the file's type; chunk in the piece's type (NULL for a piece in host memory) */
    char *file_bytes, *memory_bytes;
    int64_t chunk_max; /* maximum number of elements of one chunk */
};

static struct chunks plan_chunks(const struct tensor_piece *piece, int64_t width,
                                 const struct staging *staging) {
    check_staging(staging);
    if (piece->device_memory == NULL) {
        return (struct chunks){.file_bytes = staging->memory,
                               .chunk_max = (int64_t)staging->bytes / width};
    }
    int64_t half = (int64_t)staging->bytes / 128 * 64;
    int64_t wider = max_i64(dtype_bytes(piece->dtype), width);
    return (struct chunks){.file_bytes = (char *)staging->memory + half,
                           .memory_bytes = staging->memory,
                           .chunk_max = half / wider};
}

static char *chunk_address(const struct tensor_piece *piece, int64_t done) {
    return (char *)piece->memory + done * dtype_bytes(piece->dtype);
}

/* Sets *elements to elements [done, done + chunk) of the piece in host memory, where the CPU can
 * read them. Copies them from device memory if the piece is there. */
static enum status fetch_chunk(const struct tensor_piece *piece, const struct chunks *chunks,
                               int64_t done, int64_t chunk, const char **elements,
                               struct fault *fault) {
    *elements = chunk_address(piece, done);
    if (piece->device_memory == NULL) {
        return OK;
    }
    *elements = chunks->memory_bytes;
    return device_read(piece->device_memory, chunk_address(piece, done), chunks->memory_bytes,
                       (size_t)(chunk * dtype_bytes(piece->dtype)), fault);
}

enum status piece_write(const struct piece_span *span, const struct tensor_piece *piece,
                        const struct staging *staging, struct fault *fault) {
    int64_t width = dtype_bytes(span->dtype);
    int64_t at = span->at + piece->first * width;
    int64_t count = piece_range_elements(piece);
    bool same_type = span->dtype == piece->dtype;
    if (same_type && piece->device_memory == NULL) {
        TRY(file_write_at(span->fd, span->path, piece->memory, (size_t)(count * width), at, fault));
        activity_advance((uint64_t)(count * width));
        return OK;
    }
    const struct conversion out = {piece, span->path, piece->dtype, span->dtype, STATUS_FAILED};
    const struct chunks chunks = plan_chunks(piece, width, staging);
    for (int64_t done = 0; done < count; done += chunks.chunk_max) {
        int64_t chunk = min_i64(count - done, chunks.chunk_max);
        const char *elements;
        TRY(fetch_chunk(piece, &chunks, done, chunk, &elements, fault));
        if (!same_type) {
            TRY(convert_elements(&out, piece->first + done, chunk, elements, chunks.file_bytes,
                                 fault));
        }
        TRY(file_write_at(span->fd, span->path, same_type ? elements : chunks.file_bytes,
                          (size_t)(chunk * width), at + done * width, fault));
        activity_advance((uint64_t)(chunk * width));
    }
    return OK;
}

/* Stores a chunk of the file in the piece. If `finite_only` is set, the function converts the
 * values, which detects values that are not finite; otherwise it copies the bits. */
static enum status store_chunk(const struct conversion *in, const struct chunks *chunks,
                               bool finite_only, int64_t done, int64_t chunk, struct fault *fault) {
    const struct tensor_piece *piece = in->piece;
    char *to = chunks->memory_bytes == NULL ? chunk_address(piece, done) : chunks->memory_bytes;
    enum status status = finite_only ? convert_elements(in, piece->first + done, chunk,
                                                        chunks->file_bytes, to, fault)
                                     : OK;
    if (status != OK || piece->device_memory == NULL) {
        return status;
    }
    return device_write(piece->device_memory, chunk_address(piece, done),
                        finite_only ? to : chunks->file_bytes,
                        (size_t)(chunk * dtype_bytes(piece->dtype)), fault);
}

enum status piece_read(const struct piece_span *span, const struct tensor_piece *piece,
                       bool finite_only, const struct staging *staging, struct fault *fault) {
    int64_t width = dtype_bytes(span->dtype);
    int64_t at = span->at + piece->first * width;
    int64_t count = piece_range_elements(piece);
    ASSERT(finite_only || span->dtype == piece->dtype);
    if (!finite_only && piece->device_memory == NULL) {
        TRY(file_read_at(span->fd, span->path, piece->memory, (size_t)(count * width), at, fault));
        activity_advance((uint64_t)(count * width));
        return OK;
    }
    const struct conversion in = {piece, span->path, span->dtype, piece->dtype, STATUS_INPUT};
    const struct chunks chunks = plan_chunks(piece, width, staging);
    for (int64_t done = 0; done < count; done += chunks.chunk_max) {
        int64_t chunk = min_i64(count - done, chunks.chunk_max);
        TRY(file_read_at(span->fd, span->path, chunks.file_bytes, (size_t)(chunk * width),
                         at + done * width, fault));
        TRY(store_chunk(&in, &chunks, finite_only, done, chunk, fault));
        activity_advance((uint64_t)(chunk * width));
    }
    return OK;
}

enum status piece_set_values(const struct tensor_piece *piece, int64_t at, int64_t count,
                             const float *values, const struct staging *staging,
                             struct fault *fault) {
    if (piece->device_memory == NULL) {
        convert_from_f32(piece->dtype, values, count, chunk_address(piece, at));
        return OK;
    }
    size_t bytes = (size_t)(count * dtype_bytes(piece->dtype));
    ASSERT(bytes <= staging->bytes);
    convert_from_f32(piece->dtype, values, count, staging->memory);
    return device_write(piece->device_memory, chunk_address(piece, at), staging->memory, bytes,
                        fault);
}

enum status piece_zero(const struct tensor_piece *piece, const struct staging *staging,
                       struct fault *fault) {
    size_t bytes = (size_t)(piece_range_elements(piece) * dtype_bytes(piece->dtype));
    if (piece->device_memory == NULL) {
        memset(piece->memory, 0, bytes);
        return OK;
    }
    check_staging(staging);
    memset(staging->memory, 0, staging->bytes);
    for (size_t done = 0; done < bytes; done += staging->bytes) {
        size_t some = min_u64(bytes - done, staging->bytes);
        TRY(device_write(piece->device_memory, (char *)piece->memory + done, staging->memory, some,
                         fault));
    }
    return OK;
}
