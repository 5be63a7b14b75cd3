/* chat: conversations as the text that a chat model expects. The model's template says what this
 * text is; it is a program in Jinja. This room does not run it: it recognises the templates that it
 * knows by a hash of their text, and has a renderer of its own for each kind.
 *
 *     {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
 *
 *     <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n
 *                                                           |== trained ==|
 *
 * The texts equal those of apply_chat_template in transformers 5.23.0.
 *
 * public   chat_encode.h */
#ifndef SKEP_CHAT_CHAT_H
#define SKEP_CHAT_CHAT_H

#include "base/fault.h"
#include "base/json.h"
#include "base/region.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>

enum { CHAT_MESSAGES_MAX = 1 << 16 }; /* maximum number of messages of a conversation */

#define CHAT_DATE "26 Jul 2024" /* the date in Llama's own template */

struct chat_template; /* a template that this program knows */

/* chat_template_find: the template of a model: that of `name`, if it is not NULL, else the one with
 * the hash of the template's text: the file chat_template.jinja in `folder`, or `chat_template` in
 * its tokenizer_config.json. A newline at the end of the text does not count.
 * name    "chatml", "llama3", "mistral", "qwen3" or NULL
 * errors  STATUS_INPUT for a folder without a template, and for a template whose hash is unknown;
 *         STATUS_USAGE for another name */
MUST_CHECK enum status chat_template_find(const char *folder, const char *name,
                                          const struct chat_template **found, struct fault *fault);

/* chat_template_name: which template it is, such as "Qwen3". */
const char *chat_template_name(const struct chat_template *chat);

/* chat_template_check: check that the tokenizer has the template's control tokens.
 * errors  STATUS_INPUT */
MUST_CHECK enum status chat_template_check(const struct chat_template *chat,
                                           const struct tokenizer *tokenizer, struct fault *fault);

/* How to render a conversation. */
struct chat_options {
    const struct chat_template *chat; /* the model's template */
    const char *date;                 /* the date that Llama's template prints */
    /* texts of the tokens that start a text and that end an answer, if the template takes them from
     * the tokenizer; "": none */
    const char *bos, *eos;
    /* Qwen3: whether an empty block of thoughts is part of the answer. Without thinking, the model
     * gets this block with the question, so it is not trained. */
    bool is_thinking;
    bool starts_answer; /* the text ends with the header of the next answer */
    /* A conversation must not contain special tokens of this tokenizer; NULL: any text is
     * allowed. */
    const struct tokenizer *guard;
};

/* chat_options_find: the options for the model in `folder`: its template, or that of `name`
 * (chat_template_find), and the texts of its tokens. The date is CHAT_DATE, with thinking, and the
 * tokenizer is the guard.
 * memory  texts in `region`
 * errors  those of chat_template_find and chat_template_check */
MUST_CHECK enum status chat_options_find(const char *folder, const char *name,
                                         const struct tokenizer *tokenizer, struct region *region,
                                         struct chat_options *options, struct fault *fault);

/* A part of a rendered text; it ends where the next one begins. */
struct chat_segment {
    size_t begin;    /* offset of its first byte */
    bool is_trained; /* the model has to write it: an answer and the token that ends it */
    /* A control token begins here, so that the text from here on can be tokenised separately. */
    bool is_separate;
};

/* A rendered conversation. Zeros at first, but for the region; reused by the next call. */
struct chat_text {
    struct region *region;               /* of the arrays, which grow */
    char *bytes;                         /* [length], well-formed UTF-8, and a NUL */
    int length, capacity;                /* bytes in use, and allocated */
    struct chat_segment *segments;       /* [segment_count], of the whole text, in order */
    int segment_count, segment_capacity; /* segments in use, and allocated */
    struct chat_message *messages;       /* of the conversation that is rendered */
    int message_capacity;                /* messages allocated */
};

/* chat_render: render a conversation.
 * conversation  an object with `messages`, a list of {"role", "content"} and, where the template
 *               has tools, "tool_calls"; and optionally with `tools`
 * errors        STATUS_INPUT naming the field: what is missing or has another type; a role or a
 *               member that the template cannot render, which it never ignores; roles that do not
 *               alternate, where the template requires it; a special token in a text */
MUST_CHECK enum status chat_render(const struct chat_options *options,
                                   const struct json_node *conversation, struct chat_text *text,
                                   struct fault *fault);

/* A message that is only text. */
struct chat_turn {
    const char *role; /* "system", "user" or "assistant" */
    const char *content;
};

/* chat_render_turns: render a conversation of text. It allocates nothing if chat_text_reserve has
 * reserved enough.
 * turns   [count], at least 1: optionally the system's, then the user's and the assistant's in turn
 * limits  options->guard is NULL: the caller has checked the contents
 * errors  none for such turns */
MUST_CHECK enum status chat_render_turns(const struct chat_options *options,
                                         const struct chat_turn *turns, int count,
                                         struct chat_text *text, struct fault *fault);

/* chat_text_bytes_max: the most bytes of a text of `turns` turns with contents of `content_bytes`
 * in sum. chat_text_reserve: allocate the memory of such a text. */
size_t chat_text_bytes_max(const struct chat_options *options, int turns, size_t content_bytes);
void chat_text_reserve(struct chat_text *text, const struct chat_options *options, int turns,
                       size_t content_bytes);

/* chat_end_token: the id of the token that ends an answer; TOKENIZER_NO_ID: there is none. */
int32_t chat_end_token(const struct chat_options *options, const struct tokenizer *tokenizer);

#endif
