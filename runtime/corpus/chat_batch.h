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
    /* maximum bytes of text in a batch, unless one line is longer */
    CHAT_BATCH_BYTES = 1 << 18,
    CHAT_BATCH_LINES_MAX = 1 << 11, /* maximum number of lines of a batch */
};

/* A line that is not blank: a conversation. */
struct chat_line {
    size_t begin, length; /* range of the line in the batch's text; a NUL follows */
    const char *path;     /* file that the line is from, or "standard input" */
    uint64_t number;      /* number of the line in its file, from 1 */
    /* The result of chat_batch_encode: index of the line's first id in chat_batch.ids, and number
     * of its ids; first_id -1: the line was not encoded. */
    int first_id, id_count;
};

struct chat_batch {
    struct region region; /* region of the batch's arrays, which grow */
    char *text;           /* [text_count] */
    int text_count, text_capacity;
    /* [line_count] lines that are not blank; capacity CHAT_BATCH_LINES_MAX */
    struct chat_line *lines;
    int line_count;        /* number of lines; 0: the inputs have ended */
    uint64_t first_number; /* number of the batch's first conversation, from 0 over all inputs */
    /* The fields from here on are the result of chat_batch_encode. */
    struct hash hash; /* hash of the text of all lines */
    int32_t *ids;     /* [id_count] ids of one conversation after the other */
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
    const char *path;           /* path of the current input */
    uint64_t line;              /* number of the current line in the current input, from 1 */
    uint64_t conversations;     /* number of conversations read so far */
    size_t searched;            /* number of the window's unread bytes that contain no line end */
};

/* chat_reader_init: prepare for the first batch; chat_reader_finish releases the memory.
 * errors  STATUS_FIT when no memory can be mapped */
MUST_CHECK enum status chat_reader_init(const struct input_list *inputs, bool is_strict,
                                        struct chat_reader *reader, struct fault *fault);
void chat_reader_finish(struct chat_reader *reader);

/* chat_reader_next: fill `batch` with the next lines of the inputs; batch->line_count is 0 at the
 * end of the inputs.
 * errors  those of input_window_open and input_window_fill */
MUST_CHECK enum status chat_reader_next(struct chat_reader *reader, struct chat_batch *batch,
                                        struct fault *fault);

/* ---- encoding ---- */

/* The objects with which one thread renders and encodes conversations. */
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

/* A function of type chat_choice returns whether conversation `number` is to be encoded. */
typedef bool chat_choice(const void *context, uint64_t number);

/* chat_batch_encode: render and encode the conversations of a batch, and compute the batch's hash.
 * The results are in the batch. So are errors: batch->status, and batch->fault, which has file and
 * line. */
void chat_batch_encode(struct chat_batch *batch, struct chat_encoder *encoder, chat_choice *chooses,
                       const void *context);

#endif
