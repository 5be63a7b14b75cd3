/* byte_stream: the only user of zlib and libzstd. A compressed file may consist of several members
 * or frames, one after the other. */
#include "runtime/corpus/byte_stream.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/region.h"
#include "transport/site/stop.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
    GZIP_ONLY = 16 + 15, /* argument of inflateInit2: only gzip headers, windows of up to 32 KiB */
    POLL_MS = 100        /* milliseconds between two checks for a request to stop */
};

static const char DAMAGED[] = "download or compress the file again";

/* zlib's state, in memory of its own region. */
struct gzip_decoder {
    struct region region;
    z_stream z; /* the stream of zlib */
};

static enum status check_stop(const struct byte_stream *stream, struct fault *fault) {
    return stop_requested()
               ? fault_set(fault, STATUS_STOPPED, stream->path, NULL, "stopped by request")
               : OK;
}

/* Waits until a pipe or a terminal has bytes, or has ended, or a signal requests a stop. A blocked
 * read would not return after the signal. */
static enum status wait_for_input(const struct byte_stream *stream, struct fault *fault) {
    struct pollfd waited = {.fd = stream->fd, .events = POLLIN};
    TRY(check_stop(stream, fault));
    while (poll(&waited, 1, POLL_MS) <= 0) {
        TRY(check_stop(stream, fault));
    }
    return OK;
}

/* Reads more bytes of the file into `input`, after its unread bytes, until `input` has `least`
 * unread bytes or the file ends. */
static enum status fill_input(struct byte_stream *stream, size_t least, struct fault *fault) {
    if (stream->begin > 0) {
        memmove(stream->input, stream->input + stream->begin, stream->end - stream->begin);
        stream->end -= stream->begin;
        stream->begin = 0;
    }
    while (stream->end < least && !stream->is_at_end) {
        TRY(wait_for_input(stream, fault));
        ssize_t count =
            read(stream->fd, stream->input + stream->end, sizeof stream->input - stream->end);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return fault_set_errno(fault, STATUS_FAILED, stream->path, "cannot read", errno);
        }
        stream->is_at_end = count == 0;
        stream->end += (size_t)count;
        stream->file_bytes += (uint64_t)count;
    }
    return OK;
}

static enum status start_gzip(struct byte_stream *stream, struct fault *fault) {
    struct region region = {0};
    struct gzip_decoder *decoder = region_alloc(&region, 1, sizeof *decoder);
    decoder->region = region;
    if (inflateInit2(&decoder->z, GZIP_ONLY) != Z_OK) {
        region_finish(&region);
        return fault_set(fault, STATUS_FAILED, stream->path, NULL, "zlib cannot start");
    }
    stream->decoder = decoder;
    return OK;
}

static enum status start_zstd(struct byte_stream *stream, struct fault *fault) {
    stream->decoder = ZSTD_createDStream();
    if (stream->decoder == NULL || ZSTD_isError(ZSTD_initDStream(stream->decoder))) {
        return fault_set(fault, STATUS_FAILED, stream->path, NULL, "libzstd cannot start");
    }
    return OK;
}

/* Returns the compression of a file that begins with `bytes`. No text begins with the bytes that
 * are tested for. A Zstandard file may begin with a frame to skip, as the files of pzstd do. */
static enum compression compression_of(const unsigned char *bytes, size_t count) {
    static const unsigned char GZIP[] = {0x1f, 0x8b};
    static const unsigned char ZSTD[COMPRESSION_MAGIC_BYTES] = {0x28, 0xb5, 0x2f, 0xfd};
    static const unsigned char SKIPPED[COMPRESSION_MAGIC_BYTES] = {0x50, 0x2a, 0x4d, 0x18};
    if (count >= sizeof GZIP && memcmp(bytes, GZIP, sizeof GZIP) == 0) {
        return COMPRESSION_GZIP;
    }
    const bool is_skipped = count >= sizeof SKIPPED && (bytes[0] & 0xf0) == SKIPPED[0] &&
                            memcmp(bytes + 1, SKIPPED + 1, sizeof SKIPPED - 1) == 0;
    const bool is_zstd = count >= sizeof ZSTD && memcmp(bytes, ZSTD, sizeof ZSTD) == 0;
    return is_zstd || is_skipped ? COMPRESSION_ZSTD : COMPRESSION_NONE;
}

