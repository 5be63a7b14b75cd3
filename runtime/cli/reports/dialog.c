#include "runtime/cli/reports/dialog.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The remedy in the fault of a conversation that is too long. */
static const char TOO_LONG[] = "begin another conversation with an empty line";

static void begin_conversation(struct dialog *dialog) {
    dialog->turn_count = 0;
    dialog->content_count = 0;
    if (dialog->system != NULL) {
        dialog->turns[dialog->turn_count++] =
            (struct chat_turn){.role = "system", .content = dialog->system};
    }
}

const char *dialog_first_choice(const struct dialog_choices *choices) {
    return choices->system != NULL          ? "--system"
           : choices->template_name != NULL ? "--template"
           : choices->date != NULL          ? "--date"
           : choices->thinking != NULL      ? "--thinking"
           : choices->parses_special        ? "--parse-special"
                                            : NULL;
}

static enum status read_thinking(const char *value, bool *is_thinking, struct fault *fault) {
    *is_thinking = value == NULL || strcmp(value, "on") == 0;
    return *is_thinking || strcmp(value, "off") == 0
               ? OK
               : fault_set(fault, STATUS_USAGE, "--thinking", "write on or off",
                           "\"%.40s\" is neither of both", value);
}

/* Rejects a text that is not UTF-8 or, unless the user accepts control tokens, contains one. */
static enum status check_text(const struct dialog *dialog, const char *content, const char *place,
                              struct fault *fault) {
    const struct tokenizer *guard = dialog->chat.guard;
    const size_t count = strlen(content);
    size_t at;
    if (tokenizer_check_text(content, count, fault) != OK) {
        snprintf(fault->subject, sizeof fault->subject, "%s", place);
        return fault->status;
    }
    const int32_t id =
        guard == NULL ? TOKENIZER_NO_ID : tokenizer_find_special(guard, content, count, &at);
    if (id == TOKENIZER_NO_ID) {
        return OK;
    }
    const struct token_text token = tokenizer_token_text(guard, id);
    return fault_set(
        fault, STATUS_INPUT, place, "remove the token from the text, or add --parse-special",
        "contains the control token %.*s", (int)(token.count < 64 ? token.count : 64), token.bytes);
}

enum status dialog_init(struct dialog *dialog, const struct dialog_choices *choices,
                        const char *folder, const struct tokenizer *tokenizer,
                        struct region *region, struct fault *fault) {
    struct chat_options *chat = &dialog->chat;
    const size_t system_bytes = choices->system != NULL ? strlen(choices->system) : 0;
    const size_t text_bytes = DIALOG_BYTES_MAX + system_bytes;
    *dialog = (struct dialog){
        .tokenizer = tokenizer, .system = choices->system, .text = {.region = region}};
    TRY(chat_options_find(folder, choices->template_name, tokenizer, region, chat, fault));
    TRY(read_thinking(choices->thinking, &chat->is_thinking, fault));
    chat->date = choices->date != NULL ? choices->date : chat->date;
    chat->guard = choices->parses_special ? NULL : chat->guard;
    chat->starts_answer = true;
    if (choices->system != NULL) {
        TRY(check_text(dialog, choices->system, "--system", fault));
    }
    dialog->turns = region_alloc(region, DIALOG_TURNS_MAX, sizeof *dialog->turns);
    dialog->contents = region_alloc(region, DIALOG_BYTES_MAX, 1);
    dialog->lines = region_alloc(region, DIALOG_LINE_BYTES, 1);
    dialog->encoder = tokenizer_encoder_make(tokenizer, region);
    chat_text_reserve(&dialog->text, chat, DIALOG_TURNS_MAX, text_bytes);
    tokenizer_encoder_reserve(dialog->encoder,
                              chat_text_bytes_max(chat, DIALOG_TURNS_MAX, text_bytes));
    begin_conversation(dialog);
    return OK;
}

/* Sets the subject of a fault to the line of the last question. */
static enum status set_question_subject(const struct dialog *dialog, enum status status,
                                        struct fault *fault) {
    if (status == STATUS_INPUT && dialog->line == 0) {
        snprintf(fault->subject, sizeof fault->subject, "--prompt");
    } else if (status == STATUS_INPUT) {
        snprintf(fault->subject, sizeof fault->subject, "standard input:%llu",
                 (unsigned long long)dialog->line);
    }
    return status;
}

static enum status add_turn(struct dialog *dialog, const char *role, const char *content,
                            size_t count, struct fault *fault) {
    char *copy = dialog->contents + dialog->content_count;
    if (dialog->turn_count == DIALOG_TURNS_MAX ||
        count >= DIALOG_BYTES_MAX - dialog->content_count) {
        return set_question_subject(
            dialog,
            fault_set(fault, STATUS_INPUT, "", TOO_LONG,
                      "the conversation has more than %d messages or %d KiB of text",
                      DIALOG_TURNS_MAX, DIALOG_BYTES_MAX >> 10),
            fault);
    }
    memcpy(copy, content, count);
    copy[count] = '\0';
    dialog->content_count += count + 1;
    dialog->turns[dialog->turn_count++] = (struct chat_turn){.role = role, .content = copy};
    return OK;
}

enum status dialog_ask(struct dialog *dialog, const char *question, struct fault *fault) {
    TRY(set_question_subject(dialog, check_text(dialog, question, "", fault), fault));
    return add_turn(dialog, "user", question, strlen(question), fault);
}

