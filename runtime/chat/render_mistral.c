/* render_mistral: renders conversations for Mistral 7B Instruct v0.3. */
#include "runtime/chat/chat_template.h"

#include <string.h>

enum { CALL_ID_CHARACTERS = 9 }; /* number of characters of the id of a tool call */

/* Checks that questions and answers alternate after the system message, not counting tool calls and
 * their results. */
static enum status check_order(struct renderer *renderer, int first) {
    bool expects_question = true;
    for (int i = first; i < renderer->count; i++) {
        const struct chat_message *message = &renderer->messages[i];
        const bool is_counted = message->call_count == 0 && !has_role(message, "tool");
        if (has_role(message, "system") ||
            (is_counted && has_role(message, "user") != expects_question)) {
            return json_fault_member(&message->node, "role", renderer->fault,
                                     "is \"%s\"; after an optional system message, the roles must "
                                     "alternate: user, assistant",
                                     message->role);
        }
        expects_question = is_counted ? !expects_question : expects_question;
    }
    return OK;
}

/* Adds a tool's function as the template writes it: its texts are in quotes, but not escaped. */
static enum status add_tool_function(struct renderer *renderer, const struct json_node *function) {
    struct json_walk walk = json_walk_over(function);
    struct fault ignored;
    const char *text;
    const char *separator = "";
    while (json_walk_next(&walk)) {
        const char *key = walk.member.key;
        if (strcmp(key, "return") == 0) {
            continue;
        }
        add_fixed(renderer, separator);
        add_fixed(renderer, "\"");
        TRY(add_data(renderer, function, key, strlen(key)));
        add_fixed(renderer, "\": ");
        if (json_as_text(&walk.member, &text, &ignored) == OK) {
            add_fixed(renderer, "\"");
            TRY(add_data(renderer, &walk.member, text, strlen(text)));
            add_fixed(renderer, "\"");
        } else {
            TRY(add_json(renderer, &walk.member, 0));
        }
        separator = ", ";
    }
    return OK;
}

static enum status add_tools(struct renderer *renderer) {
    add_fixed(renderer, "[AVAILABLE_TOOLS] [");
    for (int i = 0; i < renderer->tool_count; i++) {
        const struct json_node tool = json_element(&renderer->tools, (size_t)i);
        struct json_node function;
        TRY(json_as_object(&tool, renderer->fault));
        TRY(json_require(&tool, "function", &function, renderer->fault));
        TRY(json_as_object(&function, renderer->fault));
        add_fixed(renderer, "{\"type\": \"function\", \"function\": {");
        TRY(add_tool_function(renderer, &function));
        add_fixed(renderer, i + 1 < renderer->tool_count ? "}}, " : "}}]");
    }
    add_fixed(renderer, "[/AVAILABLE_TOOLS]");
    return OK;
}

/* Returns the last question. The template puts the tools before each question that equals this
 * one. */
static const struct chat_message *find_last_question(const struct renderer *renderer) {
    const struct chat_message *last = NULL;
    for (int i = 0; i < renderer->count; i++) {
        last = has_role(&renderer->messages[i], "user") ? &renderer->messages[i] : last;
    }
    return last;
}

static enum status add_question(struct renderer *renderer, const struct chat_message *message,
                                bool is_last_message) {
    const struct chat_message *last = find_last_question(renderer);
    const struct chat_message *first = &renderer->messages[0];
    if (renderer->tool_count > 0 && strcmp(message->content, last->content) == 0) {
        TRY(add_tools(renderer));
    }
    add_fixed(renderer, "[INST] ");
    if (is_last_message && has_role(first, "system")) {
        TRY(add_content(renderer, first));
        add_fixed(renderer, "\n\n");
    }
    TRY(add_content(renderer, message));
    add_fixed(renderer, "[/INST]");
    return OK;
}

/* Reads the id of a tool call. The id must have nine characters. */
static enum status read_id(struct renderer *renderer, const struct json_node *object,
                           const char *key, const char **id) {
    struct json_node node;
    int characters = 0;
    TRY(json_require(object, key, &node, renderer->fault));
    TRY(json_as_text(&node, id, renderer->fault));
    for (const char *at = *id; *at != '\0'; at++) {
        characters += ((unsigned char)*at & 0xc0) != 0x80;
    }
    return characters == CALL_ID_CHARACTERS
               ? OK
               : json_fault(&node, renderer->fault, "give each call an id of that length",
                            "has %d characters; the template requires %d", characters,
                            (int)CALL_ID_CHARACTERS);
}

static enum status add_tool_calls(struct renderer *renderer, const struct chat_message *message) {
    begin_answer(renderer);
    add_fixed(renderer, "[TOOL_CALLS] [");
    for (int i = 0; i < message->call_count; i++) {
        struct tool_call call;
        const char *id;
        TRY(find_tool_call(renderer, message, i, &call));
        TRY(read_id(renderer, &call.call, "id", &id));
        TRY(add_json(renderer, &call.function, 0));
        /* removes the brace that ends the function, because the template puts the id before it */
        renderer->text->length--;
        add_fixed(renderer, ", \"id\": \"");
        TRY(add_data(renderer, &call.call, id, strlen(id)));
        add_fixed(renderer, i + 1 < message->call_count ? "\"}, " : "\"}]");
    }
    add_fixed(renderer, renderer->options->eos);
    end_answer(renderer);
    return OK;
}

static enum status add_tool_result(struct renderer *renderer, const struct chat_message *message) {
    const char *id;
    TRY(read_id(renderer, &message->node, "tool_call_id", &id));
    begin_message(renderer);
    add_fixed(renderer, "[TOOL_RESULTS] {\"content\": ");
    TRY(add_content(renderer, message));
    add_fixed(renderer, ", \"call_id\": \"");
    TRY(add_data(renderer, &message->node, id, strlen(id)));
    add_fixed(renderer, "\"}[/TOOL_RESULTS]");
    return OK;
}

static enum status add_answer(struct renderer *renderer, const struct chat_message *message) {
    begin_answer(renderer);
    add_fixed(renderer, " ");
    TRY(add_trimmed(renderer, message));
    add_fixed(renderer, renderer->options->eos);
    end_answer(renderer);
    return OK;
}

enum status render_mistral(struct renderer *renderer) {
    const int first = has_role(&renderer->messages[0], "system");
    TRY(check_order(renderer, first));
    begin_message(renderer);
    add_fixed(renderer, renderer->options->bos);
    for (int i = first; i < renderer->count; i++) {
        const struct chat_message *message = &renderer->messages[i];
        if (has_role(message, "user")) {
            begin_message(renderer);
            TRY(add_question(renderer, message, i + 1 == renderer->count));
        } else if (has_role(message, "tool")) {
            TRY(add_tool_result(renderer, message));
        } else if (message->call_count > 0) {
            TRY(add_tool_calls(renderer, message));
        } else {
            TRY(add_answer(renderer, message));
        }
    }
    return OK;
}
