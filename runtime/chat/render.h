/* render: the state of rendering one conversation, and what all renderers have in common. */
#ifndef SKEP_CHAT_RENDER_H
#define SKEP_CHAT_RENDER_H

#include "runtime/chat/chat.h"

/* A message. A member that the file lacks, or that is null, is absent. */
struct chat_message {
    struct json_node node;  /* the message in the file */
    const char *role;       /* such as "user" */
    const char *content;    /* its text; "": absent */
    const char *reasoning;  /* `reasoning_content`; NULL: absent */
    struct json_node calls; /* `tool_calls` */
    int call_count;         /* number of tool calls; 0: absent or an empty list */
};

/* The state of rendering one conversation. */
struct renderer {
    const struct chat_options *options;
    struct chat_text *text; /* what has been rendered */
    const struct json_node *conversation;
    struct json_node list;         /* the list `messages` */
    struct chat_message *messages; /* [count] */
    int count;                     /* number of messages */
    struct json_node tools;        /* the list `tools` */
    int tool_count;                /* number of tools; 0: absent or an empty list */
    struct fault *fault;
};

/* add_fixed: append text of the template. */
void add_fixed(struct renderer *renderer, const char *text);

/* add_data: append text of the conversation.
 * node    what it is from, for a fault
 * errors  STATUS_INPUT when it contains a special token and options->guard is set */
MUST_CHECK enum status add_data(struct renderer *renderer, const struct json_node *node,
                                const char *text, size_t bytes);

/* add_content: append the content of a message. add_trimmed: without white space at its ends, as
 * str.strip() of Python returns it. */
MUST_CHECK enum status add_content(struct renderer *renderer, const struct chat_message *message);
MUST_CHECK enum status add_trimmed(struct renderer *renderer, const struct chat_message *message);

/* add_json: append a value as json.dumps(value, ensure_ascii=False, indent=indent) of Python.
 * indent  0: everything on one line */
MUST_CHECK enum status add_json(struct renderer *renderer, const struct json_node *node,
                                int indent);

/* begin_message: a control token follows, which is not trained.
 * begin_answer: what follows is trained. end_answer: what follows is not trained. */
void begin_message(struct renderer *renderer);
void begin_answer(struct renderer *renderer);
void end_answer(struct renderer *renderer);

/* has_role: whether the message is of this role. */
bool has_role(const struct chat_message *message, const char *role);

/* find_tool_call: find the function of call number `index` of a message: its member `function`, or
 * itself.
 * name        set to the function's name
 * arguments   set to its member `arguments`
 * errors      STATUS_INPUT */
struct tool_call {
    struct json_node call, function, arguments; /* the call, and members of it */
    const char *name;                           /* name of the function */
};
MUST_CHECK enum status find_tool_call(struct renderer *renderer, const struct chat_message *message,
                                      int index, struct tool_call *call);

/* The renderers. */
MUST_CHECK enum status render_chatml(struct renderer *renderer);
MUST_CHECK enum status render_qwen2(struct renderer *renderer);
MUST_CHECK enum status render_qwen3(struct renderer *renderer);
MUST_CHECK enum status render_llama3(struct renderer *renderer);
MUST_CHECK enum status render_llama31(struct renderer *renderer);
MUST_CHECK enum status render_mistral(struct renderer *renderer);

#endif
