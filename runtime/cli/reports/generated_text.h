/* generated_text: prints generated text as it is decoded: whole characters, up to a stop text.
 * Nothing here allocates after generated_text_init. */
#ifndef SKEP_CLI_REPORTS_GENERATED_TEXT_H
#define SKEP_CLI_REPORTS_GENERATED_TEXT_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STOP_TEXTS_MAX = 16,  /* maximum number of stop texts */
    STOP_BYTES_MAX = 256, /* maximum size of a stop text */
    PRINTED_BYTES = 4096, /* size of the buffer for text that is not printed yet */
};

/* A text that ends the output when it is generated. */
struct stop_text {
    const char *bytes;
    size_t count;   /* size in bytes, 1 to STOP_BYTES_MAX */
    size_t matched; /* bytes of the longest beginning of the stop text with which the output ends */
};

struct generated_text {
    const struct tokenizer *tokenizer;      /* tokenizer of the text; NULL: a token is a byte */
    struct tokenizer_decoder *decoder;      /* decoder of the tokens; NULL: a token is a byte */
    struct stop_text stops[STOP_TEXTS_MAX]; /* [stop_count] */
    int stop_count;
    size_t held_bytes; /* bytes at the end of the output that may be a stop text: the longest
                            * `matched` */
    /* number of next decoded bytes that belong to the prompt, and are not printed */
    size_t hidden_bytes;
    bool has_stopped; /* a stop text has been generated */
    int write_error;  /* errno when standard output could not be written; 0: none */
    /* [held_bytes] bytes that are held back, because they may begin a stop text */
    char held[STOP_BYTES_MAX];
    /* [copy_capacity] copy of the printed text, for the caller; NULL: no copy */
    char *copy;
    /* size of the printed text, which `copy` has only up to copy_capacity; size of `copy` */
    size_t copy_bytes, copy_capacity;
    size_t buffered_bytes; /* number of bytes of `buffer` in use */
    char buffer[PRINTED_BYTES];
};

/* generated_text_init: prepare for the text that continues a prompt.
 * tokenizer   NULL: each token is a byte
 * ids_max     maximum number of ids, with those of the prompt
 * memory      the decoder is in `region` */
void generated_text_init(struct generated_text *text, const struct tokenizer *tokenizer,
                         size_t ids_max, struct region *region);

/* generated_text_add_stop: end the output before this text. If two stop texts end at the same byte,
 * the output ends before the longer one.
 * limits  at most STOP_TEXTS_MAX texts
 * errors  STATUS_USAGE when the text is empty or too long */
MUST_CHECK enum status generated_text_add_stop(struct generated_text *text, const char *stop,
                                               struct fault *fault);

/* generated_text_keep: store a copy of each printed text in `copy`, up to `capacity` bytes. */
void generated_text_keep(struct generated_text *text, char *copy, size_t capacity);

/* generated_text_begin: begin a text after the ids of its prompt. The caller prints the prompt's
 * text. */
void generated_text_begin(struct generated_text *text, const int32_t *ids, int64_t count);

/* generated_text_add: print the text that the next token completes. Returns false at a stop text,
 * at a token that ends a text, and when standard output cannot be written. */
bool generated_text_add(struct generated_text *text, int32_t token);

/* generated_text_end: print the text that is still held back, at the end of the output. */
void generated_text_end(struct generated_text *text);

/* print_at_once: write bytes to standard output. Returns false when they could not be written;
 * *error is then errno, unless the reader has closed the pipe. */
bool print_at_once(const char *bytes, size_t length, int *error);

/* stdout_fault: the fault of a standard output that cannot be written.
 * error  errno of the write; 0: it is not known */
enum status stdout_fault(int error, struct fault *fault);

#endif
