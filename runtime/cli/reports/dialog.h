/* dialog: a conversation with a model. A question is a line; each prompt begins with the questions
 * and answers so far, as the model's chat template renders them. Nothing here allocates after
 * dialog_init. */
#ifndef SKEP_CLI_REPORTS_DIALOG_H
#define SKEP_CLI_REPORTS_DIALOG_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/chat/chat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DIALOG_TURNS_MAX = 512,      /* maximum number of messages of a conversation */
    DIALOG_BYTES_MAX = 1 << 18,  /* total size of the texts of all messages, each with its NUL */
    DIALOG_LINE_BYTES = 1 << 16, /* maximum size of a line of standard input, with its line end */
};

struct dialog {
    struct chat_options chat;
    const struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    struct chat_text text;   /* the conversation, rendered */
    const char *system;      /* message of the system; NULL: none */
    struct chat_turn *turns; /* [DIALOG_TURNS_MAX]: messages of the conversation */
    int turn_count;
    char *contents;              /* [DIALOG_BYTES_MAX]: texts of all messages */
    size_t content_count;        /* number of bytes of `contents` in use */
    char *lines;                 /* [DIALOG_LINE_BYTES] bytes of standard input */
    size_t line_begin, line_end; /* offsets of the unread bytes in `lines` */
    bool is_at_end;              /* standard input has ended */
    /* the unread bytes begin inside a line that is too long and will be skipped */
    bool is_in_long_line;
    uint64_t line; /* number of the last question's line, from 1; 0: --prompt */
};

/* Options that the user gives; NULL: not given. */
struct dialog_choices {
    const char *system, *template_name, *date, *thinking;
    bool parses_special; /* control tokens in texts are accepted */
};

/* dialog_first_choice: the name of an option that was given, such as "--system"; NULL: none. */
const char *dialog_first_choice(const struct dialog_choices *choices);

/* dialog_init: begin an empty conversation with the model in `folder`.
 * memory  in `region`: 1 MiB, and what the encoder needs for the longest conversation, 40 MiB
 * errors  those of chat_options_find; STATUS_USAGE for an invalid value of --thinking; STATUS_INPUT
 *         for a message of the system that is not UTF-8 or contains a control token */
MUST_CHECK enum status dialog_init(struct dialog *dialog, const struct dialog_choices *choices,
                                   const char *folder, const struct tokenizer *tokenizer,
                                   struct region *region, struct fault *fault);

/* dialog_ask: add a question to the conversation.
 * errors  STATUS_INPUT, naming the question's line: text that is not UTF-8 or contains a control
 *         token; a conversation with too many turns or too much text. The conversation is then
 *         unchanged */
MUST_CHECK enum status dialog_ask(struct dialog *dialog, const char *question, struct fault *fault);

/* dialog_read: wait for the next line of standard input that is not empty, and ask it. An empty
 * line begins another conversation. *found is false at the end of the input.
 * errors  STATUS_INPUT for a line that is too long or has a NUL, after which the next call reads
 *         the line after it; STATUS_FAILED when standard input cannot be read; those of
 *         dialog_ask */
MUST_CHECK enum status dialog_read(struct dialog *dialog, bool *found, struct fault *fault);

/* dialog_prompt: set *list to the ids of the conversation and of the header of the next answer.
 * context  tokens of the model's context: the prompt must be shorter
 * list     in the encoder's memory, valid until the next call
 * errors   STATUS_INPUT for a prompt that is too long; those of tokenizer_encode */
MUST_CHECK enum status dialog_prompt(struct dialog *dialog, int64_t context,
                                     struct token_list *list, struct fault *fault);

/* dialog_answer: add the answer to the last question.
 * errors  STATUS_INPUT for a conversation with too much text */
MUST_CHECK enum status dialog_answer(struct dialog *dialog, const char *answer, size_t count,
                                     struct fault *fault);

/* dialog_withdraw: remove the last question if it has no answer. */
void dialog_withdraw(struct dialog *dialog);

#endif