/* Returns the compression that the suffix of a file's name stands for. */
static enum compression compression_of_name(const char *path) {
    const char *suffix = strrchr(path, '.');
    return suffix == NULL                ? COMPRESSION_NONE
           : strcmp(suffix, ".gz") == 0  ? COMPRESSION_GZIP
           : strcmp(suffix, ".zst") == 0 ? COMPRESSION_ZSTD
                                         : COMPRESSION_NONE;
}

/* Rejects a file whose name is that of a compressed file but whose bytes are not compressed so:
 * such a file is more likely a failed download than text. */
static enum status check_name(const struct byte_stream *stream, struct fault *fault) {
    const enum compression named = compression_of_name(stream->path);
    char bytes[3 * COMPRESSION_MAGIC_BYTES + 1] = "";
    if (named == COMPRESSION_NONE || named == stream->compression) {
        return OK;
    }
    for (size_t i = 0; i < min_u64(stream->end, COMPRESSION_MAGIC_BYTES); i++) {
        snprintf(bytes + 3 * i, sizeof bytes - 3 * i, " %02x", stream->input[i]);
    }
    return fault_set(
        fault, STATUS_INPUT, stream->path, "download or compress the file again, or rename it",
        "is not %s, as its name states: %s%s", named == COMPRESSION_GZIP ? "gzip" : "Zstandard",
        stream->end == 0 ? "it is empty" : "its first bytes are", bytes);
}

static enum status detect_compression(struct byte_stream *stream, struct fault *fault) {
    TRY(fill_input(stream, COMPRESSION_MAGIC_BYTES, fault));
    stream->is_between_frames = true;
    stream->compression = compression_of(stream->input, stream->end);
    TRY(check_name(stream, fault));
    switch (stream->compression) {
    case COMPRESSION_GZIP:
        return start_gzip(stream, fault);
    case COMPRESSION_ZSTD:
        return start_zstd(stream, fault);
    case COMPRESSION_NONE:
        break;
    }
    return OK;
}

static enum status check_stdin(struct fault *fault) {
    struct stat info;
    return fstat(STDIN_FILENO, &info) == 0 && S_ISDIR(info.st_mode)
               ? fault_set(fault, STATUS_INPUT, "standard input",
                           "pass the path of the folder instead of -", "is a folder")
               : OK;
}

enum status byte_stream_open(const char *path, struct byte_stream *stream, struct fault *fault) {
    int64_t ignored;
    *stream = (struct byte_stream){.path = path, .fd = -1};
    if (strcmp(path, "-") == 0) {
        stream->path = "standard input";
        stream->fd = STDIN_FILENO;
        TRY(check_stdin(fault));
    } else {
        TRY(file_open_read(path, &stream->fd, &ignored, fault));
    }
    enum status status = detect_compression(stream, fault);
    if (status != OK) {
        byte_stream_close(stream);
    }
    return status;
}

static enum status damaged_fault(const struct byte_stream *stream, const char *reason,
                                 struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, stream->path, DAMAGED,
                     "compressed data are damaged before byte %llu of the file: %s",
                     (unsigned long long)(stream->file_bytes - (stream->end - stream->begin)),
                     reason);
}

/* Decompresses the unread bytes of `input` with zlib. *count, the number of bytes in `out`, may be
 * 0 although the file has not ended. */
static enum status inflate_some(struct byte_stream *stream, void *out, size_t capacity,
                                size_t *count, struct fault *fault) {
    z_stream *z = &((struct gzip_decoder *)stream->decoder)->z;
    if (stream->is_between_frames && stream->begin < stream->end) {
        inflateReset(z);
        stream->is_between_frames = false;
    }
    z->next_in = stream->input + stream->begin;
    z->avail_in = (uInt)(stream->end - stream->begin);
    z->next_out = out;
    z->avail_out = (uInt)min_u64(capacity, UINT32_MAX);
    const uInt before = z->avail_out;
    const int result = inflate(z, Z_NO_FLUSH);
    stream->begin = stream->end - z->avail_in;
    *count = before - z->avail_out;
    stream->is_between_frames = stream->is_between_frames || result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return damaged_fault(stream, z->msg != NULL ? z->msg : zError(result), fault);
    }
    return OK;
}

