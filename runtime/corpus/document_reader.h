/* document_reader: divides the text of a corpus into batches, which threads encode independently. A
 * batch contains whole documents, or a part of one document that is longer than a batch. The
 * batches depend on the inputs and options alone, never on the number of threads. */
#ifndef SKEP_CORPUS_DOCUMENT_READER_H
#define SKEP_CORPUS_DOCUMENT_READER_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/corpus/input_list.h"
#include "runtime/corpus/input_window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BATCH_BYTES = 1 << 18,          /* text of a batch, unless one piece needs more */
    BATCH_PIECES_MAX = 2048,        /* maximum number of pieces in a batch */
    PIECE_BYTES_MAX = 1 << 24,      /* maximum text of a piece */
    DIVISION_LOOKAHEAD_BYTES = 256, /* text after the limit of a text_division */
    SECTION_BYTES = 1 << 14,        /* minimum text of a section; it ends at the next line end */
};

/* A document, or a part of one, in a batch. */
struct piece {
    size_t begin, length;                /* range of the batch's text */
    bool starts_document, ends_document; /* the document has no piece before, or after */
    bool is_validation;                  /* its document is kept for validation */
};

struct batch {
    char *text;           /* [PIECE_BYTES_MAX], of which pages are used as they are needed */
    size_t length;        /* bytes of text that the batch contains */
    struct piece *pieces; /* [BATCH_PIECES_MAX] */
    int piece_count;      /* 0: the corpus has ended */
};

/* A function that divides text: returns the largest n <= limit such that text[0, n) and the text
 * from n on can be encoded separately; 0: there is none. At least DIVISION_LOOKAHEAD_BYTES follow
 * the limit, unless the document ends before.
 * limits  limit < length */
typedef size_t text_division(const void *context, const char *text, size_t length, size_t limit);

struct reader_options {
    const struct input_list *inputs;
    const char *field;       /* field of a JSON line that contains the text */
    bool is_strict;          /* ill-formed UTF-8 is an error */
    uint64_t validation_ppm; /* share of documents kept for validation: validation_split.h */
    /* Text files consist of sections of SECTION_BYTES, to the next line end. The share is one of
     * sections, and adjacent ones with the same use are one document. */
    bool has_sections;
    text_division *find_division; /* finds positions at which long documents are divided */
    const void *division_context;
};

struct document_reader {
    struct reader_options options;
    struct input_window window;  /* the current input */
    int next_input;              /* index of the input to open next */
    uint64_t line;               /* number of the current line of JSON, from 1 */
    uint64_t unit;               /* number of the current document or section */
    uint64_t empty_documents;    /* documents without text, which are left out */
    uint64_t lone_surrogates;    /* escapes in JSON that were replaced by U+FFFD */
    bool is_in_document;         /* a document has begun and not ended */
    bool has_started;            /* a piece of the document has been put into a batch */
    bool is_validation;          /* the current document is kept for validation */
    bool knows_end;              /* the end of the document is known: after document_bytes */
    size_t document_bytes;       /* unread bytes of the window that belong to the document */
    size_t bytes_after_document; /* bytes to skip after document_bytes: the rest of a line */
    size_t section_bytes;        /* bytes of the document in the section that has not ended */
};

/* document_reader_init: prepare for the first batch.
 * memory  refers to what `options` point to; document_reader_finish releases the memory
 * errors  STATUS_FIT when no memory can be mapped */
MUST_CHECK enum status document_reader_init(const struct reader_options *options,
                                            struct document_reader *reader, struct fault *fault);

/* document_reader_next: fill in the next batch; piece_count is 0 at the end of the corpus.
 * errors  STATUS_INPUT naming file and place: invalid JSON, a line without the field, a line above
 *         WINDOW_TEXT_MAX, a piece above PIECE_BYTES_MAX, ill-formed UTF-8 if options.is_strict;
 *         those of byte_stream.h */
MUST_CHECK enum status document_reader_next(struct document_reader *reader, struct batch *batch,
                                            struct fault *fault);

void document_reader_finish(struct document_reader *reader);

/* batch_init: map the memory of a batch.
 * errors  STATUS_FIT */
MUST_CHECK enum status batch_init(struct batch *batch, struct region *region, struct fault *fault);
void batch_finish(struct batch *batch);

#endif
