/* safetensors: reads and writes the file format. A file is an 8-byte little-endian header length, a
 * JSON header padded with spaces, and the bytes of the tensors without gaps:
 *
 *     0        8                 8 + header            8 + header + data
 *     | length | {"a":{...},...}  | a's bytes | b's ... |
 *              ^ JSON             ^ offset 0 of every "data_offsets" pair
 */
#ifndef SKEP_CHECKPOINT_SAFETENSORS_H
#define SKEP_CHECKPOINT_SAFETENSORS_H

#include "base/dtype.h"
#include "base/fault.h"
#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* maximum dimensions of a tensor; published models have at most 5 */
    SAFETENSORS_RANK_MAX = 8,
    /* maximum number of tensors in a file; published files have fewer than 20,000 */
    SAFETENSORS_TENSORS_MAX = 1 << 18,
    SAFETENSORS_METADATA_MAX = 1 << 16, /* maximum number of pairs of strings in the metadata */
    SAFETENSORS_ALIGN_BYTES = 8,        /* alignment in bytes of the tensors' data in the file */
};

/* The element types of the format. safetensors_dtype_is_loadable tests whether Skep loads one. */
enum safetensors_dtype {
    ST_BOOL,
    ST_F4,
    ST_F6_E2M3,
    ST_F6_E3M2,
    ST_U8,
    ST_I8,
    ST_F8_E5M2,
    ST_F8_E4M3,
    ST_F8_E8M0,
    ST_F8_E4M3FNUZ,
    ST_F8_E5M2FNUZ,
    ST_I16,
    ST_U16,
    ST_F16,
    ST_BF16,
    ST_I32,
    ST_U32,
    ST_F32,
    ST_F64,
    ST_I64,
    ST_U64,
    ST_C64,
    ST_DTYPE_COUNT /* number of element types */
};

struct safetensors_entry {
    const char *name; /* name of the tensor */
    enum safetensors_dtype dtype;
    int rank; /* number of dimensions; 0: one element */
    int64_t shape[SAFETENSORS_RANK_MAX];
    int64_t elements;   /* number of elements */
    int64_t begin, end; /* byte offsets from the start of the data */
};

struct safetensors_pair {
    const char *key, *value; /* key and value of one entry of the file's metadata */
};

/* The contents of the JSON header of a file. */
struct safetensors_header {
    const struct safetensors_entry *entries; /* sorted by offset */
    int count;                               /* number of tensors */
    const struct safetensors_pair *metadata;
    int metadata_count;
};

/* An open file. */
struct safetensors {
    const char *path;
    int fd;
    int64_t data_at;    /* offset of the tensors' data in the file */
    int64_t data_bytes; /* size in bytes of the data of all tensors */
    struct safetensors_header header;
    /* [header.count]: the entries sorted by name, for safetensors_find */
    const struct safetensors_entry **by_name;
};

/* returns the name of the type, for example "F32" */
const char *safetensors_dtype_name(enum safetensors_dtype dtype);
int safetensors_dtype_bits(enum safetensors_dtype dtype);
/* safetensors_dtype_is_loadable: for F32, BF16, F16 and I32, set *memory to the type in memory and
 * return true; return false for other types. */
bool safetensors_dtype_is_loadable(enum safetensors_dtype dtype, enum dtype *memory);
enum safetensors_dtype safetensors_dtype_of(enum dtype memory);

/* safetensors_parse: read the tensor table from the text of a header.
 * text     header_bytes + 1 bytes, text[header_bytes] NUL; changed and kept by reference
 * checked  the text is JSON that starts with '{', then only white space; no duplicate names; the
 *          bytes of every shape equal its range; ranges tile [0, data_bytes) without gap or overlap
 * memory   table in `region`: at most SAFETENSORS_TENSORS_MAX entries; time n log n in its bytes
 * errors   STATUS_INPUT with `path` and the tensor or the byte; *file is then unchanged
 * *file    path, data_bytes, header and by_name are set; fd is -1; data_at is the header's end */
MUST_CHECK enum status safetensors_parse(char *text, size_t header_bytes, int64_t data_bytes,
                                         const char *path, struct region *region,
                                         struct safetensors *file, struct fault *fault);

/* safetensors_open: open `path` (kept by reference) and read its table into `region`.
 * errors  STATUS_INPUT; *file is then unchanged, and no descriptor remains open */
MUST_CHECK enum status safetensors_open(const char *path, struct region *region,
                                        struct safetensors *file, struct fault *fault);
void safetensors_close(struct safetensors *file);

/* safetensors_find: the tensor with the name `name`, or NULL. */
const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name);

/* safetensors_metadata: the value of a `__metadata__` key, or NULL. */
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/* safetensors_read: read `count` bytes of a tensor from its byte `first`. Allocates nothing. */
MUST_CHECK enum status safetensors_read(const struct safetensors *file,
                                        const struct safetensors_entry *entry, int64_t first,
                                        void *buffer, size_t count, struct fault *fault);

/* safetensors_lay_out: set elements, begin and end of entries from their dtype, rank and shape.
 * Wider types come first, so that each tensor is aligned to its width; entries of one width keep
 * their order. Returns the size of the data.
 * limits  whole-byte types; a product above 2^63-1 is a caller's bug */
int64_t safetensors_lay_out(struct safetensors_entry *entries, int count);

/* safetensors_header_bytes: return the size of all bytes before the data: 8 for the length, the
 * JSON and its padding. It is a multiple of SAFETENSORS_ALIGN_BYTES. */
size_t safetensors_header_bytes(const struct safetensors_header *header);

/* safetensors_render_header: write length, JSON and padding into `buffer`. Returns the number of
 * bytes written, which is safetensors_header_bytes(header).
 * memory  `capacity` is at least one byte more than that; allocates nothing */
size_t safetensors_render_header(const struct safetensors_header *header, char *buffer,
                                 size_t capacity);

#endif
