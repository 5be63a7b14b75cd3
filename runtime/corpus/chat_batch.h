/* chat_batch: lines of JSON in batches, and the ids of their conversations. One thread reads
 * batches while others render and encode earlier ones. The batches depend on the inputs alone. */
#ifndef SKEP_CORPUS_CHAT_BATCH_H
#define SKEP_CORPUS_CHAT_BATCH_H

#include "base/fault.h"
#include "base/hash.h"
#include "base/region.h"
#include "runtime/chat/chat_encode.h"
#include "runtime/corpus/input_list.h"
#include "runtime/corpus/input_window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHAT_BATCH_BYTES = 1 << 18,     /* text of a batch, unless one line is longer */
    CHAT_BATCH_LINES_MAX = 1 << 11, /* maximum number of lines of a batch */
};

/* A line that is not blank: a conversation. */
struct chat_line {
    size_t begin, length; /* range of the batch's text; a NUL follows */
    const char *path;     /* file that it is from, or "standard input" */
    uint64_t number;      /* in that file, from 1 */
    /* The result of chat_batch_encode: its ids begin at `first_id`; -1: it is not encoded. */
    int first_id, id_count;
};

struct chat_batch {
    struct region region; /* of the arrays, which grow */
    char *text;           /* [text_count] */
    int text_count, text_capacity;
    struct chat_line *lines; /* [CHAT_BATCH_LINES_MAX] */
    int line_count;          /* 0: the inputs have ended */
    uint64_t first_number;   /* of its first conversation, counted from 0 over all inputs */
    /* The result of chat_batch_encode. */
    struct hash hash; /* of the text of all lines */
    int32_t *ids;     /* [id_count] of one conversation after the other */
    bool *is_trained; /* [id_count] */
    int id_count, id_capacity;
    enum status status;
    struct fault fault;
};

void chat_batch_init(struct chat_batch *batch);
void chat_batch_finish(struct chat_batch *batch);

/* ---- reading ---- */

struct chat_reader {
    const struct input_list *inputs;
    struct input_window window; /* the current input */
    int next_input;             /* index of the input to open next */
    const char *path;           /* of the current input */
    uint64_t line;              /* number of its current line, from 1 */
    uint64_t conversations;     /* read so far */
    size_t searched;            /* unread bytes of the window that contain no line end */
};

/* chat_reader_init: prepare for the first batch; chat_reader_finish releases the memory.
 * errors  STATUS_FIT when no memory can be mapped */
MUST_CHECK enum status chat_reader_init(const struct input_list *inputs, bool is_strict,
                                        struct chat_reader *reader, struct fault *fault);
void chat_reader_finish(struct chat_reader *reader);

/* chat_reader_next: fill in the next batch; line_count is 0 at the end of the inputs.
 * errors  those of input_window_open and input_window_fill */
MUST_CHECK enum status chat_reader_next(struct chat_reader *reader, struct chat_batch *batch,
                                        struct fault *fault);

/* ---- encoding ---- */

/* What a thread needs to encode conversations. */
struct chat_encoder {
    struct region region;
    const struct tokenizer *tokenizer;
    const struct chat_options *options;
    struct tokenizer_encoder *encoder;
    struct chat_text text;
    struct chat_ids ids;
};

void chat_encoder_init(struct chat_encoder *encoder, const struct tokenizer *tokenizer,
                       const struct chat_options *options);
void chat_encoder_finish(struct chat_encoder *encoder);

/* A chat_choice says whether conversation `number` is to be encoded. */
typedef bool chat_choice(const void *context, uint64_t number);

/* chat_batch_encode: render and encode the conversations of a batch, and compute its hash. The
 * result is in the batch, errors too: batch->status and batch->fault, which names file and line. */
void chat_batch_encode(struct chat_batch *batch, struct chat_encoder *encoder, chat_choice *chooses,
                       const void *context);

#endif
