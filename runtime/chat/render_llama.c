/* render_llama: renders conversations for Llama 3, and with a date and tools for Llama 3.1 to
 * 3.3. */
#include "runtime/chat/chat_template.h"

#include <string.h>

enum { TOOL_INDENT = 4 }; /* number of spaces for each level of a tool's JSON */

static void add_header(struct renderer *renderer, const char *role) {
    add_fixed(renderer, "<|start_header_id|>");
    add_fixed(renderer, role);
    add_fixed(renderer, "<|end_header_id|>\n\n");
}

static enum status add_plain(struct renderer *renderer, const struct chat_message *message) {
    const bool is_answer = has_role(message, "assistant");
    add_header(renderer, message->role);
    if (is_answer) {
        begin_answer(renderer);
    }
    TRY(add_trimmed(renderer, message));
    add_fixed(renderer, "<|eot_id|>");
    if (is_answer) {
        end_answer(renderer);
    }
    return OK;
}

static void start_answer(struct renderer *renderer) {
    if (renderer->options->starts_answer) {
        begin_message(renderer);
        add_header(renderer, "assistant");
    }
}

enum status render_llama3(struct renderer *renderer) {
    for (int i = 0; i < renderer->count; i++) {
        begin_message(renderer);
        add_fixed(renderer, i == 0 ? renderer->options->bos : "");
        TRY(add_plain(renderer, &renderer->messages[i]));
    }
    start_answer(renderer);
    return OK;
}

/* ---- Llama 3.1 to 3.3 ---- */

/* Adds the system message, which every conversation has. */
static enum status add_system(struct renderer *renderer) {
    begin_message(renderer);
    add_fixed(renderer, renderer->options->bos);
    add_header(renderer, "system");
    if (renderer->tool_count > 0) {
        add_fixed(renderer, "Environment: ipython\n");
    }
    add_fixed(renderer, "Cutting Knowledge Date: December 2023\nToday Date: ");
    add_fixed(renderer, renderer->options->date);
    add_fixed(renderer, "\n\n");
    if (has_role(&renderer->messages[0], "system")) {
        TRY(add_trimmed(renderer, &renderer->messages[0]));
    }
    add_fixed(renderer, "<|eot_id|>");
    return OK;
}

/* Adds the first message after the system message, with the tools before that message's content. */
static enum status add_tools(struct renderer *renderer, int index) {
    if (index == renderer->count) {
        return json_fault(&renderer->list, renderer->fault, "add a message of the role user",
                          "has no message that the tools can be put into");
    }
    begin_message(renderer);
    add_header(renderer, "user");
    add_fixed(renderer, "Given the following functions, please respond with a JSON for a function "
                        "call with its proper arguments that best answers the given prompt.\n\n"
                        "Respond in the format {\"name\": function name, \"parameters\": "
                        "dictionary of argument name and its value}.Do not use variables.\n\n");
    for (int i = 0; i < renderer->tool_count; i++) {
        const struct json_node tool = json_element(&renderer->tools, (size_t)i);
        TRY(add_json(renderer, &tool, TOOL_INDENT));
        add_fixed(renderer, "\n\n");
    }
    TRY(add_trimmed(renderer, &renderer->messages[index]));
    add_fixed(renderer, "<|eot_id|>");
    return OK;
}

static enum status add_tool_call(struct renderer *renderer, const struct chat_message *message) {
    struct tool_call call;
    if (message->call_count != 1) {
        return json_fault(
            &message->calls, renderer->fault,
            "give each call a message, or choose another template with --template (in a run, "
            "data.chat)",
            "has %d calls; this template allows one", message->call_count);
    }
    TRY(find_tool_call(renderer, message, 0, &call));
    add_header(renderer, "assistant");
    begin_answer(renderer);
    add_fixed(renderer, "{\"name\": \"");
    TRY(add_data(renderer, &call.function, call.name, strlen(call.name)));
    add_fixed(renderer, "\", \"parameters\": ");
    TRY(add_json(renderer, &call.arguments, 0));
    add_fixed(renderer, "}<|eot_id|>");
    end_answer(renderer);
    return OK;
}

/* Adds the result of a tool, which the template writes as a string in JSON. */
static enum status add_tool_result(struct renderer *renderer, const struct chat_message *message) {
    struct json_node content;
    TRY(json_require(&message->node, "content", &content, renderer->fault));
    add_header(renderer, "ipython");
    TRY(add_json(renderer, &content, 0));
    add_fixed(renderer, "<|eot_id|>");
    return OK;
}

enum status render_llama31(struct renderer *renderer) {
    int next = has_role(&renderer->messages[0], "system");
    TRY(add_system(renderer));
    if (renderer->tool_count > 0) {
        TRY(add_tools(renderer, next++));
    }
    for (int i = next; i < renderer->count; i++) {
        const struct chat_message *message = &renderer->messages[i];
        begin_message(renderer);
        if (message->call_count > 0) {
            TRY(add_tool_call(renderer, message));
        } else if (has_role(message, "tool")) {
            TRY(add_tool_result(renderer, message));
        } else {
            TRY(add_plain(renderer, message));
        }
    }
    start_answer(renderer);
    return OK;
}
