/* writer: formatted text to a file descriptor through one bounded buffer. The first error is
 * stored, so that callers check for errors only at the end. */
#ifndef SKEP_ARENA_FORMATS_WRITER_H
#define SKEP_ARENA_FORMATS_WRITER_H

#include "base/fault.h"

#include <stddef.h>

enum { WRITER_BYTES = 4096, WRITER_PIECE_MAX = 2048 };

struct writer {
    int fd;
    int error; /* an errno; 0: no error so far */
    size_t length;
    char bytes[WRITER_BYTES];
};

struct writer writer_over(int fd);

/* writer_add: one formatted piece.
 * limits  the piece formats to less than WRITER_PIECE_MAX bytes */
void writer_add(struct writer *writer, const char *format, ...) PRINTF_LIKE(2, 3);
/* writer_add_text: `text` of any length, as it is. */
void writer_add_text(struct writer *writer, const char *text);

/* writer_end: write what is still in the buffer. The descriptor stays open.
 * errors  STATUS_FAILED naming `path` */
MUST_CHECK enum status writer_end(struct writer *writer, const char *path, struct fault *fault);

#endif
