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
    /* maximum bytes of text in a batch, unless one piece needs more */
    BATCH_BYTES = 1 << 18,
    BATCH_PIECES_MAX = 2048,        /* maximum number of pieces in a batch */
    PIECE_BYTES_MAX = 1 << 24,      /* maximum bytes of text in a piece */
    DIVISION_LOOKAHEAD_BYTES = 256, /* bytes of text that follow the limit of a text_division */
    /* minimum bytes of a section, which ends at the next line end */
    SECTION_BYTES = 1 << 14,
};

/* A document, or a part of one, in a batch. */
struct piece {
    size_t begin, length; /* range of the piece in the batch's text */
    /* the document has no piece before this one; the document has no piece after this one */
    bool starts_document, ends_document;
    bool is_validation; /* the piece's document is kept for validation */
};

struct batch {
    /* [length] text of the batch; capacity PIECE_BYTES_MAX, whose pages are used as needed */
    char *text;
    size_t length;        /* number of bytes of text in the batch */
    struct piece *pieces; /* [BATCH_PIECES_MAX] */
    int piece_count;      /* number of pieces; 0: the corpus has ended */
};

/* A function that divides text: returns the largest n <= limit such that text[0, n) and the text
 * from n on can be encoded separately; 0: there is no such n. At least DIVISION_LOOKAHEAD_BYTES
 * follow the limit, unless the document ends before.
 * limits  limit < length */
typedef size_t text_division(const void *context, const char *text, size_t length, size_t limit);

struct reader_options {
    const struct input_list *inputs;
    const char *field; /* field of a JSON line that contains the text */
    bool is_strict;    /* ill-formed UTF-8 is an error */
    /* share of documents kept for validation, in millionths (validation_split.h) */
    uint64_t validation_ppm;
    /* Text files consist of sections of SECTION_BYTES, to the next line end. validation_ppm is then
     * a share of the sections, and adjacent sections with the same use are one document. */
    bool has_sections;
    /* function that finds positions at which long documents are divided */
    text_division *find_division;
    const void *division_context;
};

struct document_reader {
    struct reader_options options;
    struct input_window window; /* the current input */
    int next_input;             /* index of the input to open next */
    uint64_t line;              /* number of the current line in a file of JSON lines, from 1 */
    /* number of the current document or section, from 0 over all inputs */
    uint64_t unit;
    uint64_t empty_documents; /* number of documents without text, which are left out */
    bool is_in_document;      /* a document has begun and not ended */
    bool has_started;         /* a piece of the document has been put into a batch */
    bool is_validation;       /* the current document is kept for validation */
    /* the end of the document is known: document_bytes after the unread text's start */
    bool knows_end;
    /* number of the window's unread bytes that belong to the document */
    size_t document_bytes;
    /* number of bytes to skip after document_bytes: the rest of a JSON line */
    size_t bytes_after_document;
    /* number of the document's bytes in the section that has not ended */
    size_t section_bytes;
};

/* document_reader_init: prepare for the first batch.
 * memory  refers to the data that `options` point to; document_reader_finish releases the memory
 * errors  STATUS_FIT when no memory can be mapped */
MUST_CHECK enum status document_reader_init(const struct reader_options *options,
                                            struct document_reader *reader, struct fault *fault);

/* document_reader_next: fill `batch` with the next pieces of the corpus; batch->piece_count is 0 at
 * the end of the corpus.
 * errors  STATUS_INPUT naming file and place: invalid JSON, a line without the field, a line above
 *         WINDOW_TEXT_MAX, a piece above PIECE_BYTES_MAX, ill-formed UTF-8 if options.is_strict;
 *         those of byte_stream.h */
MUST_CHECK enum status document_reader_next(struct document_reader *reader, struct batch *batch,
                                            struct fault *fault);

/* no_division_fault: the fault that a text above PIECE_BYTES_MAX cannot be divided.
 * place   file, or file and line
 * offset  position of the text in the file, in bytes; -1: not known */
enum status no_division_fault(const char *place, int64_t offset, struct fault *fault);

void document_reader_finish(struct document_reader *reader);

/* batch_init: map the memory of a batch.
 * errors  STATUS_FIT */
MUST_CHECK enum status batch_init(struct batch *batch, struct region *region, struct fault *fault);
void batch_finish(struct batch *batch);

#endif