void dialog_withdraw(struct dialog *dialog) {
    const int last = dialog->turn_count - 1;
    if (last >= 0 && strcmp(dialog->turns[last].role, "user") == 0) {
        dialog->content_count -= strlen(dialog->turns[last].content) + 1;
        dialog->turn_count = last;
    }
}

enum status dialog_answer(struct dialog *dialog, const char *answer, size_t count,
                          struct fault *fault) {
    return add_turn(dialog, "assistant", answer, count, fault);
}

static enum status encode_prompt(struct dialog *dialog, int64_t context, struct token_list *list,
                                 struct fault *fault) {
    static const struct tokenizer_options OPTIONS = {.adds_special_tokens = false};
    struct chat_options chat = dialog->chat;
    chat.guard = NULL; /* no guard is needed: check_text has checked the questions */
    TRY(chat_render_turns(&chat, dialog->turns, dialog->turn_count, &dialog->text, fault));
    TRY(tokenizer_encode(dialog->encoder, dialog->text.bytes, (size_t)dialog->text.length, &OPTIONS,
                         list, fault));
    const bool is_first = dialog->turn_count <= 1 + (dialog->system != NULL);
    return (int64_t)list->count < context
               ? OK
               : fault_set(fault, STATUS_INPUT, "",
                           is_first ? "raise generate.context, or shorten the question"
                                    : "raise generate.context, or begin another conversation with "
                                      "an empty line",
                           "the conversation has %zu tokens; the context has room for %lld",
                           list->count, (long long)context - 1);
}

enum status dialog_prompt(struct dialog *dialog, int64_t context, struct token_list *list,
                          struct fault *fault) {
    return set_question_subject(dialog, encode_prompt(dialog, context, list, fault), fault);
}

/* ---- standard input ---- */

/* Reads more bytes of standard input into `lines`, after the unread bytes. */
static enum status fill_lines(struct dialog *dialog, struct fault *fault) {
    const size_t unread = dialog->line_end - dialog->line_begin;
    memmove(dialog->lines, dialog->lines + dialog->line_begin, unread);
    dialog->line_begin = 0;
    dialog->line_end = unread;
    if (unread == DIALOG_LINE_BYTES) {
        dialog->line++;
        dialog->is_in_long_line = true;
        return set_question_subject(dialog,
                                    fault_set(fault, STATUS_INPUT, "", "divide the question",
                                              "the line has more than %d KiB",
                                              DIALOG_LINE_BYTES >> 10),
                                    fault);
    }
    ssize_t count = -1;
    do { /* read is repeated only after a signal */
        count = read(STDIN_FILENO, dialog->lines + unread, DIALOG_LINE_BYTES - unread);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        return fault_set(fault, STATUS_FAILED, "standard input",
                         errno == EISDIR ? "pass a file or a pipe with a question in each line"
                                         : NULL,
                         "cannot read: %s", strerror(errno));
    }
    dialog->is_at_end = count == 0;
    dialog->line_end += (size_t)count;
    return OK;
}

/* Skips the rest of a line that is too long. */
static enum status skip_long_line(struct dialog *dialog, struct fault *fault) {
    while (dialog->is_in_long_line) { /* each iteration skips unread bytes, and reads more */
        char *begin = dialog->lines + dialog->line_begin;
        const char *end = memchr(begin, '\n', dialog->line_end - dialog->line_begin);
        dialog->is_in_long_line = end == NULL && !dialog->is_at_end;
        dialog->line_begin = end != NULL ? (size_t)(end + 1 - dialog->lines) : dialog->line_end;
        if (dialog->is_in_long_line) {
            TRY(fill_lines(dialog, fault));
        }
    }
    return OK;
}

/* Sets *line to the next line, which ends with a NUL; NULL: the input has ended. */
static enum status next_line(struct dialog *dialog, char **line, size_t *count,
                             struct fault *fault) {
    char *end = NULL;
    *line = NULL;
    TRY(skip_long_line(dialog, fault));
    while (end == NULL) {
        char *begin = dialog->lines + dialog->line_begin;
        const size_t unread = dialog->line_end - dialog->line_begin;
        end = memchr(begin, '\n', unread);
        if (end == NULL && dialog->is_at_end && unread == 0) {
            return OK;
        }
        if (end == NULL && dialog->is_at_end && dialog->line_end < DIALOG_LINE_BYTES) {
            end = begin + unread; /* the last line of the input may have no line end */
            dialog->line_end++;
        } else if (end == NULL) {
            TRY(fill_lines(dialog, fault));
        }
    }
    *line = dialog->lines + dialog->line_begin;
    *count = (size_t)(end - *line);
    dialog->line_begin += *count + 1;
    dialog->line++;
    *count -= *count > 0 && end[-1] == '\r';
    (*line)[*count] = '\0';
    return OK;
}

enum status dialog_read(struct dialog *dialog, bool *found, struct fault *fault) {
    char *line = NULL;
    size_t count = 0;
    TRY(next_line(dialog, &line, &count, fault));
    while (line != NULL && count == 0) {
        begin_conversation(dialog);
        TRY(next_line(dialog, &line, &count, fault));
    }
    *found = line != NULL;
    if (line != NULL && strlen(line) < count) {
        return set_question_subject(
            dialog, fault_set(fault, STATUS_INPUT, "", "write text", "contains a NUL"), fault);
    }
    return line == NULL ? OK : dialog_ask(dialog, line, fault);
}
