/* token_file: determines the format of a token file, and reads its tokens by index. */
#ifndef SKEP_DATA_TOKEN_FILE_H
#define SKEP_DATA_TOKEN_FILE_H

#include "base/fault.h"
#include "runtime/corpus/shard_header.h"

#include <stdint.h>

enum token_format { TOKENS_BYTES, TOKENS_U16, TOKENS_U32, TOKENS_LLMC_U16, TOKENS_LLMC_U32 };

struct token_file {
    const char *path; /* the caller's string */
    /* File descriptor, open until token_file_close, because no file may be opened during training;
     * -1: closed. */
    int fd;
    enum token_format format;
    int64_t bytes;       /* Size of the whole file. */
    int64_t data_offset; /* Number of bytes before the first token. */
    int64_t token_count; /* number of tokens, at least 1 */
    /* Contents of the header in llm.c's format; for a file without one, has_origin is false and
     * there is no document token. */
    struct shard_header header;
};

/* token_file_open: open `path` and determine its format from llm.c's magic number (20240520:
 * uint16, 20240801: uint32), else from the suffix .u16, .u32, .bytes or .txt, else from `format`
 * ("u16", "u32", "bytes" or NULL). Numbers are little-endian.
 * memory  refers to `path` until token_file_close
 * errors  STATUS_INPUT when the file is missing or empty, ends with a partial token, has a header
 *         that does not match its size, or has an unknown format. *file is then unchanged */
MUST_CHECK enum status token_file_open(const char *path, const char *format,
                                       struct token_file *file, struct fault *fault);

/* token_file_reject_text: reject a file whose bytes are tokens only because its suffix is .txt,
 * while `format` is not "bytes". For a model whose tokens are not bytes, such a file is text that
 * was not tokenised.
 * errors  STATUS_INPUT */
MUST_CHECK enum status token_file_reject_text(const struct token_file *file, const char *format,
                                              struct fault *fault);

/* token_file_width: return the size of one token: 1, 2 or 4 bytes. */
int token_file_width(const struct token_file *file);

/* token_file_read: read the tokens [first, first + count) into `raw` in the file's format.
 * raw     [count * token_file_width] bytes, to be decoded by token_at
 * errors  STATUS_INPUT when the file was truncated, STATUS_FAILED when it cannot be read */
MUST_CHECK enum status token_file_read(const struct token_file *file, int64_t first, int64_t count,
                                       void *raw, struct fault *fault);

/* token_file_read_bits: read the two lists of bits of the tokens [first, first + count): whether a
 * token is trained, and whether a conversation starts with it.
 * bits    [2][count / 8 + 2] bytes; bit first % 8 + i of a list, counted from bit 0 of its first
 *         byte, is that of token first + i
 * limits  header.has_mask
 * errors  those of token_file_read */
MUST_CHECK enum status token_file_read_bits(const struct token_file *file, int64_t first,
                                            int64_t count, uint8_t *bits, struct fault *fault);

/* token_at: decode token `index` of the bytes that token_file_read wrote. The result is below
 * 2^32. */
int64_t token_at(const void *raw, int64_t index, int width);

void token_file_close(struct token_file *file);

#endif
