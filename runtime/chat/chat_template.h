/* chat_template: what the renderers need to know of a template. */
#ifndef SKEP_CHAT_CHAT_TEMPLATE_H
#define SKEP_CHAT_CHAT_TEMPLATE_H

#include "runtime/chat/render.h"

#include <stdbool.h>

struct chat_template {
    const char *name;
    const char *hash;   /* BLAKE2b-256 of its text, in hexadecimal */
    const char *choice; /* the name by which a user chooses it; NULL: found by its hash only */
    enum status (*render)(struct renderer *renderer);
    const char *const *control; /* tokens that it consists of, and a NULL */
    const char *default_system; /* system message of a conversation without one; NULL: none */
    bool has_tools;             /* it renders `tools`, `tool_calls` and messages of tools */
};

/* chat_template_named: the template with this name; NULL: there is none. */
const struct chat_template *chat_template_named(const char *name);

#endif
