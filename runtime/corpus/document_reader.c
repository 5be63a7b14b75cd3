/* document_reader: finds the documents of text files and JSON lines, and divides them into
 * batches. */
#include "runtime/corpus/document_reader.h"

#include "base/bytes.h"
#include "base/text.h"
#include "runtime/corpus/json_field.h"
#include "runtime/corpus/validation_split.h"
#include "targets/os/mapping.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum status batch_init(struct batch *batch, struct region *region, struct fault *fault) {
    void *memory;
    const int error = mapping_map(-1, PIECE_BYTES_MAX, PROT_READ | PROT_WRITE, &memory);
    if (error != 0) {
        return fault_set_errno(fault, STATUS_FIT, "host memory", "cannot map", error);
    }
    *batch = (struct batch){
        .text = memory, .pieces = region_alloc(region, BATCH_PIECES_MAX, sizeof *batch->pieces)};
    return OK;
}

void batch_finish(struct batch *batch) {
    if (batch->text != NULL) {
        munmap(batch->text, PIECE_BYTES_MAX);
        batch->text = NULL;
    }
}

enum status document_reader_init(const struct reader_options *options,
                                 struct document_reader *reader, struct fault *fault) {
    *reader = (struct document_reader){.options = *options};
    return input_window_init(&reader->window, options->is_strict, fault);
}

void document_reader_finish(struct document_reader *reader) {
    input_window_finish(&reader->window);
}

/* ---- finding documents ---- */

static const struct input *current_input(const struct document_reader *reader) {
    return &reader->options.inputs->inputs[reader->next_input - 1];
}

static size_t unread_bytes(const struct document_reader *reader) {
    return reader->window.end - reader->window.begin;
}

static char *unread_text(const struct document_reader *reader) {
    return reader->window.text + reader->window.begin;
}

static void begin_document(struct document_reader *reader) {
    reader->is_in_document = true;
    reader->has_started = false;
    reader->is_validation = validation_split_has(reader->unit, reader->options.validation_ppm);
    reader->knows_end = false;
    reader->document_bytes = 0;
    reader->bytes_after_document = 0;
}

/* Divides the unread text into sections, up to a section whose successor has another use (training
 * or validation). The document ends there. */
static void find_document_end(struct document_reader *reader) {
    const char *text = unread_text(reader);
    const size_t length = unread_bytes(reader);
    while (!reader->knows_end && reader->document_bytes < length) {
        /* earliest offset in the unread text at which the section can end */
        const size_t missing = reader->section_bytes >= SECTION_BYTES - 1
                                   ? 0
                                   : SECTION_BYTES - 1 - reader->section_bytes;
        const size_t from = min_u64(reader->document_bytes + missing, length);
        const char *line_end = memchr(text + from, '\n', length - from);
        const size_t end = line_end == NULL ? length : (size_t)(line_end + 1 - text);
        reader->section_bytes += end - reader->document_bytes;
        reader->document_bytes = end;
        if (line_end == NULL) {
            return;
        }
        reader->section_bytes = 0;
        reader->unit++;
        reader->knows_end = validation_split_has(reader->unit, reader->options.validation_ppm) !=
                            reader->is_validation;
    }
}

/* Reads more of a text file, and updates document_bytes and knows_end for the new text. */
static enum status extend_text(struct document_reader *reader, struct fault *fault) {
    TRY(input_window_fill(&reader->window, fault));
    if (reader->options.has_sections) {
        find_document_end(reader);
    } else {
        reader->document_bytes = unread_bytes(reader);
    }
    if (reader->window.is_at_end && reader->document_bytes == unread_bytes(reader)) {
        reader->knows_end = true;
    }
    return OK;
}

static enum status set_line_fault(const struct document_reader *reader,
                                  enum json_field_status status, const struct json_field *field,
                                  struct fault *fault) {
    static const char REMEDY[] = "pass the name of the text field with --field of `skep data`";
    char place[sizeof fault->subject];
    const char *name = reader->options.field;
    snprintf(place, sizeof place, "%.270s:%llu:%zu", reader->window.stream.path,
             (unsigned long long)reader->line, field->column + 1);
    if (status == JSON_FIELD_INVALID) {
        return fault_set(fault, STATUS_INPUT, place, "each line must be one JSON object",
                         "not valid JSON: %s", field->reason);
    }
    return status == JSON_FIELD_MISSING ? fault_set(fault, STATUS_INPUT, place, REMEDY,
                                                    "the object has no field \"%.100s\"", name)
                                        : fault_set(fault, STATUS_INPUT, place, REMEDY,
                                                    "the field \"%.100s\" is not a string", name);
}

