/* chat_template: what the renderers need to know of a template. */
#ifndef SKEP_CHAT_CHAT_TEMPLATE_H
#define SKEP_CHAT_CHAT_TEMPLATE_H

#include "runtime/chat/render.h"

#include <stdbool.h>

struct chat_template {
    const char *name;   /* for messages, such as "Qwen3" */
    const char *hash;   /* BLAKE2b-256 of its text, in hexadecimal */
    const char *choice; /* value of --template for it; NULL: only its hash finds it */
    enum status (*render)(struct renderer *renderer); /* renders a conversation */
    const char *const *control; /* texts of the tokens that it uses, and a NULL */
    const char *end;            /* token that ends an answer; NULL: the tokenizer's end of text */
    const char *default_system; /* system message of a conversation without one; NULL: none */
    bool has_tools;             /* it renders `tools`, `tool_calls` and messages of tools */
};

/* chat_template_by_name: the template with this name; NULL: there is none. */
const struct chat_template *chat_template_by_name(const char *name);

#endif
