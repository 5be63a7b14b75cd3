/* tensor_file: a safetensors file laid out before it is written, so that writing it again and again
 * allocates nothing: its header never changes. */
#ifndef SKEP_CHECKPOINT_TENSOR_FILE_H
#define SKEP_CHECKPOINT_TENSOR_FILE_H

#include "base/region.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/checkpoint/safetensors.h"

/* One tensor of the file with the pieces that make it up. */
struct tensor_source {
    const char *name;                  /* in the file */
    enum dtype dtype;                  /* in the file */
    const struct tensor_piece *pieces; /* adjacent pieces of one tensor */
    int piece_count;
};

/* Where pieces whose memory is shared get their values: called before each piece is written. */
struct piece_feed {
    enum status (*fill)(void *context, const struct tensor_piece *piece, struct fault *fault);
    void *context;
};

struct tensor_file {
    const char *name; /* within its folder */
    struct safetensors_header header;
    const int *source_of; /* [header.count]: which source an entry holds */
    const struct tensor_source *sources;
    char *header_text;
    size_t header_bytes;
    const struct piece_feed *feed; /* NULL: every piece's memory holds its values */
    int64_t bytes;                 /* of the whole file */
};

/* tensor_file_plan: lay out `sources` (kept by reference) with `__metadata__` {"format": "pt"}.
 * memory  everything in `region` */
void tensor_file_plan(const char *name, const struct tensor_source *sources, int source_count,
                      struct region *region, struct tensor_file *file);

/* tensor_file_write: the file `folder`/name: space reserved, header, every piece, fsync. After
 * seal too.
 * errors  STATUS_FIT when the disk is full, STATUS_FAILED otherwise; STATUS_INPUT from piece_write.
 *         A part of the file may be left */
MUST_CHECK enum status tensor_file_write(const struct tensor_file *file, const char *folder,
                                         const struct staging *staging, struct fault *fault);

/* tensor_file_read: fill every piece from `folder`/name, bit for bit.
 * errors  STATUS_INPUT naming a tensor that is missing, unexpected or of another shape or type */
MUST_CHECK enum status tensor_file_read(const struct tensor_file *file, const char *folder,
                                        struct fault *fault);

#endif
