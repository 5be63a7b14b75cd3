#include "arena/formats/writer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct writer writer_for_fd(int fd) {
    return (struct writer){.fd = fd};
}

static void flush_buffer(struct writer *writer) {
    size_t written = 0;
    while (written < writer->length && writer->error == 0) {
        ssize_t count = write(writer->fd, writer->bytes + written, writer->length - written);
        if (count >= 0) {
            written += (size_t)count;
        } else if (errno != EINTR) {
            writer->error = errno;
        }
    }
    writer->length = 0;
}

void writer_add(struct writer *writer, const char *format, ...) {
    if (WRITER_BYTES - writer->length < WRITER_PIECE_MAX) {
        flush_buffer(writer);
    }
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(writer->bytes + writer->length, WRITER_PIECE_MAX, format, arguments);
    va_end(arguments);
    ASSERT(count >= 0 && count < WRITER_PIECE_MAX);
    writer->length += (size_t)count;
}

void writer_add_text(struct writer *writer, const char *text) {
    size_t left = strlen(text);
    while (left > 0) {
        if (writer->length == WRITER_BYTES) {
            flush_buffer(writer);
        }
        size_t room = WRITER_BYTES - writer->length;
        size_t count = left < room ? left : room;
        memcpy(writer->bytes + writer->length, text, count);
        writer->length += count;
        text += count;
        left -= count;
    }
}

enum status writer_end(struct writer *writer, const char *path, struct fault *fault) {
    flush_buffer(writer);
    if (writer->error != 0) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot write", writer->error);
    }
    return OK;
}
