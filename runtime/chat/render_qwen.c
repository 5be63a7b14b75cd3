/* render_qwen: renders conversations as ChatML, and for Qwen with tools and blocks of thoughts. */
#include "runtime/chat/chat_template.h"

#include <string.h>

/* Starts a message with its header. */
static void add_header(struct renderer *renderer, const char *role) {
    begin_message(renderer);
    add_fixed(renderer, "<|im_start|>");
    add_fixed(renderer, role);
    add_fixed(renderer, "\n");
}

/* Appends a message that has only a role and text: no tool calls, tool result or thinking. */
static enum status add_plain(struct renderer *renderer, const struct chat_message *message) {
    const bool is_answer = has_role(message, "assistant");
    add_header(renderer, message->role);
    if (is_answer) {
        begin_answer(renderer);
    }
    TRY(add_content(renderer, message));
    add_fixed(renderer, "<|im_end|>");
    if (is_answer) {
        end_answer(renderer);
    }
    add_fixed(renderer, "\n");
    return OK;
}

static void add_default_system(struct renderer *renderer) {
    if (renderer->options->chat->default_system != NULL) {
        add_header(renderer, "system");
        add_fixed(renderer, renderer->options->chat->default_system);
        add_fixed(renderer, "<|im_end|>\n");
    }
}

enum status render_chatml(struct renderer *renderer) {
    if (!has_role(&renderer->messages[0], "system")) {
        add_default_system(renderer);
    }
    for (int i = 0; i < renderer->count; i++) {
        TRY(add_plain(renderer, &renderer->messages[i]));
    }
    if (renderer->options->starts_answer) {
        add_header(renderer, "assistant");
    }
    return OK;
}

/* ---- tools ---- */

/* Adds the system message of a conversation with tools: the conversation's own system message or
 * the default one, and then the tools. */
static enum status add_tools(struct renderer *renderer, const char *default_system) {
    const struct chat_message *first = &renderer->messages[0];
    const bool has_system = has_role(first, "system");
    add_header(renderer, "system");
    if (has_system) {
        TRY(add_content(renderer, first));
    } else if (default_system != NULL) {
        add_fixed(renderer, default_system);
    }
    add_fixed(renderer, has_system || default_system != NULL ? "\n\n" : "");
    add_fixed(renderer, "# Tools\n\nYou may call one or more functions to assist with the user "
                        "query.\n\nYou are provided with function signatures within "
                        "<tools></tools> XML tags:\n<tools>");
    for (int i = 0; i < renderer->tool_count; i++) {
        const struct json_node tool = json_element(&renderer->tools, (size_t)i);
        add_fixed(renderer, "\n");
        TRY(add_json(renderer, &tool, 0));
    }
    add_fixed(renderer, "\n</tools>\n\nFor each function call, return a json object with function "
                        "name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
                        "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"
                        "</tool_call><|im_end|>\n");
    return OK;
}

static enum status add_tool_call(struct renderer *renderer, const struct tool_call *call,
                                 bool quotes_text) {
    struct fault ignored;
    const char *text;
    add_fixed(renderer, "<tool_call>\n{\"name\": \"");
    TRY(add_data(renderer, &call->function, call->name, strlen(call->name)));
    add_fixed(renderer, "\", \"arguments\": ");
    if (!quotes_text && json_as_text(&call->arguments, &text, &ignored) == OK) {
        TRY(add_data(renderer, &call->arguments, text, strlen(text)));
    } else {
        TRY(add_json(renderer, &call->arguments, 0));
    }
    add_fixed(renderer, "}\n</tool_call>");
    return OK;
}

