/* tensor_file: a safetensors file laid out before it is written, so that writing it again and again
 * allocates nothing: its header never changes. The layout follows from the tensors alone, so every
 * rank has the same, whichever pieces it holds, and all write into one file. */
#ifndef SKEP_CHECKPOINT_TENSOR_FILE_H
#define SKEP_CHECKPOINT_TENSOR_FILE_H

#include "base/region.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/checkpoint/safetensors.h"

/* One tensor of the file with the pieces of it that lie in this process. */
struct tensor_source {
    struct tensor_spec tensor;         /* as in the file */
    const struct tensor_piece *pieces; /* any ranges of it */
    int piece_count;                   /* 0: nothing of it lies here */
};

/* tensor_sources_init: a source for each tensor of `set`, in that order, with its pieces.
 * sources  [set->tensor_count]
 * memory   in `region`: pieces are copied, names and what pieces point at are by reference
 * limits   every piece is a range of a tensor of the set, in its shape: else a caller's bug */
void tensor_sources_init(const struct tensor_set *set, struct region *region,
                         struct tensor_source *sources);

/* tensor_sources_are_whole: whether the pieces add up to every tensor. */
bool tensor_sources_are_whole(const struct tensor_source *sources, int count);

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

/* tensor_file_begin: make `folder`/name: space reserved, header written and durable. By one
 * process. After seal too.
 * errors  STATUS_FIT when the disk is full, STATUS_FAILED otherwise. A part of it may be left */
MUST_CHECK enum status tensor_file_begin(const struct tensor_file *file, const char *folder,
                                         struct fault *fault);

/* tensor_file_fill: write this process's pieces into `folder`/name, which has been begun, and make
 * them durable. By any number of processes at once, each its own ranges. After seal too.
 * errors  those of tensor_file_begin, and of piece_write */
MUST_CHECK enum status tensor_file_fill(const struct tensor_file *file, const char *folder,
                                        const struct staging *staging, struct fault *fault);

/* tensor_file_read: check that `folder`/name holds the file's tensors, then fill this process's
 * pieces, bit for bit; of the data nothing else is read.
 * errors  STATUS_INPUT naming a tensor that is missing, unexpected or of another shape or type */
MUST_CHECK enum status tensor_file_read(const struct tensor_file *file, const char *folder,
                                        struct fault *fault);

#endif
