/* byte_stream: reads the bytes of a file or of standard input, decompressed if they are compressed
 * with gzip or Zstandard. The first bytes decide; a name that ends in .gz or .zst must agree. */
#ifndef SKEP_CORPUS_BYTE_STREAM_H
#define SKEP_CORPUS_BYTE_STREAM_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* maximum number of bytes that one read of the file returns */
    BYTE_STREAM_INPUT_BYTES = 1 << 16,
    /* maximum number of bytes at the start of a file that show its compression */
    COMPRESSION_MAGIC_BYTES = 4,
};

enum compression { COMPRESSION_NONE, COMPRESSION_GZIP, COMPRESSION_ZSTD };

struct byte_stream {
    /* path of the file, a string of the caller; "-": standard input */
    const char *path;
    int fd;                       /* -1: closed */
    enum compression compression; /* how the file is compressed */
    void *decoder;                /* state of zlib or of libzstd; NULL: none */
    bool is_at_end;               /* all bytes of the file have been read into `input` */
    /* no frame or member is open, so that a compressed file may end here */
    bool is_between_frames;
    size_t begin, end;   /* range of the bytes in `input` that are not decoded yet */
    uint64_t file_bytes; /* number of bytes read from the file so far */
    size_t head_bytes;   /* number of bytes in `head` */
    unsigned char head[COMPRESSION_MAGIC_BYTES]; /* first decompressed bytes of the file */
    /* bytes read from the file, of which [begin, end) are not decoded yet */
    unsigned char input[BYTE_STREAM_INPUT_BYTES];
};

/* byte_stream_open: open `path`, or standard input for "-", and determine its compression.
 * memory  refers to `path` until byte_stream_close; the libraries allocate
 * errors  STATUS_INPUT when the file cannot be opened or is not a regular file, or when its name
 *         ends in .gz or .zst and its first bytes are of another kind; STATUS_FAILED when it cannot
 *         be read */
MUST_CHECK enum status byte_stream_open(const char *path, struct byte_stream *stream,
                                        struct fault *fault);

/* byte_stream_read: read at most `capacity` bytes into `out`. *count is 0 only at the end of the
 * file.
 * limits  capacity > 0
 * errors  STATUS_INPUT when compressed data are truncated or damaged, need a window of more than
 *         128 MiB, or are compressed data again; STATUS_FAILED when the file cannot be read;
 *         STATUS_STOPPED after a request to stop */
MUST_CHECK enum status byte_stream_read(struct byte_stream *stream, void *out, size_t capacity,
                                        size_t *count, struct fault *fault);

void byte_stream_close(struct byte_stream *stream);

#endif
