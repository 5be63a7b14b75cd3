#include "runtime/corpus/chat_batch.h"

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "runtime/corpus/chat_corpus.h"
#include "runtime/corpus/document_reader.h"
#include "runtime/corpus/json_field.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>

void chat_batch_init(struct chat_batch *batch) {
    *batch = (struct chat_batch){.line_count = 0};
    batch->lines = region_alloc(&batch->region, CHAT_BATCH_LINES_MAX, sizeof *batch->lines);
}

void chat_batch_finish(struct chat_batch *batch) {
    region_finish(&batch->region);
}

/* ---- reading ---- */

enum status chat_reader_init(const struct input_list *inputs, bool is_strict,
                             struct chat_reader *reader, struct fault *fault) {
    *reader = (struct chat_reader){.inputs = inputs};
    return input_window_init(&reader->window, is_strict, fault);
}

void chat_reader_finish(struct chat_reader *reader) {
    input_window_finish(&reader->window);
}

static enum status open_next_input(struct chat_reader *reader, struct fault *fault) {
    const struct input *input = &reader->inputs->inputs[reader->next_input++];
    reader->path = strcmp(input->path, "-") == 0 ? "standard input" : input->path;
    reader->line = 0;
    reader->searched = 0;
    return input_window_open(&reader->window, input->path, true, fault);
}

/* Returns the first `length` unread bytes as a line, and moves past them and the line end. */
static struct token_text take_line(struct chat_reader *reader, size_t length) {
    struct input_window *window = &reader->window;
    const struct token_text line = {window->text + window->begin, length};
    window->begin += length;
    window->begin += window->begin < window->end;
    reader->searched = 0;
    reader->line++;
    return line;
}

/* Sets *line to the next line of the inputs, which is valid until the next call; {NULL, 0} at the
 * end of the inputs. */
static enum status next_line(struct chat_reader *reader, struct token_text *line,
                             struct fault *fault) {
    struct input_window *window = &reader->window;
    *line = (struct token_text){NULL, 0};
    while (window->is_open || reader->next_input < reader->inputs->count) {
        if (!window->is_open) {
            TRY(open_next_input(reader, fault));
        }
        const char *text = window->text + window->begin;
        const size_t length = window->end - window->begin;
        const char *end = memchr(text + reader->searched, '\n', length - reader->searched);
        if (end != NULL || (window->is_at_end && length > 0)) {
            *line = take_line(reader, end != NULL ? (size_t)(end - text) : length);
            return OK;
        }
        if (window->is_at_end) {
            input_window_close(window);
        } else {
            reader->searched = length;
            TRY(input_window_fill_line(window, reader->line + 1, fault));
        }
    }
    return OK;
}

static bool is_blank(struct token_text line) {
    size_t at = 0;
    while (at < line.count && strchr(" \t\r", line.bytes[at]) != NULL && line.bytes[at] != '\0') {
        at++;
    }
    return at == line.count;
}

static void add_line(struct chat_reader *reader, struct chat_batch *batch, struct token_text line) {
    const size_t begin = (size_t)batch->text_count;
    while ((size_t)batch->text_capacity < begin + line.count + 1) {
        batch->text =
            region_grow(&batch->region, batch->text, batch->text_count, &batch->text_capacity, 1);
    }
    memcpy(batch->text + begin, line.bytes, line.count);
    batch->text[begin + line.count] = '\0';
    batch->text_count += (int)line.count + 1;
    batch->lines[batch->line_count++] = (struct chat_line){
        .begin = begin, .length = line.count, .path = reader->path, .number = reader->line};
    reader->conversations++;
}

enum status chat_reader_next(struct chat_reader *reader, struct chat_batch *batch,
                             struct fault *fault) {
    struct token_text line = {"", 0};
    batch->text_count = batch->line_count = 0;
    batch->first_number = reader->conversations;
    while (line.bytes != NULL && batch->text_count < CHAT_BATCH_BYTES &&
           batch->line_count < CHAT_BATCH_LINES_MAX) {
        TRY(next_line(reader, &line, fault));
        if (!is_blank(line)) {
            add_line(reader, batch, line);
        }
    }
    return OK;
}

/* ---- encoding ---- */

void chat_encoder_init(struct chat_encoder *encoder, const struct tokenizer *tokenizer,
                       const struct chat_options *options) {
    *encoder = (struct chat_encoder){.tokenizer = tokenizer, .options = options};
    encoder->encoder = tokenizer_encoder_make(tokenizer, &encoder->region);
    tokenizer_encoder_watch_stop(encoder->encoder, stop_requested);
    encoder->text.region = encoder->ids.region = &encoder->region;
}

void chat_encoder_finish(struct chat_encoder *encoder) {
    region_finish(&encoder->region);
}

/* Sets the fault's subject to `name`, file and line, unless it has it already. The tokenizer, which
 * sets some of the faults, does not know the line. */
static void name_line(const char *name, struct fault *fault) {
    if (strncmp(fault->subject, name, strlen(name)) != 0) {
        snprintf(fault->subject, sizeof fault->subject, "%s", name);
    }
}

/* Removes the line number that json_parse has added to the fault's subject. It counts lines from
 * the beginning of its text, which is only one line of the file. */
static void name_column(const char *name, struct fault *fault) {
    const size_t length = strlen(name);
    if (strncmp(fault->subject, name, length) == 0 && fault->subject[length] == ':') {
        char column[16];
        snprintf(column, sizeof column, "%s", strrchr(fault->subject, ':'));
        snprintf(fault->subject + length, sizeof fault->subject - length, "%s", column);
    }
}

