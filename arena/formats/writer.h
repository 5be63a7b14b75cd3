/* writer: writes formatted text to a file descriptor through one bounded buffer. A writer stores
 * its first error, so callers check for errors only at the end. */
#ifndef SKEP_ARENA_FORMATS_WRITER_H
#define SKEP_ARENA_FORMATS_WRITER_H

#include "base/fault.h"

#include <stddef.h>

enum {
    WRITER_BYTES = 4096, /* size of a writer's buffer in bytes */
    /* maximum size of the text that one call of writer_add formats, in bytes */
    WRITER_PIECE_MAX = 2048
};

struct writer {
    int fd;                   /* descriptor of the output */
    int error;                /* errno of the first failed write; 0: none */
    size_t length;            /* number of bytes of the buffer that are not yet written */
    char bytes[WRITER_BYTES]; /* text that is not yet written */
};

struct writer writer_for_fd(int fd);

/* writer_add: append formatted text.
 * limits  the formatted text is shorter than WRITER_PIECE_MAX bytes */
void writer_add(struct writer *writer, const char *format, ...) PRINTF_LIKE(2, 3);
/* writer_add_text: append `text`, of any length, unchanged. */
void writer_add_text(struct writer *writer, const char *text);

/* writer_end: write the bytes that remain in the buffer. The descriptor stays open.
 * errors  STATUS_FAILED naming `path` */
MUST_CHECK enum status writer_end(struct writer *writer, const char *path, struct fault *fault);

#endif
