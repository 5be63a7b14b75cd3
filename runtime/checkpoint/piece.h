/* piece: a range of a tensor in memory, and the transfers between it and a tensor in a file. */
#ifndef SKEP_CHECKPOINT_PIECE_H
#define SKEP_CHECKPOINT_PIECE_H

#include "base/device_memory.h"
#include "base/dtype.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A tensor of a file. Its elements may be on any rank. */
struct tensor_spec {
    const char *name; /* the Hugging Face name */
    enum dtype dtype; /* in the file */
    int rank;
    int64_t shape[TENSOR_RANK_MAX];
};

/* Elements [first, first + count) of a tensor, row-major, contiguous in memory. count 0 means the
 * whole tensor. Several pieces may have one name: ranges of it, or copies in other types. */
struct tensor_piece {
    const char *name; /* the Hugging Face name */
    enum dtype dtype; /* in memory */
    int rank;
    int64_t shape[TENSOR_RANK_MAX];            /* of the whole tensor */
    void *memory;                              /* of element `first` */
    const struct device_memory *device_memory; /* that `memory` points into; NULL: host memory */
    int64_t first, count;
};

/* Tensors and the pieces of them in this process: any ranges, in any order. Every rank lists the
 * same tensors, and its own pieces. */
struct tensor_set {
    const struct tensor_spec *tensors;
    int tensor_count;
    const struct tensor_piece *pieces;
    int piece_count;
};

/* The bytes of a tensor in an open file. */
struct piece_span {
    int fd;
    const char *path;
    int64_t at; /* of the tensor's first byte */
    enum dtype dtype;
};

/* The caller's buffer for conversions and for bytes from and to device memory; undefined
 * afterwards. */
struct staging {
    void *memory; /* 64-byte aligned */
    size_t bytes; /* at least STAGING_BYTES_MIN; larger means fewer calls */
};

enum { STAGING_BYTES_MIN = 1 << 16 };

/* piece_of_spec: the whole tensor, in its own type. */
struct tensor_piece piece_of_spec(const struct tensor_spec *spec, void *memory);

int64_t spec_elements(const struct tensor_spec *spec);
int64_t piece_elements(const struct tensor_piece *piece); /* of the whole tensor */
int64_t piece_count(const struct tensor_piece *piece);    /* of the piece */

/* piece_write: write a piece to its range in the file, converted to the file's type (nearest even).
 * memory  equal types are written straight from host memory; otherwise through `staging`
 * errors  STATUS_FAILED from the file, from device memory, or, naming tensor and element, for a
 *         value that is not finite in another type than its own: the run has diverged */
MUST_CHECK enum status piece_write(const struct piece_span *span, const struct tensor_piece *piece,
                                   const struct staging *staging, struct fault *fault);

/* piece_read: fill a piece from its range in the file, converted to the piece's type (nearest
 * even). With `finite_only`, any NaN, infinity, or value that is infinite in the piece's type is
 * STATUS_INPUT, naming tensor and element; the piece is then partly filled. Without it, the types
 * must be equal and bits are copied.
 * staging  not used where bits are copied to host memory */
MUST_CHECK enum status piece_read(const struct piece_span *span, const struct tensor_piece *piece,
                                  bool finite_only, const struct staging *staging,
                                  struct fault *fault);

/* piece_put: set `count` elements of the piece, from its element `at`, to `values` (nearest even).
 * limits  `count` elements of a piece in device memory fit into `staging`, which does not overlap
 *         `values`
 * errors  those of device memory; none for a piece in host memory */
MUST_CHECK enum status piece_put(const struct tensor_piece *piece, int64_t at, int64_t count,
                                 const float *values, const struct staging *staging,
                                 struct fault *fault);

/* piece_clear: set the bytes of the piece to 0. `staging` and errors as in piece_put. */
MUST_CHECK enum status piece_clear(const struct tensor_piece *piece, const struct staging *staging,
                                   struct fault *fault);

/* convert_to_f32, convert_from_f32: `count` elements of F32, BF16 or F16 to floats and back.
 * limits  `elements` and `values` do not overlap */
void convert_to_f32(enum dtype from, const void *elements, int64_t count, float *values);
void convert_from_f32(enum dtype to, const float *values, int64_t count, void *elements);

#endif