/* Sets the remedy of a fault that has none: the functions that read JSON know the reason of a
 * fault, but no remedy. */
static void add_remedy(const char *remedy, struct fault *fault) {
    if (fault->remedy[0] == '\0') {
        snprintf(fault->remedy, sizeof fault->remedy, "%s", remedy);
    }
}

/* Checks that the tokenizer can divide a text into parts of at most PIECE_BYTES_MAX, because the
 * time and the memory for one part would else have no limit. */
static enum status check_division(const struct tokenizer *tokenizer, const struct chat_text *text,
                                  const char *name, struct fault *fault) {
    const size_t length = (size_t)text->length;
    size_t begin = 0;
    while (length - begin > PIECE_BYTES_MAX) { /* each iteration moves at least one byte on */
        const size_t part = tokenizer_split_position(tokenizer, text->bytes + begin, length - begin,
                                                     PIECE_BYTES_MAX);
        if (part == 0) {
            return no_division_fault(name, -1, fault);
        }
        begin += part;
    }
    return OK;
}

/* Gives a fault of json_parse about a NUL its own reason: the escape is valid JSON, but a text with
 * a NUL cannot be rendered. */
static void explain_nul(struct fault *fault) {
    if (strstr(fault->reason, "JSON_ALLOW_NUL") != NULL) {
        snprintf(fault->reason, sizeof fault->reason,
                 "has the escape \\u0000; a message cannot contain the character NUL");
        snprintf(fault->remedy, sizeof fault->remedy, "remove the escape");
    }
}

/* Renders and encodes one line. The resulting ids are in `encoder`. */
static enum status encode_line(struct chat_encoder *encoder, const struct chat_line *line,
                               const char *text, struct fault *fault) {
    struct json_document document;
    char name[sizeof fault->subject];
    snprintf(name, sizeof name, "%.280s:%llu", line->path, (unsigned long long)line->number);
    enum status status = json_parse(text, line->length, WINDOW_TEXT_MAX, name, &document, fault);
    if (status != OK) {
        name_column(name, fault);
        explain_nul(fault);
        add_remedy("each line must be one JSON object", fault);
        return status;
    }
    status = chat_render(encoder->options, &document.root, &encoder->text, fault);
    json_finish(&document);
    if (status == OK) {
        status = check_division(encoder->tokenizer, &encoder->text, name, fault);
    }
    if (status == OK) {
        status =
            chat_encode(encoder->tokenizer, encoder->encoder, &encoder->text, &encoder->ids, fault);
    }
    if (status == STATUS_INPUT) {
        name_line(name, fault);
        add_remedy("correct this line or remove it; docs/DATA.md has the form", fault);
    }
    return status;
}

static void add_ids(struct chat_batch *batch, const struct chat_ids *ids) {
    const size_t first = (size_t)batch->id_count;
    while ((size_t)batch->id_capacity < first + (size_t)ids->count) {
        int capacity = batch->id_capacity;
        batch->ids = region_grow(&batch->region, batch->ids, batch->id_count, &batch->id_capacity,
                                 sizeof *batch->ids);
        batch->is_trained = region_grow(&batch->region, batch->is_trained, batch->id_count,
                                        &capacity, sizeof *batch->is_trained);
        ASSERT(capacity == batch->id_capacity);
    }
    if (ids->count > 0) {
        memcpy(batch->ids + first, ids->ids, (size_t)ids->count * sizeof *ids->ids);
        memcpy(batch->is_trained + first, ids->is_trained,
               (size_t)ids->count * sizeof *ids->is_trained);
    }
    batch->id_count += ids->count;
}

void chat_batch_encode(struct chat_batch *batch, struct chat_encoder *encoder, chat_choice *chooses,
                       const void *context) {
    batch->hash = hash_of(batch->text, (size_t)batch->text_count);
    batch->id_count = 0;
    batch->status = OK;
    for (int i = 0; i < batch->line_count && batch->status == OK; i++) {
        struct chat_line *line = &batch->lines[i];
        line->first_id = -1;
        if (chooses(context, batch->first_number + (uint64_t)i)) {
            batch->status = encode_line(encoder, line, batch->text + line->begin, &batch->fault);
            line->first_id = batch->id_count;
            line->id_count = encoder->ids.count;
            add_ids(batch, &encoder->ids);
        }
    }
}

/* ---- detecting ---- */

static bool is_chat_line(struct chat_batch *batch) {
    const struct chat_line *line = &batch->lines[0];
    char *text = batch->text + line->begin;
    struct json_field field;
    return json_field_find(text, line->length, CORPUS_FIELD, &field) != JSON_FIELD_FOUND &&
           json_field_find(text, line->length, "messages", &field) == JSON_FIELD_NOT_TEXT;
}

bool chat_corpus_is_chat(const struct input_list *inputs) {
    struct input_list first = *inputs;
    struct region scratch = {0};
    struct chat_batch batch;
    struct fault ignored;
    if (inputs->count == 0 || inputs->inputs[0].kind != INPUT_JSON_LINES) {
        return false;
    }
    first.count = 1;
    struct chat_reader *reader = region_alloc(&scratch, 1, sizeof *reader);
    chat_batch_init(&batch);
    const bool is_chat = chat_reader_init(&first, false, reader, &ignored) == OK &&
                         chat_reader_next(reader, &batch, &ignored) == OK && batch.line_count > 0 &&
                         is_chat_line(&batch);
    chat_reader_finish(reader);
    chat_batch_finish(&batch);
    region_finish(&scratch);
    return is_chat;
}
