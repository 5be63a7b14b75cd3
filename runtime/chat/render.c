/* render: reads a conversation's JSON, and has the functions with which renderers append to the
 * text. */
#include "runtime/chat/render.h"

#include "base/check.h"
#include "base/text.h"
#include "runtime/chat/chat_template.h"

#include <string.h>

/* ---- the text ---- */

static void append_bytes(struct chat_text *text, const char *bytes, size_t count) {
    ASSERT(count < INT32_MAX / 2 - (size_t)text->length);
    while ((size_t)text->capacity < (size_t)text->length + count + 1) {
        text->bytes = region_grow(text->region, text->bytes, text->length, &text->capacity, 1);
    }
    memcpy(text->bytes + text->length, bytes, count);
    text->length += (int)count;
    text->bytes[text->length] = '\0';
}

void add_fixed(struct renderer *renderer, const char *text) {
    append_bytes(renderer->text, text, strlen(text));
}

static enum status reject_token(struct renderer *renderer, const struct json_node *node,
                                int32_t id) {
    const struct token_text token = tokenizer_token_text(renderer->options->guard, id);
    return json_fault(
        node, renderer->fault, "remove the token from the text, or add --parse-special",
        "contains the control token %.*s", (int)(token.count < 64 ? token.count : 64), token.bytes);
}

enum status add_data(struct renderer *renderer, const struct json_node *node, const char *text,
                     size_t bytes) {
    const struct tokenizer *guard = renderer->options->guard;
    size_t at;
    if (guard != NULL) {
        const int32_t id = tokenizer_find_special(guard, text, bytes, &at);
        if (id != TOKENIZER_NO_ID) {
            return reject_token(renderer, node, id);
        }
    }
    append_bytes(renderer->text, text, bytes);
    return OK;
}

enum status add_content(struct renderer *renderer, const struct chat_message *message) {
    return add_data(renderer, &message->node, message->content, strlen(message->content));
}

/* Returns the size in bytes of the white-space character at the start of `text`; 0: the text does
 * not start with white space. White space is as in Python's str.isspace(). */
static size_t space_bytes(const char *text, const char *end) {
    static const char *const SPACES[] = {
        "\t",           "\n",           "\v",           "\f",           "\r",
        "\x1c",         "\x1d",         "\x1e",         "\x1f",         " ",
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
        "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
        "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    for (size_t i = 0; i < ARRAY_COUNT(SPACES); i++) {
        const size_t bytes = strlen(SPACES[i]);
        if ((size_t)(end - text) >= bytes && memcmp(text, SPACES[i], bytes) == 0) {
            return bytes;
        }
    }
    return 0;
}

/* Returns the size in bytes of the white-space character at the end of the text; 0: the text does
 * not end with white space. No character in UTF-8 ends with the bytes of a shorter character, so at
 * most one size matches. */
static size_t last_space_bytes(const char *text, const char *end) {
    for (size_t bytes = 1; bytes <= 3 && bytes <= (size_t)(end - text); bytes++) {
        if (space_bytes(end - bytes, end) == bytes) {
            return bytes;
        }
    }
    return 0;
}

enum status add_trimmed(struct renderer *renderer, const struct chat_message *message) {
    const char *begin = message->content;
    const char *end = begin + strlen(begin);
    for (size_t bytes = 1; bytes > 0;) {
        bytes = space_bytes(begin, end);
        begin += bytes;
    }
    for (size_t bytes = 1; bytes > 0;) {
        bytes = last_space_bytes(begin, end);
        end -= bytes;
    }
    return add_data(renderer, &message->node, begin, (size_t)(end - begin));
}

static void begin_segment(struct chat_text *text, bool is_trained, bool is_separate) {
    if (text->segment_count == text->segment_capacity) {
        text->segments = region_grow(text->region, text->segments, text->segment_count,
                                     &text->segment_capacity, sizeof *text->segments);
    }
    text->segments[text->segment_count++] = (struct chat_segment){
        .begin = (size_t)text->length, .is_trained = is_trained, .is_separate = is_separate};
}

void begin_message(struct renderer *renderer) {
    begin_segment(renderer->text, false, true);
}

void begin_answer(struct renderer *renderer) {
    begin_segment(renderer->text, true, false);
}

void end_answer(struct renderer *renderer) {
    begin_segment(renderer->text, false, false);
}

/* ---- the conversation ---- */

static const char NO_TOOLS[] =
    "choose another template with --template (in a run, data.chat), or remove it";

bool has_role(const struct chat_message *message, const char *role) {
    return strcmp(message->role, role) == 0;
}

static enum status check_role(struct renderer *renderer, const struct chat_message *message) {
    const bool has_tools = renderer->options->chat->has_tools;
    const bool is_known = has_role(message, "system") || has_role(message, "user") ||
                          has_role(message, "assistant") ||
                          (has_tools && has_role(message, "tool"));
    if (!is_known) {
        return json_fault_member(&message->node, "role", renderer->fault,
                                 "is \"%.40s\"; it must be system, user, assistant%s",
                                 message->role, has_tools ? " or tool" : "");
    }
    if (message->call_count > 0 && !has_role(message, "assistant")) {
        return json_fault(
            &message->calls, renderer->fault, "move it to a message of the assistant",
            "belongs to a message of the role \"%.40s\"; only an assistant calls tools",
            message->role);
    }
    return message->call_count == 0 || has_tools
               ? OK
               : json_fault(&message->calls, renderer->fault, NO_TOOLS,
                            "cannot be rendered: the template %s does not support tools",
                            renderer->options->chat->name);
}

