/* render: the state of rendering one conversation, and the functions that all renderers use. */
#ifndef SKEP_CHAT_RENDER_H
#define SKEP_CHAT_RENDER_H

#include "runtime/chat/chat.h"

/* A message. Its members that are missing or null in the file count as absent. */
struct chat_message {
    struct json_node node;  /* JSON object of the message in the file */
    const char *role;       /* such as "user" */
    const char *content;    /* text of the message; "": absent */
    const char *reasoning;  /* `reasoning_content`; NULL: absent */
    struct json_node calls; /* `tool_calls` */
    int call_count;         /* number of tool calls; 0: absent or an empty list */
};

/* The state of rendering one conversation. */
struct renderer {
    const struct chat_options *options;
    struct chat_text *text; /* text that has been rendered so far */
    const struct json_node *conversation;
    struct json_node list;         /* the list `messages` */
    struct chat_message *messages; /* [count] */
    int count;                     /* number of messages */
    struct json_node tools;        /* the list `tools` */
    int tool_count;                /* number of tools; 0: absent or an empty list */
    struct fault *fault;
};

/* add_fixed: append text that is part of the template, and may contain control tokens. */
void add_fixed(struct renderer *renderer, const char *text);

/* add_data: append text that is from the conversation.
 * node    JSON value that has the text, for a fault
 * errors  STATUS_INPUT when it contains a special token and options->guard is set */
MUST_CHECK enum status add_data(struct renderer *renderer, const struct json_node *node,
                                const char *text, size_t bytes);

/* add_content: append the content of a message. add_trimmed: append the content without white space
 * at its ends, as str.strip() of Python returns it. */
MUST_CHECK enum status add_content(struct renderer *renderer, const struct chat_message *message);
MUST_CHECK enum status add_trimmed(struct renderer *renderer, const struct chat_message *message);

/* add_json: append a value as json.dumps(value, ensure_ascii=False, indent=indent) of Python.
 * indent  0: everything on one line */
MUST_CHECK enum status add_json(struct renderer *renderer, const struct json_node *node,
                                int indent);

/* begin_message: begin a segment that starts with a control token and is not trained. begin_answer:
 * begin a segment that is trained. end_answer: begin a segment that is not trained. */
void begin_message(struct renderer *renderer);
void begin_answer(struct renderer *renderer);
void end_answer(struct renderer *renderer);

/* has_role: whether the message has the role `role`. */
bool has_role(const struct chat_message *message, const char *role);

/* find_tool_call: find the function of call number `index` of a message: the member `function` of
 * the call, or the call itself.
 * name        set to the function's name
 * arguments   set to the function's member `arguments`
 * errors      STATUS_INPUT */
struct tool_call {
    /* the call, its function and the function's arguments */
    struct json_node call, function, arguments;
    const char *name; /* name of the function */
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
