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
    enum dtype dtype; /* element type in the file */
    int rank;         /* number of dimensions */
    int64_t shape[TENSOR_RANK_MAX];
};

/* Elements [first, first + count) of a tensor, row-major, contiguous in memory. count 0 means the
 * whole tensor. Several pieces may have the same name: ranges of it, or copies in other types. */
struct tensor_piece {
    const char *name;               /* the Hugging Face name */
    enum dtype dtype;               /* element type in memory */
    int rank;                       /* number of dimensions */
    int64_t shape[TENSOR_RANK_MAX]; /* shape of the whole tensor */
    void *memory;                   /* address of element `first` */
    const struct device_memory
        *device_memory;   /* access to the memory at `memory`; NULL: host memory */
    int64_t first, count; /* first element and number of elements; count 0: all elements */
};

/* Tensors and the pieces of them in this process: any ranges, in any order. Every rank lists the
 * same tensors, and its own pieces. */
struct tensor_set {
    const struct tensor_spec *tensors; /* [tensor_count] */
    int tensor_count;
    const struct tensor_piece *pieces; /* [piece_count] */
    int piece_count;
};

/* The bytes of a tensor in an open file. */
struct piece_span {
    int fd;           /* descriptor of the open file */
    const char *path; /* path of the file, for faults */
    int64_t at;       /* file offset of the tensor's first byte */
    enum dtype dtype; /* element type in the file */
};

/* The caller's buffer for conversions and for bytes from and to device memory; undefined
 * afterwards. */
struct staging {
    void *memory; /* 64-byte aligned */
    size_t bytes; /* at least STAGING_BYTES_MIN; a larger buffer needs fewer reads and writes */
};

enum { STAGING_BYTES_MIN = 1 << 16 }; /* smallest staging buffer */

/* piece_of_spec: a piece that is the whole tensor, in the type of the file. */
struct tensor_piece piece_of_spec(const struct tensor_spec *spec, void *memory);

int64_t spec_elements(const struct tensor_spec *spec);
/* number of elements of the whole tensor */
int64_t piece_tensor_elements(const struct tensor_piece *piece);
/* number of elements of the piece */
int64_t piece_range_elements(const struct tensor_piece *piece);

/* piece_write: write a piece to its range in the file, converted to the file's type (nearest even).
 * memory  values in host memory of the file's type are written directly, others through `staging`
 * errors  STATUS_FAILED for an error of the file or of device memory, and when a converted value is
 *         not finite; the fault then names the tensor and the element */
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

/* piece_set_values: set `count` elements of the piece, from its element `at`, to `values` (nearest
 * even).
 * limits  `count` elements of a piece in device memory fit into `staging`, which does not overlap
 *         `values`
 * errors  those of device memory; none for a piece in host memory */
MUST_CHECK enum status piece_set_values(const struct tensor_piece *piece, int64_t at, int64_t count,
                                        const float *values, const struct staging *staging,
                                        struct fault *fault);

/* piece_zero: set the bytes of the piece to 0. `staging` and the errors are those of
 * piece_set_values. */
MUST_CHECK enum status piece_zero(const struct tensor_piece *piece, const struct staging *staging,
                                  struct fault *fault);

/* convert_to_f32, convert_from_f32: convert `count` elements of type F32, BF16 or F16 to floats, or
 * floats to such elements.
 * limits  `elements` and `values` do not overlap */
void convert_to_f32(enum dtype from, const void *elements, int64_t count, float *values);
void convert_from_f32(enum dtype to, const float *values, int64_t count, void *elements);

#endif
