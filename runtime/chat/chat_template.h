/* chat_template: a template, as the renderers use it. */
#ifndef SKEP_CHAT_CHAT_TEMPLATE_H
#define SKEP_CHAT_CHAT_TEMPLATE_H

#include "runtime/chat/render.h"

#include <stdbool.h>

struct chat_template {
    const char *name; /* name of the template in messages, such as "Qwen3" */
    const char *hash; /* BLAKE2b-256 of the template's text, in hexadecimal */
    /* value of --template that selects the template; NULL: only its hash does */
    const char *choice;
    enum status (*render)(struct renderer *renderer); /* renders a conversation */
    /* texts of the control tokens in the template, with a NULL at the end */
    const char *const *control;
    /* text of the token that ends an answer; NULL: the tokenizer's eos token */
    const char *end;
    const char *default_system; /* system message of a conversation without one; NULL: none */
    /* the template can render `tools`, `tool_calls` and messages of tools */
    bool has_tools;
};

/* chat_template_by_name: the template with this name; NULL: no template has it. */
const struct chat_template *chat_template_by_name(const char *name);

#endif
