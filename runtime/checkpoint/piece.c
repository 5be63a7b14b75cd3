#include "runtime/checkpoint/piece.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

/* Floats between the two types of a conversion: small enough for the stack and the first cache. */
enum { BLOCK_ELEMENTS = 1024 };

int64_t piece_elements(const struct tensor_piece *piece) {
    int64_t elements = 1;
    for (int axis = 0; axis < piece->rank; axis++) {
        elements *= piece->shape[axis];
    }
    return elements;
}

int64_t piece_count(const struct tensor_piece *piece) {
    return piece->count > 0 ? piece->count : piece_elements(piece);
}

bool piece_is_whole(const struct tensor_piece *piece) {
    return piece_count(piece) == piece_elements(piece);
}

void convert_to_f32(enum dtype from, const void *elements, int64_t count, float *values) {
    const uint16_t *halves = elements;
    switch (from) {
    case DTYPE_F32:
        memcpy(values, elements, (size_t)count * sizeof *values);
        return;
    case DTYPE_BF16:
        for (int64_t i = 0; i < count; i++) {
            values[i] = bf16_to_f32(halves[i]);
        }
        return;
    case DTYPE_F16:
        for (int64_t i = 0; i < count; i++) {
            values[i] = f16_to_f32(halves[i]);
        }
        return;
    case DTYPE_I32:
    case DTYPE_COUNT:
        break;
    }
    ASSERT(!"a type that converts");
}

void convert_from_f32(enum dtype to, const float *values, int64_t count, void *elements) {
    uint16_t *halves = elements;
    switch (to) {
    case DTYPE_F32:
        memcpy(elements, values, (size_t)count * sizeof *values);
        return;
    case DTYPE_BF16:
        for (int64_t i = 0; i < count; i++) {
            halves[i] = bf16_from_f32(values[i]);
        }
        return;
    case DTYPE_F16:
        for (int64_t i = 0; i < count; i++) {
            halves[i] = f16_from_f32(values[i]);
        }
        return;
    case DTYPE_I32:
    case DTYPE_COUNT:
        break;
    }
    ASSERT(!"a type that converts");
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

/* `count` elements, the first of which is element `first` of the tensor. */
static enum status convert(const struct tensor_piece *piece, const char *path, int64_t first,
                           int64_t count, enum dtype from, const void *source, enum dtype to,
                           void *target, struct fault *fault) {
    float values[BLOCK_ELEMENTS];
    for (int64_t done = 0; done < count; done += BLOCK_ELEMENTS) {
        int64_t block = count - done < BLOCK_ELEMENTS ? count - done : BLOCK_ELEMENTS;
        convert_to_f32(from, (const char *)source + done * dtype_bytes(from), block, values);
        int64_t bad = first_unfit(to, values, block);
        if (bad < block) {
            return fault_set(fault, STATUS_INPUT, path, "the weights are damaged or have diverged",
                             "tensor '%s': element %lld is %g, not finite in %s", piece->name,
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
    int64_t chunk_max = (int64_t)staging->bytes / width;
    enum status status = OK;
    for (int64_t done = 0; done < count && status == OK; done += chunk_max) {
        int64_t chunk = count - done < chunk_max ? count - done : chunk_max;
        status = convert(piece, place->path, piece->first + done, chunk, piece->dtype,
                         (const char *)piece->memory + done * dtype_bytes(piece->dtype),
                         place->dtype, staging->memory, fault);
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
    int64_t chunk_max = (int64_t)staging->bytes / width;
    enum status status = OK;
    for (int64_t done = 0; done < count && status == OK; done += chunk_max) {
        int64_t chunk = count - done < chunk_max ? count - done : chunk_max;
        status = file_read_at(place->fd, place->path, staging->memory, (size_t)(chunk * width),
                              at + done * width, fault);
        if (status == OK) {
            status = convert(piece, place->path, piece->first + done, chunk, place->dtype,
                             staging->memory, piece->dtype,
                             (char *)piece->memory + done * dtype_bytes(piece->dtype), fault);
        }
    }
    return status;
}