static enum status read_message(struct renderer *renderer, int index,
                                struct chat_message *message) {
    struct json_node role, content;
    bool has_content = false, has_calls = false;
    *message =
        (struct chat_message){.node = json_element(&renderer->list, (size_t)index), .content = ""};
    TRY(json_as_object(&message->node, renderer->fault));
    TRY(json_require(&message->node, "role", &role, renderer->fault));
    TRY(json_as_text(&role, &message->role, renderer->fault));
    TRY(json_get_text(&message->node, "content", &message->content, &has_content, renderer->fault));
    TRY(json_get_text(&message->node, "reasoning_content", &message->reasoning, NULL,
                      renderer->fault));
    TRY(json_get_array(&message->node, "tool_calls", &message->calls, &has_calls, renderer->fault));
    message->call_count = has_calls ? (int)json_child_count(&message->calls) : 0;
    if (!has_content && message->call_count == 0) {
        TRY(json_require(&message->node, "content", &content, renderer->fault));
    }
    return check_role(renderer, message);
}

static enum status read_tools(struct renderer *renderer) {
    bool has_tools = false;
    TRY(json_get_array(renderer->conversation, "tools", &renderer->tools, &has_tools,
                       renderer->fault));
    renderer->tool_count = has_tools ? (int)json_child_count(&renderer->tools) : 0;
    return renderer->tool_count == 0 || renderer->options->chat->has_tools
               ? OK
               : json_fault(&renderer->tools, renderer->fault, NO_TOOLS,
                            "cannot be rendered: the template %s does not support tools",
                            renderer->options->chat->name);
}

static void reserve_messages(struct chat_text *text, int count) {
    while (text->message_capacity < count) {
        text->messages = region_grow(text->region, text->messages, 0, &text->message_capacity,
                                     sizeof *text->messages);
    }
}

static enum status read_messages(struct renderer *renderer) {
    TRY(json_require(renderer->conversation, "messages", &renderer->list, renderer->fault));
    TRY(json_as_array(&renderer->list, renderer->fault));
    const size_t count = json_child_count(&renderer->list);
    if (count == 0 || count > CHAT_MESSAGES_MAX) {
        return json_fault(&renderer->list, renderer->fault, NULL,
                          "has %zu messages; a conversation has from 1 to %d", count,
                          (int)CHAT_MESSAGES_MAX);
    }
    renderer->count = (int)count;
    reserve_messages(renderer->text, renderer->count);
    renderer->messages = renderer->text->messages;
    for (int i = 0; i < renderer->count; i++) {
        TRY(read_message(renderer, i, &renderer->messages[i]));
    }
    return read_tools(renderer);
}

enum status find_tool_call(struct renderer *renderer, const struct chat_message *message, int index,
                           struct tool_call *call) {
    struct json_node name;
    bool is_wrapped = false;
    call->call = json_element(&message->calls, (size_t)index);
    TRY(json_as_object(&call->call, renderer->fault));
    TRY(json_get_object(&call->call, "function", &call->function, &is_wrapped, renderer->fault));
    if (!is_wrapped) {
        call->function = call->call;
    }
    TRY(json_require(&call->function, "name", &name, renderer->fault));
    TRY(json_as_text(&name, &call->name, renderer->fault));
    return json_require(&call->function, "arguments", &call->arguments, renderer->fault);
}

enum status chat_render(const struct chat_options *options, const struct json_node *conversation,
                        struct chat_text *text, struct fault *fault) {
    struct renderer renderer = {
        .options = options, .text = text, .conversation = conversation, .fault = fault};
    text->length = text->segment_count = 0;
    TRY(read_messages(&renderer));
    return options->chat->render(&renderer);
}

/* ---- turns ---- */

enum {
    /* maximum number of segments of a message, and of the text around all messages */
    TURN_SEGMENTS_MAX = 4,
    /* maximum bytes that a template adds to a message, without the end token */
    TURN_BYTES_MAX = 128,
    /* maximum bytes that a template adds to a conversation, without the date */
    FRAME_BYTES_MAX = 512,
};

enum status chat_render_turns(const struct chat_options *options, const struct chat_turn *turns,
                              int count, struct chat_text *text, struct fault *fault) {
    struct renderer renderer = {.options = options, .text = text, .fault = fault};
    ASSERT(count > 0 && options->guard == NULL);
    text->length = text->segment_count = 0;
    reserve_messages(text, count);
    renderer.messages = text->messages;
    renderer.count = count;
    for (int i = 0; i < count; i++) {
        renderer.messages[i] =
            (struct chat_message){.role = turns[i].role, .content = turns[i].content};
    }
    return options->chat->render(&renderer);
}

size_t chat_text_bytes_max(const struct chat_options *options, int turns, size_t content_bytes) {
    const size_t turn = TURN_BYTES_MAX + strlen(options->eos);
    return FRAME_BYTES_MAX + strlen(options->date) + strlen(options->bos) + (size_t)turns * turn +
           content_bytes;
}

void chat_text_reserve(struct chat_text *text, const struct chat_options *options, int turns,
                       size_t content_bytes) {
    const size_t bytes = chat_text_bytes_max(options, turns, content_bytes) + 1;
    const int segments = (turns + 1) * TURN_SEGMENTS_MAX;
    ASSERT(bytes < INT32_MAX / 2 && turns < CHAT_MESSAGES_MAX);
    while ((size_t)text->capacity < bytes) {
        text->bytes = region_grow(text->region, text->bytes, 0, &text->capacity, 1);
    }
    while (text->segment_capacity < segments) {
        text->segments = region_grow(text->region, text->segments, 0, &text->segment_capacity,
                                     sizeof *text->segments);
    }
    reserve_messages(text, turns);
}
