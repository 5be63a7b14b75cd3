/* tensor_file: a safetensors file that is laid out once, so that writing it again allocates
 * nothing: its header never changes. The layout depends on the tensors alone. Every rank computes
 * the same one, whatever pieces it has, and all ranks write into one file. */
#ifndef SKEP_CHECKPOINT_TENSOR_FILE_H
#define SKEP_CHECKPOINT_TENSOR_FILE_H

#include "base/region.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/checkpoint/safetensors.h"

/* One tensor of the file, with its pieces in this process. */
struct tensor_source {
    struct tensor_spec tensor;         /* name, type and shape in the file */
    const struct tensor_piece *pieces; /* ranges of the tensor, in any order */
    /* number of pieces; 0: this process has no piece of the tensor */
    int piece_count;
};

/* tensor_sources_init: make a source for each tensor of `set`, in that order, with its pieces.
 * sources  [set->tensor_count]
 * memory   in `region`: pieces are copied; names and the pieces' memory are kept by reference
 * limits   every piece is a range of a tensor of the set and has its shape */
void tensor_sources_init(const struct tensor_set *set, struct region *region,
                         struct tensor_source *sources);

/* tensor_sources_cover_tensors: whether the pieces of each source together have as many elements as
 * its tensor. */
bool tensor_sources_cover_tensors(const struct tensor_source *sources, int count);

struct tensor_file {
    const char *name; /* file name in the folder */
    struct safetensors_header header;
    /* [header.count]: tensors and pieces, in the order of the header */
    const struct tensor_source *sources;
    char *header_text;
    size_t header_bytes; /* size of `header_text` in bytes */
    int64_t bytes;       /* size of the whole file in bytes */
};

/* tensor_file_plan: lay out a file `name` with the tensors of `sources` and `__metadata__`
 * {"format": "pt"}.
 * memory  in `region`; the sources' names and pieces are kept by reference */
void tensor_file_plan(const char *name, const struct tensor_source *sources, int source_count,
                      struct region *region, struct tensor_file *file);

/* tensor_file_create: create `folder`/name, reserve its space and write its header, durable. One
 * process calls it. It may be called after seal.
 * errors  STATUS_FIT when the disk is full, STATUS_FAILED otherwise. An incomplete file may remain
 *         */
MUST_CHECK enum status tensor_file_create(const struct tensor_file *file, const char *folder,
                                          struct fault *fault);

/* tensor_file_write_pieces: write this process's pieces into `folder`/name, durable, after
 * tensor_file_create. Several processes may call it at once, each with its own ranges. It may be
 * called after seal.
 * errors  those of tensor_file_create and piece_write */
MUST_CHECK enum status tensor_file_write_pieces(const struct tensor_file *file, const char *folder,
                                                const struct staging *staging, struct fault *fault);

/* tensor_file_write: write the whole file by one process, which has all pieces: as
 * `folder`/name.new, which is renamed when it is durable. A process that is killed meanwhile leaves
 * an earlier `folder`/name as it was. It may be called after seal.
 * errors  those of tensor_file_write_pieces; name.new is removed */
MUST_CHECK enum status tensor_file_write(const struct tensor_file *file, const char *folder,
                                         const struct staging *staging, struct fault *fault);

/* tensor_file_read: check that `folder`/name contains the file's tensors, then fill this process's
 * pieces, bit for bit. Only the pieces' ranges are read.
 * errors  STATUS_INPUT naming a tensor that is missing, unexpected or of another shape or type */
MUST_CHECK enum status tensor_file_read(const struct tensor_file *file, const char *folder,
                                        struct fault *fault);

#endif
