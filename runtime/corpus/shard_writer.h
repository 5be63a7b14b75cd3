/* shard_writer: writes the tokens of one part of a corpus, such as "train", to token files of a
 * fixed number of tokens: train_000000.bin and so on. A file has no valid header until it is
 * complete. */
#ifndef SKEP_CORPUS_SHARD_WRITER_H
#define SKEP_CORPUS_SHARD_WRITER_H

#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"
#include "runtime/corpus/shard_header.h"

#include <stddef.h>
#include <stdint.h>

enum {
    /* size of the buffer that collects encoded tokens before each write */
    SHARD_BUFFER_BYTES = 1 << 16,
    SHARDS_MAX = 1000000, /* maximum number of token files of a part of a corpus */
};

/* Numbers of tokens, of the documents that end in them, and of bytes of their text. */
struct shard_counts {
    uint64_t tokens, documents, text_bytes;
};

/* A position to which the files can be truncated, to continue there. */
struct shard_position {
    int64_t shard;                /* number of the current file, from 0 */
    struct shard_counts in_shard; /* counts of the current file */
    struct shard_counts total;    /* counts of all files of the part */
};

struct shard_writer {
    const char *folder, *name;          /* folder and prefix of the files; the caller's strings */
    struct shard_header header;         /* header of each file, without the file's own counts */
    int64_t shard_tokens;               /* number of tokens of a full file */
    struct shard_position position;     /* position after the tokens that were added */
    int fd;                             /* descriptor of the current file; -1: no file is open */
    char path[PATH_BYTES];              /* path of the current file */
    uint8_t *trained_bits, *start_bits; /* bits of the current file's tokens; NULL: no mask */
    /* number of bytes of `buffer` that are not in the file yet */
    size_t buffered_bytes;
    /* [buffered_bytes] encoded tokens that are to be written */
    uint8_t buffer[SHARD_BUFFER_BYTES];
};

/* shard_writer_init: initialise a writer that has no file open yet.
 * header  width and origin of the tokens
 * limits  0 < shard_tokens <= SHARD_TOKENS_MAX */
void shard_writer_init(struct shard_writer *writer, const char *folder, const char *name,
                       const struct shard_header *header, int64_t shard_tokens);

/* shard_writer_init_mask: allocate the mask, for a header with has_mask. Rows are then added by
 * shard_writer_add_row; shard_writer_load_mask follows shard_writer_resume.
 * memory  a quarter of a byte for each token of a full file
 * limits  shard_tokens is a multiple of header.row_tokens */
void shard_writer_init_mask(struct shard_writer *writer, struct region *region);

/* shard_writer_add_row: append a row of header.row_tokens tokens with their flags (row_packer.h),
 * which are removed from `row`. The row contains `documents` documents.
 * errors  those of shard_writer_add */
MUST_CHECK enum status shard_writer_add_row(struct shard_writer *writer, int32_t *row,
                                            uint64_t documents, struct fault *fault);

/* shard_writer_resume: continue at a position that shard_writer_sync has made durable. Later files
 * will be overwritten.
 * errors  STATUS_INPUT when a file is missing or too short; those of base/file.h */
MUST_CHECK enum status shard_writer_resume(struct shard_writer *writer,
                                           const struct shard_position *position,
                                           struct fault *fault);

/* The text from which the tokens of one call of shard_writer_add are made. */
struct shard_source {
    uint64_t text_bytes; /* number of bytes of the text */
    bool ends_document;  /* the last token ends a document */
};

/* shard_writer_add: append tokens, in as many files as needed. If the tokens of a text are divided
 * between files, its bytes are counted in the files in the same proportion.
 * limits  ids fit into the width; count and text_bytes < 2^31
 * errors  STATUS_FIT when the disk is full; STATUS_INPUT for more than SHARDS_MAX files;
 *         STATUS_STOPPED after a request to stop, after a complete file: the caller resumes at an
 *         earlier position */
MUST_CHECK enum status shard_writer_add(struct shard_writer *writer, const int32_t *ids,
                                        size_t count, const struct shard_source *source,
                                        struct fault *fault);

/* shard_writer_sync: make all added tokens durable, so that writer->position can be resumed. */
MUST_CHECK enum status shard_writer_sync(struct shard_writer *writer, struct fault *fault);

/* shard_writer_end: complete the last file. */
MUST_CHECK enum status shard_writer_end(struct shard_writer *writer, struct fault *fault);

/* shard_writer_save_mask: write the mask of the tokens in the current file to a file of its own,
 * whose name contains the position, so that a later call can continue at that position. If the
 * current file has no tokens, no mask is written. shard_writer_remove_mask: remove the mask that
 * was saved at a position. */
MUST_CHECK enum status shard_writer_save_mask(const struct shard_writer *writer,
                                              struct fault *fault);
void shard_writer_remove_mask(const struct shard_writer *writer,
                              const struct shard_position *position);

/* shard_writer_load_mask: read the mask that was saved at the writer's position, into the memory of
 * shard_writer_init_mask.
 * errors  STATUS_INPUT when there is no such mask, or it is too short */
MUST_CHECK enum status shard_writer_load_mask(struct shard_writer *writer, struct fault *fault);

/* shard_writer_close: close the open file, if any, as it is. */
void shard_writer_close(struct shard_writer *writer);

#endif
