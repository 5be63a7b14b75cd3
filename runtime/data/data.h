/* data: rows of training text from token files, in a deterministic order that can be resumed. This
 * module also has the samples of a swarm (sample_order.h), those assigned to a member
 * (sample_assignment.h), and checks of data files against a snapshot (fingerprint.h) and a swarm's
 * manifest (data_match.h).
 *
 *     file        |--- block 0 ---|--- block 1 ---|- 2 -|      blocks of 1 MiB of the file
 *     windows      [   ][   ][   ] [   ][   ][   ] [   ]       sequence + 1 tokens each; the last
 *                                                              is also the first of the next
 *
 * Windows and blocks have consecutive indices over all files. If a row is longer than 1 MiB, a
 * block is one row. Tokens at the end of a block that do not fill a row are not used.
 *
 * public   data_match.h fingerprint.h sample_assignment.h sample_order.h text_tokens.h
 *          token_file.h */
#ifndef SKEP_DATA_DATA_H
#define SKEP_DATA_DATA_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/data/token_file.h"
#include "runtime/settings/path_list.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    LABEL_IGNORED = -100,   /* label of a token that is not predicted */
    DATA_NO_SEPARATOR = -1, /* value in place of a separator: documents do not end with a token */
};

#define DATA_CURSOR_MAX ((uint64_t)1 << 62) /* Maximum cursor of data_next_window. */

/* Arguments of data_open: the files, and the layout of the rows. */
struct data_options {
    struct path_list paths; /* Paths of the files. */
    const char *format;     /* Format argument of token_file_open. */
    bool rejects_text;      /* Whether token_file_reject_text checks the files. */
    int64_t sequence;       /* Number of tokens in a row. */
    int64_t vocab;          /* Number of token ids of the model. */
    int64_t separator;      /* Token id that ends a document; DATA_NO_SEPARATOR: none. */
    /* The separator is read from the header of each file that has one. */
    bool reads_separator;
};

/* An open token file and the layout of its blocks and windows. */
struct data_file {
    struct token_file tokens; /* the open file */
    /* Block b of the file begins at byte block_origin + b * block_bytes. */
    int64_t block_origin, block_bytes;
    /* index of the file's first block among the blocks of all files; number of its blocks */
    int64_t first_block, block_count;
    /* index of the file's first window among the windows of all files; number of its windows */
    int64_t first_window, window_count;
};

struct token_data {
    struct data_file *files; /* [file_count] */
    int file_count;
    int64_t sequence, vocab, separator; /* copies of the fields of struct data_options */
    int64_t window_count;               /* Number of windows in all files. */
    int64_t block_count;                /* Number of blocks in all files. */
    int64_t block_windows_max;          /* Number of windows in the largest block. */
    int short_count;                    /* Number of files without a window. */
    const char *short_path;             /* Path of the first file without a window; NULL: none. */
    /* First file whose header has the hash of the file's tokenizer, or NULL. */
    const struct data_file *origin;
};

/* data_open: open all files and number their blocks and windows. Raises the process's limit of open
 * files if necessary.
 * memory  in `region`
 * errors  STATUS_INPUT when there are no files, all files are too short for one window, or the
 *         headers of two files name different tokenizers or document tokens; those of
 *         token_file_open */
MUST_CHECK enum status data_open(const struct data_options *options, struct region *region,
                                 struct token_data *data, struct fault *fault);

/* data_explain_missing_file: if the subject of *fault is a file that does not exist, rewrite the
 * fault: which key of the run lists the file, where that key is set, and to which folder paths are
 * relative.
 * patterns  settings->train_files, settings->validation_files; others change nothing */
struct settings;
void data_explain_missing_file(const struct settings *settings, const struct path_list *patterns,
                               struct fault *fault);

/* data_open_run: open the files in `patterns` with the run's settings, for a model with `vocab`
 * tokens. If the files have the hash of their tokenizer, it must be that of settings->model, where
 * that has a tokenizer.json.
 * patterns  settings->train_files, settings->validation_files, or the files of --data
 * errors  STATUS_INPUT with both hashes for another tokenizer; those of path_list_expand and
 *         data_open */
MUST_CHECK enum status data_open_run(const struct settings *settings,
                                     const struct path_list *patterns, int64_t vocab,
                                     struct region *region, struct token_data *data,
                                     struct fault *fault);

/* data_resolve_epochs: set settings->steps to the number of steps that make settings->epochs passes
 * over the training data `data`, rounded up, and settings->epochs to 0; if settings->epochs is 0,
 * change nothing. data_pass_count: return the number of passes over the data that the run makes.
 * errors  STATUS_INPUT when there are more steps than a run may have */
MUST_CHECK enum status data_resolve_epochs(struct settings *settings, const struct token_data *data,
                                           struct fault *fault);
double data_pass_count(const struct settings *settings, const struct token_data *data);

/* data_bytes_per_token: return the mean number of bytes of UTF-8 text for each token of the files,
 * or 0 if not all files state this number. A file in the format "bytes" has 1. */
double data_bytes_per_token(const struct token_data *data);

/* data_next_window: return the next window of the endless shuffled stream, and advance *cursor by
 * at least 1. The cursor starts at 0. Each pass over the data returns every window once. It
 * permutes all blocks, and the windows of each block, with keys that differ from pass to pass.
 * Reading can resume from any cursor.
 * limits  0 <= *cursor <= DATA_CURSOR_MAX */
int64_t data_next_window(const struct token_data *data, uint64_t seed, int64_t *cursor);

/* The functions that data_next_window consists of: a pass visits every block once, and
 * block_windows_max positions in each block. data_block_at: the block at position `block_position`
 * of a pass. data_block_window_count: the number of windows of a block. data_window_at: the window
 * at `position` of a block in a pass, or -1 if that position is empty.
 * limits  0 <= block_position < block_count; 0 <= position < block_windows_max */
int64_t data_block_at(const struct token_data *data, uint64_t seed, uint64_t pass,
                      int64_t block_position);
int64_t data_block_window_count(const struct token_data *data, int64_t block);
int64_t data_window_at(const struct token_data *data, uint64_t seed, uint64_t pass, int64_t block,
                       int64_t position);

/* One row of a batch: three arrays of [sequence] elements in the caller's memory. */
struct token_row {
    int32_t *ids, *labels, *positions; /* [sequence] each */
};

/* data_read_window: read a window into `row`: token ids; labels, each the id of the next token;
 * positions from 0. With a separator, positions restart after each separator, whose label is
 * LABEL_IGNORED because a document does not predict the next one. A row of `skep data --chat`
 * shares no token with the next row: labels that are not trained, and the row's last label, are
 * LABEL_IGNORED, and positions restart with each conversation.
 * raw     scratch memory of (sequence + 1) * 4 bytes
 * errors  STATUS_INPUT for a token id outside the vocabulary (the message has the file and the
 *         token's index) or a truncated file; the contents of *row are then undefined */
MUST_CHECK enum status data_read_window(const struct token_data *data, int64_t window, void *raw,
                                        const struct token_row *row, struct fault *fault);

/* data_count_valid_labels: the number of labels of a window that are not LABEL_IGNORED. Reads the
 * file only if there is a separator.
 * raw     scratch memory of (sequence + 1) * 4 bytes
 * errors  STATUS_INPUT when the file was truncated; *valid is then unchanged */
MUST_CHECK enum status data_count_valid_labels(const struct token_data *data, int64_t window,
                                               void *raw, int64_t *valid, struct fault *fault);

void data_close(struct token_data *data);

#endif
