/* token_file: one file of tokens: which form it has, and its tokens by number. */
#ifndef SKEP_DATA_TOKEN_FILE_H
#define SKEP_DATA_TOKEN_FILE_H

#include "base/fault.h"

#include <stdint.h>

enum token_format { TOKENS_BYTES, TOKENS_U16, TOKENS_U32, TOKENS_LLMC_U16, TOKENS_LLMC_U32 };

struct token_file {
    const char *path; /* the caller's */
    int fd;           /* kept open: nothing opens files after seal; -1: closed */
    enum token_format format;
    int64_t bytes;       /* of the whole file */
    int64_t data_offset; /* bytes before the first token */
    int64_t token_count; /* at least 1 */
};

/* token_file_open: open `path` and find its form: llm.c's magic (20240520: uint16, 20240801:
 * uint32), else the suffix .u16 .u32 .bytes .txt, else `format` ("u16", "u32", "bytes"; NULL: not
 * given). Multi-byte numbers are little-endian.
 * memory  keeps `path`
 * errors  STATUS_INPUT naming the file: missing, empty, no whole number of tokens, a header that
 *         does not match the size, no way to tell the form. *file is then untouched */
MUST_CHECK enum status token_file_open(const char *path, const char *format,
                                       struct token_file *file, struct fault *fault);

/* token_file_width: bytes of one token: 1, 2 or 4. */
int token_file_width(const struct token_file *file);

/* token_file_read: tokens [first, first + count) into `raw` as they lie in the file.
 * raw     count * token_file_width bytes; token_at takes single tokens out
 * errors  STATUS_INPUT when the file has become shorter, STATUS_FAILED when it cannot be read */
MUST_CHECK enum status token_file_read(const struct token_file *file, int64_t first, int64_t count,
                                       void *raw, struct fault *fault);

/* token_at: token `index` of what token_file_read gave, below 2^32. */
int64_t token_at(const void *raw, int64_t index, int width);

void token_file_close(struct token_file *file);

#endif