/* Adds the result of a tool call. The results of consecutive calls form one message. */
static enum status add_tool_result(struct renderer *renderer, int index) {
    const struct chat_message *message = &renderer->messages[index];
    if (index == 0 || !has_role(message - 1, "tool")) {
        begin_message(renderer);
        add_fixed(renderer, "<|im_start|>user");
    }
    add_fixed(renderer, "\n<tool_response>\n");
    TRY(add_content(renderer, message));
    add_fixed(renderer, "\n</tool_response>");
    if (index + 1 == renderer->count || !has_role(message + 1, "tool")) {
        add_fixed(renderer, "<|im_end|>\n");
    }
    return OK;
}

/* ---- Qwen 2.5 ---- */

static enum status add_tool_calls(struct renderer *renderer, const struct chat_message *message) {
    begin_message(renderer);
    add_fixed(renderer, "<|im_start|>assistant\n");
    begin_answer(renderer);
    if (message->content[0] != '\0') {
        TRY(add_content(renderer, message));
        add_fixed(renderer, "\n");
    }
    for (int i = 0; i < message->call_count; i++) {
        struct tool_call call;
        TRY(find_tool_call(renderer, message, i, &call));
        add_fixed(renderer, i > 0 ? "\n" : "");
        TRY(add_tool_call(renderer, &call, true));
    }
    add_fixed(renderer, "<|im_end|>");
    end_answer(renderer);
    add_fixed(renderer, "\n");
    return OK;
}

enum status render_qwen2(struct renderer *renderer) {
    const bool has_system = has_role(&renderer->messages[0], "system");
    if (renderer->tool_count > 0) {
        TRY(add_tools(renderer, renderer->options->chat->default_system));
    } else if (!has_system) {
        add_default_system(renderer);
    }
    for (int i = renderer->tool_count > 0 && has_system; i < renderer->count; i++) {
        const struct chat_message *message = &renderer->messages[i];
        if (has_role(message, "tool")) {
            TRY(add_tool_result(renderer, i));
        } else if (message->call_count > 0) {
            TRY(add_tool_calls(renderer, message));
        } else {
            TRY(add_plain(renderer, message));
        }
    }
    if (renderer->options->starts_answer) {
        add_header(renderer, "assistant");
    }
    return OK;
}

/* ---- Qwen 3 ---- */

static const char THINK_END[] = "</think>";
static const char THINK_BEGIN[] = "<think>";

/* A range of the text of a message. */
struct range {
    const char *begin, *end; /* first byte, and one after the last byte */
};

static struct range without_newlines(struct range range, bool at_begin, bool at_end) {
    while (at_begin && range.begin < range.end && *range.begin == '\n') {
        range.begin++;
    }
    while (at_end && range.begin < range.end && range.end[-1] == '\n') {
        range.end--;
    }
    return range;
}

/* Returns the last occurrence of `word` in the range; NULL: none. */
static const char *find_last(struct range range, const char *word) {
    const size_t bytes = strlen(word);
    for (const char *at = range.end - bytes; at >= range.begin && at + bytes <= range.end; at--) {
        if (memcmp(at, word, bytes) == 0) {
            return at;
        }
    }
    return NULL;
}

/* The parts of an answer: the content, and the thoughts before the content. */
struct thoughts {
    struct range reasoning, content;
};

/* Divides an answer as the template does: the thoughts are the member `reasoning_content`, or the
 * text before the first </think>. In the second case, the content is the text after the last
 * </think>. */
static struct thoughts divide_answer(const struct chat_message *message) {
    const struct range all = {message->content, message->content + strlen(message->content)};
    struct thoughts thoughts = {.content = all, .reasoning = {all.begin, all.begin}};
    const char *first_end = strstr(all.begin, THINK_END);
    if (message->reasoning != NULL) {
        thoughts.reasoning =
            (struct range){message->reasoning, message->reasoning + strlen(message->reasoning)};
    } else if (first_end != NULL) {
        thoughts.content.begin = find_last(all, THINK_END) + strlen(THINK_END);
        thoughts.content = without_newlines(thoughts.content, true, false);
        struct range before = without_newlines((struct range){all.begin, first_end}, false, true);
        const char *begin = before.end - before.begin < (ptrdiff_t)strlen(THINK_BEGIN)
                                ? NULL
                                : find_last(before, THINK_BEGIN);
        before.begin = begin == NULL ? before.begin : begin + strlen(THINK_BEGIN);
        thoughts.reasoning = without_newlines(before, true, false);
    }
    return thoughts;
}

