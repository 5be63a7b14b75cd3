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
    STOP_BYTES_MAX = 256, /* text of --stop */
    PRINTED_BYTES = 4096, /* text that is buffered before it is printed */
};

struct generated_text {
    const struct tokenizer *tokenizer; /* NULL: a token is a byte */
    struct tokenizer_decoder *decoder; /* NULL: a token is a byte */
    const char *stop;                  /* text that ends the output; NULL: none */
    size_t stop_bytes;                 /* length of `stop`, at most STOP_BYTES_MAX */
    size_t held_bytes;                 /* length of the start of `stop` that the text ends with */
    size_t hidden_bytes;               /* decoded bytes to come that belong to the prompt */
    bool has_stopped;                  /* the stop text has come */
    bool has_write_failed;             /* standard output cannot be written */
    size_t buffered_bytes;             /* bytes of `buffer` in use */
    char buffer[PRINTED_BYTES];
};

/* generated_text_init: prepare for the text behind a prompt.
 * tokenizer   NULL: each token is a byte
 * ids_max     maximum number of ids, with those of the prompt
 * memory      the decoder is in `region`
 * errors      STATUS_USAGE when the stop text is empty or too long */
MUST_CHECK enum status generated_text_init(struct generated_text *text,
                                           const struct tokenizer *tokenizer, size_t ids_max,
                                           const char *stop, struct region *region,
                                           struct fault *fault);

/* generated_text_begin: take the ids of the prompt, whose text the caller prints. */
void generated_text_begin(struct generated_text *text, const int32_t *ids, int64_t count);

/* generated_text_add: print what the next token adds. Returns false at the stop text, at a token
 * that ends a text, and when standard output cannot be written. */
bool generated_text_add(struct generated_text *text, int32_t token);

/* generated_text_end: print what has been held back. */
void generated_text_end(struct generated_text *text);

/* print_at_once: write bytes to standard output. Returns false when they could not be written;
 * *has_failed is then set, unless the reader has closed the pipe. */
bool print_at_once(const char *bytes, size_t length, bool *has_failed);

#endif