static enum status decompress_zstd(struct byte_stream *stream, void *out, size_t capacity,
                                   size_t *count, struct fault *fault) {
    ZSTD_inBuffer in = {stream->input + stream->begin, stream->end - stream->begin, 0};
    ZSTD_outBuffer to = {out, capacity, 0};
    const size_t result = ZSTD_decompressStream(stream->decoder, &to, &in);
    if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge) {
        return fault_set(fault, STATUS_INPUT, stream->path,
                         "compress the file again, without --long or with at most --long=27",
                         "needs more than 128 MiB of memory to decompress");
    }
    if (ZSTD_isError(result)) {
        return damaged_fault(stream, ZSTD_getErrorName(result), fault);
    }
    stream->begin += in.pos;
    stream->is_between_frames = result == 0;
    *count = to.pos;
    return OK;
}

static enum status copy_plain(struct byte_stream *stream, void *out, size_t capacity,
                              size_t *count) {
    *count = min_u64(capacity, stream->end - stream->begin);
    memcpy(out, stream->input + stream->begin, *count);
    stream->begin += *count;
    return OK;
}

/* Decompresses the unread bytes of `input` into `out`, or copies them if the file is not
 * compressed. */
static enum status decode_some(struct byte_stream *stream, void *out, size_t capacity,
                               size_t *count, struct fault *fault) {
    switch (stream->compression) {
    case COMPRESSION_GZIP:
        return inflate_some(stream, out, capacity, count, fault);
    case COMPRESSION_ZSTD:
        return decompress_zstd(stream, out, capacity, count, fault);
    case COMPRESSION_NONE:
        break;
    }
    return copy_plain(stream, out, capacity, count);
}

/* Rejects a file whose decompressed bytes are compressed again. `bytes` are the next decompressed
 * bytes. */
static enum status check_nesting(struct byte_stream *stream, const unsigned char *bytes,
                                 size_t count, struct fault *fault) {
    const size_t missing = min_u64(sizeof stream->head - stream->head_bytes, count);
    if (stream->compression == COMPRESSION_NONE || missing == 0) {
        return OK;
    }
    memcpy(stream->head + stream->head_bytes, bytes, missing);
    stream->head_bytes += missing;
    return compression_of(stream->head, stream->head_bytes) == COMPRESSION_NONE
               ? OK
               : fault_set(fault, STATUS_INPUT, stream->path, "decompress it once",
                           "is compressed twice: its content is compressed again");
}

enum status byte_stream_read(struct byte_stream *stream, void *out, size_t capacity, size_t *count,
                             struct fault *fault) {
    ASSERT(capacity > 0);
    *count = 0;
    /* Each iteration reads input, writes output, or reaches the end of the file. */
    while (*count == 0) {
        if (stream->begin == stream->end) {
            TRY(fill_input(stream, 1, fault));
        }
        const bool has_no_input = stream->begin == stream->end;
        if (has_no_input && stream->is_between_frames) {
            return OK;
        }
        TRY(decode_some(stream, out, capacity, count, fault));
        if (has_no_input && *count == 0) {
            return fault_set(fault, STATUS_INPUT, stream->path, DAMAGED,
                             "compressed data end too early, after %llu bytes of the file",
                             (unsigned long long)stream->file_bytes);
        }
    }
    return check_nesting(stream, out, *count, fault);
}

void byte_stream_close(struct byte_stream *stream) {
    if (stream->compression == COMPRESSION_GZIP && stream->decoder != NULL) {
        struct gzip_decoder *decoder = stream->decoder;
        struct region region = decoder->region;
        inflateEnd(&decoder->z);
        region_finish(&region);
    } else if (stream->compression == COMPRESSION_ZSTD && stream->decoder != NULL) {
        ZSTD_freeDStream(stream->decoder);
    }
    stream->decoder = NULL;
    if (stream->fd > STDIN_FILENO) {
        close(stream->fd);
    }
    stream->fd = -1;
}