/* Returns the fault of a line whose text is not found. A line of a conversation gets a remedy of
 * its own. */
static enum status no_text_fault(const struct document_reader *reader, char *line, size_t length,
                                 enum json_field_status status, const struct json_field *field,
                                 struct fault *fault) {
    struct json_field ignored;
    (void)set_line_fault(reader, status, field, fault);
    if (status == JSON_FIELD_MISSING &&
        json_field_find(line, length, "messages", &ignored) == JSON_FIELD_NOT_TEXT) {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "it has `messages`: add --chat to `skep data`");
    }
    return STATUS_INPUT;
}

static bool is_blank(const char *line, size_t length) {
    return strspn(line, " \t\r") >= length;
}

/* Counts the halves of surrogate pairs in a line, which begins with the unread text. */
static enum status note_surrogates(struct document_reader *reader, const struct json_field *field,
                                   struct fault *fault) {
    const struct input_window *window = &reader->window;
    struct replaced_bytes *replaced = &reader->window.replaced;
    if (reader->options.is_strict) {
        char place[sizeof fault->subject];
        snprintf(place, sizeof place, "%.270s:%llu:%zu", window->stream.path,
                 (unsigned long long)reader->line, field->column + 1);
        return fault_set(fault, STATUS_INPUT, place, "correct the escape, or leave out --strict",
                         "half of a surrogate pair is not a character");
    }
    if (replaced->count == 0) {
        replaced->path = window->stream.path;
        replaced->offset = window->raw_offset - unread_bytes(reader) + field->column;
    }
    replaced->count += field->replacements;
    return OK;
}

/* Makes the text field of a JSON line the current document. The line is the first `length` unread
 * bytes. */
static enum status read_line(struct document_reader *reader, size_t length, bool has_line_end,
                             struct fault *fault) {
    char *line = unread_text(reader);
    struct json_field field;
    line[length] = '\0'; /* replaces the line end, or is written after the window's text */
    reader->line++;
    if (is_blank(line, length)) {
        reader->window.begin += length + has_line_end;
        return OK;
    }
    const enum json_field_status status =
        json_field_find(line, length, reader->options.field, &field);
    if (status != JSON_FIELD_FOUND) {
        return no_text_fault(reader, line, length, status, &field, fault);
    }
    if (field.replacements > 0) {
        TRY(note_surrogates(reader, &field, fault));
    }
    begin_document(reader);
    const size_t before = (size_t)(field.text - line);
    reader->window.begin += before;
    reader->document_bytes = field.length;
    reader->bytes_after_document = length + has_line_end - before - field.length;
    reader->knows_end = true;
    return OK;
}

/* Finds the next document in JSON lines, and sets is_in_document. At the end of the input it finds
 * none. */
static enum status find_line(struct document_reader *reader, struct fault *fault) {
    size_t searched = 0;
    while (!reader->is_in_document) {
        const char *text = unread_text(reader);
        const size_t length = unread_bytes(reader);
        const char *line_end = memchr(text + searched, '\n', length - searched);
        if (line_end != NULL) {
            TRY(read_line(reader, (size_t)(line_end - text), true, fault));
            searched = 0;
        } else if (reader->window.is_at_end) {
            return length > 0 ? read_line(reader, length, false, fault) : OK;
        } else {
            searched = length;
            TRY(input_window_fill_line(&reader->window, reader->line + 1, fault));
        }
    }
    return OK;
}

static enum status open_next_input(struct document_reader *reader, struct fault *fault) {
    const struct input *input = &reader->options.inputs->inputs[reader->next_input];
    TRY(input_window_open(&reader->window, input->path, input->kind == INPUT_JSON_LINES, fault));
    reader->next_input++;
    reader->line = 0;
    reader->section_bytes = 0;
    if (input->kind == INPUT_TEXT) {
        begin_document(reader);
        return extend_text(reader, fault);
    }
    return OK;
}

/* Begins a document at the unread sections, which have another use (training or validation) than
 * the document before. */
static void begin_following_sections(struct document_reader *reader) {
    begin_document(reader);
    find_document_end(reader);
    if (reader->window.is_at_end && reader->document_bytes == unread_bytes(reader)) {
        reader->knows_end = true;
    }
}

/* Finds the next document, in the current input or a later input. *found is false at the end of the
 * corpus. */