static enum status add_range(struct renderer *renderer, const struct chat_message *message,
                             struct range range) {
    return add_data(renderer, &message->node, range.begin, (size_t)(range.end - range.begin));
}

/* Adds the block of thoughts. Without thinking, the model gets an empty block with the question. */
static enum status add_thoughts(struct renderer *renderer, const struct chat_message *message,
                                struct range reasoning) {
    const bool is_given = reasoning.begin == reasoning.end && !renderer->options->is_thinking;
    if (!is_given) {
        begin_answer(renderer);
    }
    add_fixed(renderer, "<think>\n");
    TRY(add_range(renderer, message, reasoning));
    add_fixed(renderer, "\n</think>\n\n");
    if (is_given) {
        begin_answer(renderer);
    }
    return OK;
}

static enum status add_thinking_answer(struct renderer *renderer, int index, int last_question) {
    const struct chat_message *message = &renderer->messages[index];
    const bool is_last = index + 1 == renderer->count;
    struct thoughts thoughts = divide_answer(message);
    const bool has_content = thoughts.content.begin < thoughts.content.end;
    add_header(renderer, "assistant");
    if (index > last_question && (is_last || thoughts.reasoning.begin < thoughts.reasoning.end)) {
        TRY(add_thoughts(renderer, message, without_newlines(thoughts.reasoning, true, true)));
        thoughts.content = without_newlines(thoughts.content, true, false);
    } else {
        begin_answer(renderer);
    }
    TRY(add_range(renderer, message, thoughts.content));
    for (int i = 0; i < message->call_count; i++) {
        struct tool_call call;
        TRY(find_tool_call(renderer, message, i, &call));
        add_fixed(renderer, i > 0 || has_content ? "\n" : "");
        TRY(add_tool_call(renderer, &call, false));
    }
    add_fixed(renderer, "<|im_end|>");
    end_answer(renderer);
    add_fixed(renderer, "\n");
    return OK;
}

static bool is_question(const struct chat_message *message) {
    static const char BEGIN[] = "<tool_response>";
    static const char END[] = "</tool_response>";
    const size_t bytes = strlen(message->content);
    const bool is_result = strncmp(message->content, BEGIN, strlen(BEGIN)) == 0 &&
                           bytes >= strlen(END) &&
                           strcmp(message->content + bytes - strlen(END), END) == 0;
    return has_role(message, "user") && !is_result;
}

/* Returns the index of the last question. Answers before that question are rendered without their
 * thoughts. */
static int find_last_question(const struct renderer *renderer) {
    for (int i = renderer->count - 1; i >= 0; i--) {
        if (is_question(&renderer->messages[i])) {
            return i;
        }
    }
    return renderer->count - 1;
}

enum status render_qwen3(struct renderer *renderer) {
    const int last_question = find_last_question(renderer);
    const bool has_system = has_role(&renderer->messages[0], "system");
    if (renderer->tool_count > 0) {
        TRY(add_tools(renderer, NULL));
    }
    for (int i = renderer->tool_count > 0 && has_system; i < renderer->count; i++) {
        const struct chat_message *message = &renderer->messages[i];
        if (has_role(message, "tool")) {
            TRY(add_tool_result(renderer, i));
        } else if (has_role(message, "assistant")) {
            TRY(add_thinking_answer(renderer, i, last_question));
        } else {
            TRY(add_plain(renderer, message));
        }
    }
    if (renderer->options->starts_answer) {
        add_header(renderer, "assistant");
        add_fixed(renderer, renderer->options->is_thinking ? "" : "<think>\n\n</think>\n\n");
    }
    return OK;
}
