/* chat: conversations as the text that a chat model expects. The model's template, a program in
 * Jinja, defines this text. This room does not execute templates: it recognises those that it knows
 * by a hash of their text, and has a renderer of its own for each kind.
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

/* chat_template_find: find the template of a model: that with the name `name`, if `name` is not
 * NULL; else the known one whose hash is that of the model's template text: the file
 * chat_template.jinja in `folder`, or `chat_template` in its tokenizer_config.json. A newline at
 * the end of the text does not count.
 * name    "chatml", "llama3", "mistral", "qwen3" or NULL
 * errors  STATUS_INPUT for a folder without a template, and for a template whose hash is unknown;
 *         STATUS_USAGE for any other name */
MUST_CHECK enum status chat_template_find(const char *folder, const char *name,
                                          const struct chat_template **found, struct fault *fault);

/* chat_template_name: the template's name in messages, such as "Qwen3". */
const char *chat_template_name(const struct chat_template *chat);

/* chat_template_check: check that the tokenizer has the template's control tokens.
 * errors  STATUS_INPUT */
MUST_CHECK enum status chat_template_check(const struct chat_template *chat,
                                           const struct tokenizer *tokenizer, struct fault *fault);

/* The template and the parameters with which a conversation is rendered. */
struct chat_options {
    const struct chat_template *chat; /* the model's template */
    const char *date;                 /* the date that Llama's template prints */
    /* texts of the tokens that start a text and that end an answer, if the template takes them from
     * the tokenizer; "": none */
    const char *bos, *eos;
    /* Qwen3: whether an empty block of thoughts is part of the answer. Without thinking, the model
     * gets this block with the question, so that the block is not trained. */
    bool is_thinking;
    bool starts_answer; /* the rendered text ends with the header of the next answer */
    /* A conversation must not contain special tokens of this tokenizer; NULL: any text is
     * allowed. */
    const struct tokenizer *guard;
};

/* chat_options_find: set *options for the model in `folder`: the template that chat_template_find
 * returns, and the texts of the model's tokens. The date is set to CHAT_DATE, is_thinking to true,
 * and `guard` to `tokenizer`, so that conversations with special tokens are rejected.
 * memory  texts in `region`
 * errors  those of chat_template_find and chat_template_check */
MUST_CHECK enum status chat_options_find(const char *folder, const char *name,
                                         const struct tokenizer *tokenizer, struct region *region,
                                         struct chat_options *options, struct fault *fault);

/* A part of a rendered text. A segment ends where the next segment begins. */
struct chat_segment {
    size_t begin; /* offset of the segment's first byte in the text */
    /* the model has to write this segment: an answer with the token that ends it */
    bool is_trained;
    /* The segment begins with a control token, so that the text from the segment on can be
     * tokenised separately. */
    bool is_separate;
};

/* A rendered conversation. Before the first use, all fields except `region` are zeros. Later calls
 * reuse the memory. */
struct chat_text {
    struct region *region;               /* region of the arrays, which grow */
    char *bytes;                         /* [length] text in well-formed UTF-8, followed by a NUL */
    int length, capacity;                /* number of bytes in use, and of bytes allocated */
    struct chat_segment *segments;       /* [segment_count] segments of the whole text, in order */
    int segment_count, segment_capacity; /* number of segments in use, and of segments allocated */
    /* [message_capacity] messages of the conversation that is rendered */
    struct chat_message *messages;
    int message_capacity; /* number of messages allocated */
};

/* chat_render: render a conversation.
 * conversation  an object with `messages`, a list of {"role", "content"} and, where the template
 *               has tools, "tool_calls"; and optionally with `tools`
 * errors        STATUS_INPUT naming the field: a field that is missing or has another type; a role
 *               or a member that the template cannot render, because none is ever ignored; roles
 *               that do not alternate, where the template requires it; a special token in a text */
MUST_CHECK enum status chat_render(const struct chat_options *options,
                                   const struct json_node *conversation, struct chat_text *text,
                                   struct fault *fault);

/* A message that has only a role and text. */
struct chat_turn {
    const char *role; /* "system", "user" or "assistant" */
    const char *content;
};

/* chat_render_turns: render a conversation whose messages have only text. The call allocates
 * nothing if chat_text_reserve has reserved enough.
 * turns   [count], at least 1: optionally one message of the system, then messages of the user and
 *         the assistant in turn
 * limits  options->guard is NULL: the caller has checked the contents
 * errors  none for turns in this order */
MUST_CHECK enum status chat_render_turns(const struct chat_options *options,
                                         const struct chat_turn *turns, int count,
                                         struct chat_text *text, struct fault *fault);

/* chat_text_bytes_max: return the maximum size of the text of `turns` turns whose contents have
 * `content_bytes` in total. chat_text_reserve: allocate the memory for such a text. */
size_t chat_text_bytes_max(const struct chat_options *options, int turns, size_t content_bytes);
void chat_text_reserve(struct chat_text *text, const struct chat_options *options, int turns,
                       size_t content_bytes);

/* chat_end_token: the id of the token that ends an answer; TOKENIZER_NO_ID: the template has no
 * such token. */
int32_t chat_end_token(const struct chat_options *options, const struct tokenizer *tokenizer);

#endif
