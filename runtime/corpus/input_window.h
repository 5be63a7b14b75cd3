/* input_window: the text of one input at a time, as well-formed UTF-8, in a window that moves from
 * its start to its end. */
#ifndef SKEP_CORPUS_INPUT_WINDOW_H
#define SKEP_CORPUS_INPUT_WINDOW_H

#include "base/fault.h"
#include "runtime/corpus/byte_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WINDOW_TEXT_MAX = 1 << 26 /* maximum text between begin and end */ };

/* The ill-formed sequences of all inputs, each of which was replaced by U+FFFD. */
struct replaced_bytes {
    uint64_t count;   /* number of sequences */
    const char *path; /* first input with an ill-formed sequence; NULL: none */
    uint64_t offset;  /* offset of the first ill-formed sequence in the decompressed input `path` */
};

struct input_window {
    struct byte_stream stream; /* bytes of the open input */
    bool is_open;              /* an input is open */
    bool is_at_end;            /* the window contains the end of the input */
    bool is_strict;            /* ill-formed UTF-8 is an error */
    bool skips_mark;           /* a byte order mark at the start is left out */
    uint64_t earlier_bytes;    /* number of bytes of the files of earlier inputs */
    /* [raw_count] bytes of the input that are not in the window yet; capacity RAW_BYTES */
    char *raw;
    size_t raw_count;    /* number of bytes in `raw` */
    uint64_t raw_offset; /* offset of raw[0] in the input */
    char *text;          /* memory of the window; the byte text[end] can be written, too */
    size_t begin, end;   /* range of the text that the caller has not consumed */
    struct replaced_bytes replaced;
};

/* input_window_init: map the memory; pages are used as they are needed.
 * errors  STATUS_FIT */
MUST_CHECK enum status input_window_init(struct input_window *window, bool is_strict,
                                         struct fault *fault);

/* input_window_open: begin with the text of `path` ("-": standard input).
 * skips_mark  leave out a byte order mark at the start: in a text the mark is a character, but in
 *             JSON it is no part of the data and only shows that the file is UTF-8
 * errors  those of byte_stream_open */
MUST_CHECK enum status input_window_open(struct input_window *window, const char *path,
                                         bool skips_mark, struct fault *fault);

/* input_window_fill: append more text, at least one byte unless the input ends, which sets
 * is_at_end. The unread text may move inside the memory: only offsets from `begin` remain valid.
 * errors  STATUS_INPUT when the text would exceed WINDOW_TEXT_MAX, or is ill-formed and is_strict;
 *         those of byte_stream_read */
MUST_CHECK enum status input_window_fill(struct input_window *window, struct fault *fault);

/* input_window_fill_line: input_window_fill for the caller that reads JSON lines.
 * line    number of the line that begins with the unread text, from 1
 * errors  those of input_window_fill; a line above WINDOW_TEXT_MAX is named by its number */
MUST_CHECK enum status input_window_fill_line(struct input_window *window, uint64_t line,
                                              struct fault *fault);

/* input_window_file_bytes: the number of bytes that have been read from the files of all inputs. */
uint64_t input_window_file_bytes(const struct input_window *window);

void input_window_close(struct input_window *window);
void input_window_finish(struct input_window *window);

#endif
