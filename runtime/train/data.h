/* data: token files, and the deterministic order in which their samples are seen. */
#ifndef SKEP_TRAIN_DATA_H
#define SKEP_TRAIN_DATA_H

#include "base/fault.h"
#include "base/region.h"

#include <stdbool.h>
#include <stdint.h>

enum token_format { TOKENS_BYTES, TOKENS_U16, TOKENS_U32, TOKENS_LLMC_U16, TOKENS_LLMC_U32 };

struct token_file {
    const char *path;
    int fd; /* kept open: nothing opens files after seal */
    enum token_format format;
    int64_t data_offset; /* bytes before the first token */
    int64_t token_count;
    int64_t first_window; /* windows in the files before this one */
};

/* Windows of sequence + 1 tokens inside blocks of 1 MiB of file; none crosses a block. */
struct token_data {
    struct token_file *files;
    int file_count;
    int64_t sequence;
    int64_t window_count; /* of all files */
    int64_t vocab;
};

/* data_open: open all files, check format, size and magic.
 * format   NULL: llm.c's magic, then the suffix; "u16", "u32", "bytes"
 * errors   STATUS_INPUT: missing, empty, too short for one window, length not a multiple of the
 *          token's bytes, header that does not match the size, a bare .bin without a format */
MUST_CHECK enum status data_open(const char *const *paths, int path_count, const char *format,
                                 int64_t sequence, int64_t vocab, struct region *region,
                                 struct token_data *data, struct fault *fault);

/* data_token_bytes: the widest token of any file: 1, 2 or 4. */
int data_token_bytes(const struct token_data *data);

/* data_next: the window that the endless shuffled stream gives next; *cursor, 0 at first, moves on
 * by
 * one or more. A keyed permutation of blocks, then of the windows of each block, new keys each pass
 * over the data; every window once a pass. Needs no table: any cursor can be resumed from. */
int64_t data_next(const struct token_data *data, uint64_t seed, int64_t *cursor);

/* One row of a batch, in the caller's memory: [sequence] each. */
struct token_row {
    int32_t *ids, *labels, *positions;
};

/* data_window: read a window: ids, labels (the next token of each), positions from 0.
 * raw     scratch of (sequence + 1) * data_token_bytes
 * errors  STATUS_INPUT: an id beyond the vocabulary, naming file and token; a truncated file.
 *         The row is then partly written */
MUST_CHECK enum status data_window(const struct token_data *data, int64_t window, void *raw,
                                   struct token_row *row, struct fault *fault);

void data_close(struct token_data *data);

#endif
