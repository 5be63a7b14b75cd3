/* packed_row: rows of whole conversations, with a mask, from the files of `skep data --chat`. */
#ifndef SKEP_DATA_PACKED_ROW_H
#define SKEP_DATA_PACKED_ROW_H

#include "runtime/data/data.h"

/* packed_row_check: check that the rows of a file, if it has rows, are as long as those of the run.
 * errors  STATUS_INPUT naming both lengths */
MUST_CHECK enum status packed_row_check(const struct token_file *file, int64_t sequence,
                                        struct fault *fault);

/* packed_row_fill: set the labels and positions in *row for the row that begins with token `first`,
 * and whose ids the caller has set. A label is the next token if that token is trained, else
 * LABEL_IGNORED.
 * raw     scratch memory of (sequence + 1) * 4 bytes
 * errors  those of token_file_read_bits; the contents of *row are then undefined */
MUST_CHECK enum status packed_row_fill(const struct token_file *file, int64_t first,
                                       int64_t sequence, void *raw, const struct token_row *row,
                                       struct fault *fault);

/* packed_row_count_trained: set *valid to the number of labels other than LABEL_IGNORED that
 * packed_row_fill sets in the row that begins with token `first`. */
MUST_CHECK enum status packed_row_count_trained(const struct token_file *file, int64_t first,
                                                int64_t sequence, void *raw, int64_t *valid,
                                                struct fault *fault);

#endif