static enum status find_document(struct document_reader *reader, bool *found, struct fault *fault) {
    const int input_count = reader->options.inputs->count;
    while (!reader->is_in_document) {
        struct input_window *window = &reader->window;
        if (!window->is_open && reader->next_input == input_count) {
            *found = false;
            return OK;
        }
        if (!window->is_open) {
            TRY(open_next_input(reader, fault));
        } else if (current_input(reader)->kind == INPUT_JSON_LINES) {
            TRY(find_line(reader, fault));
        } else if (unread_bytes(reader) > 0) {
            begin_following_sections(reader);
        } else if (!window->is_at_end) {
            TRY(input_window_fill(window, fault));
        }
        if (!reader->is_in_document && window->is_at_end && unread_bytes(reader) == 0) {
            input_window_close(window);
        }
    }
    *found = true;
    return OK;
}

/* ---- filling batches ---- */

static void end_document(struct document_reader *reader) {
    reader->window.begin += reader->bytes_after_document;
    reader->is_in_document = false;
    const bool is_at_section = current_input(reader)->kind == INPUT_TEXT &&
                               reader->options.has_sections && reader->section_bytes == 0 &&
                               reader->has_started;
    reader->unit += !is_at_section; /* unless find_document_end has counted the section */
}

static void add_piece(struct document_reader *reader, struct batch *batch, size_t length,
                      bool ends_document) {
    memcpy(batch->text + batch->length, unread_text(reader), length);
    batch->pieces[batch->piece_count++] = (struct piece){.begin = batch->length,
                                                         .length = length,
                                                         .starts_document = !reader->has_started,
                                                         .ends_document = ends_document,
                                                         .is_validation = reader->is_validation};
    batch->length += length;
    reader->window.begin += length;
    reader->document_bytes -= length;
    reader->has_started = true;
    if (ends_document) {
        end_document(reader);
    }
}

enum status no_division_fault(const char *place, int64_t offset, struct fault *fault) {
    char position[40] = "";
    if (offset >= 0) {
        snprintf(position, sizeof position, " from byte %lld", (long long)offset);
    }
    return fault_set(fault, STATUS_INPUT, place,
                     "remove this part of the text, or put words with spaces between them into it",
                     "more than %d MiB of text%s that the tokenizer cannot divide",
                     PIECE_BYTES_MAX >> 20, position);
}

/* Returns the fault of the unread text. Of a text file the position is known unless bytes have been
 * replaced, because the replacements have another length. */
static enum status unread_division_fault(const struct document_reader *reader,
                                         struct fault *fault) {
    const struct input_window *window = &reader->window;
    const bool has_offset = reader->line == 0 && window->replaced.count == 0;
    char place[sizeof fault->subject];
    struct text text = text_over(place, sizeof place);
    text_add(&text, "%.280s", window->stream.path);
    if (reader->line > 0) {
        text_add(&text, ":%llu", (unsigned long long)reader->line);
    }
    return no_division_fault(
        place, has_offset ? (int64_t)(window->raw_offset - unread_bytes(reader)) : -1, fault);
}

/* Puts the next part of a document that is longer than a batch into `batch`, which must be
 * empty. */
static enum status add_part(struct document_reader *reader, struct batch *batch,
                            struct fault *fault) {
    size_t limit = BATCH_BYTES;
    size_t cut = 0;
    while (cut == 0 && limit <= PIECE_BYTES_MAX) {
        while (!reader->knows_end && reader->document_bytes <= limit + DIVISION_LOOKAHEAD_BYTES) {
            TRY(extend_text(reader, fault));
        }
        if (reader->knows_end && reader->document_bytes <= limit) {
            add_piece(reader, batch, reader->document_bytes, true);
            return OK;
        }
        cut = reader->options.find_division(reader->options.division_context, unread_text(reader),
                                            reader->document_bytes, limit);
        ASSERT(cut <= limit);
        limit *= 2;
    }
    if (cut == 0) {
        return unread_division_fault(reader, fault);
    }
    add_piece(reader, batch, cut, false);
    return OK;
}

enum status document_reader_next(struct document_reader *reader, struct batch *batch,
                                 struct fault *fault) {
    bool found = true;
    batch->length = 0;
    batch->piece_count = 0;
    while (batch->piece_count < BATCH_PIECES_MAX) {
        TRY(find_document(reader, &found, fault));
        if (!found) {
            return OK;
        }
        while (!reader->knows_end && reader->document_bytes <= BATCH_BYTES) {
            TRY(extend_text(reader, fault));
        }
        const bool fits = reader->knows_end && reader->document_bytes <= BATCH_BYTES;
        if (fits && !reader->has_started && reader->document_bytes == 0) {
            reader->empty_documents++;
            end_document(reader);
        } else if (fits && batch->length + reader->document_bytes <= BATCH_BYTES) {
            add_piece(reader, batch, reader->document_bytes, true);
        } else if (batch->piece_count > 0) {
            return OK;
        } else {
            return add_part(reader, batch, fault);
        }
    }
    return OK;
}
