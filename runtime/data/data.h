/* data: rows of training text from token files, in a deterministic order that can be resumed.
 *
 *     file        |--- block 0 ---|--- block 1 ---|- 2 -|      blocks of 1 MiB of the file
 *     windows      [   ][   ][   ] [   ][   ][   ] [   ]       sequence + 1 tokens each: the last
 *                                                              one is also the next one's first
 *
 * Windows and blocks of all files are numbered through. A row that is longer than 1 MiB is a block
 * of its own. What is left at the end of a block is shorter than a row and is not used. */
#ifndef SKEP_DATA_DATA_H
#define SKEP_DATA_DATA_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/data/token_file.h"
#include "runtime/settings/path_list.h"

#include <stdint.h>

enum { LABEL_IGNORED = -100, DATA_NO_SEPARATOR = -1 };

#define DATA_CURSOR_MAX ((uint64_t)1 << 62) /* as far as data_next goes */

/* Which files, and how they become rows. */
struct data_options {
    struct path_list paths;
    const char *format; /* as token_file_open takes it */
    int64_t sequence;
    int64_t vocab;
    int64_t separator; /* the id that ends each document; DATA_NO_SEPARATOR: rows are plain text */
};

/* A file and where its windows lie. */
struct data_file {
    struct token_file tokens;
    int64_t block_origin, block_bytes; /* block b begins at byte block_origin + b * block_bytes */
    int64_t first_block, block_count;
    int64_t first_window, window_count;
};

struct token_data {
    struct data_file *files;
    int file_count;
    int64_t sequence, vocab, separator;
    int64_t window_count;      /* of all files */
    int64_t block_count;       /* of all files */
    int64_t block_windows_max; /* of the block that has most */
};

/* data_open: open all files and number their windows. Raises the limit of open files as needed.
 * memory  in `region`
 * errors  STATUS_INPUT: no files, those of token_file_open, a file without room for one window */
MUST_CHECK enum status data_open(const struct data_options *options, struct region *region,
                                 struct token_data *data, struct fault *fault);

/* data_open_run: the files that `wanted` lists, read as the run's settings say, for a model of
 * `vocab` tokens.
 * wanted  settings->train_files, settings->validation_files, or the files that --data names
 * errors  those of path_list_expand and data_open */
struct settings;
MUST_CHECK enum status data_open_run(const struct settings *settings,
                                     const struct path_list *wanted, int64_t vocab,
                                     struct region *region, struct token_data *data,
                                     struct fault *fault);

/* data_next: the window that the endless shuffled stream gives next; *cursor, 0 at first, moves on
 * by one or more. A keyed permutation of all blocks, then of the windows of each, with new keys in
 * each pass over the data: every window once a pass. Any cursor can be resumed from, without a
 * table.
 * limits  0 <= *cursor <= DATA_CURSOR_MAX */
int64_t data_next(const struct token_data *data, uint64_t seed, int64_t *cursor);

/* What data_next goes by: a pass visits each block in turn, and of it `block_windows_max` places.
 * data_block_at: the block at `turn` of a pass.
 * data_block_windows: how many windows a block has.
 * data_window_at: the window at `place` of a block in a pass; -1 where the block has fewer.
 * limits  0 <= turn < block_count; 0 <= place < block_windows_max */
int64_t data_block_at(const struct token_data *data, uint64_t seed, uint64_t pass, int64_t turn);
int64_t data_block_windows(const struct token_data *data, int64_t block);
int64_t data_window_at(const struct token_data *data, uint64_t seed, uint64_t pass, int64_t block,
                       int64_t place);

/* One row of a batch, in the caller's memory: [sequence] each. */
struct token_row {
    int32_t *ids, *labels, *positions;
};

/* data_window: read a window: ids; labels, the next token of each; positions from 0. With a
 * separator, positions begin again behind each one, and the label of the separator itself is
 * LABEL_IGNORED: what the next document begins with cannot be known.
 * raw     scratch of (sequence + 1) * 4 bytes: the widest token files
 * errors  STATUS_INPUT: an id beyond the vocabulary, naming file and token; a file that has become
 *         shorter. The row is then partly written */
MUST_CHECK enum status data_window(const struct token_data *data, int64_t window, void *raw,
                                   const struct token_row *row, struct fault *fault);

/* data_valid_labels: how many labels of a window data_window does not ignore. Reads the file only
 * when there is a separator.
 * raw     as above
 * errors  a file that has become shorter; *valid is then untouched */
MUST_CHECK enum status data_valid_labels(const struct token_data *data, int64_t window, void *raw,
                                         int64_t *valid, struct fault *fault);

void data_close(struct token_data *data);

#endif
