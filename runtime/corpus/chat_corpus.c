#include "runtime/corpus/chat_corpus.h"

#include "base/bytes.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/chat/chat_encode.h"
#include "runtime/corpus/corpus_folder.h"
#include "runtime/corpus/input_list.h"
#include "runtime/corpus/input_window.h"
#include "runtime/corpus/row_packer.h"
#include "runtime/corpus/shard_writer.h"
#include "runtime/corpus/validation_split.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>

enum { TRAIN, VALIDATION, PARTS }; /* indices of the parts of a corpus, and their number */

/* The state of a call of chat_corpus_write. */
struct chat_corpus_run {
    const struct chat_corpus_options *options;
    const struct input_list *inputs;
    struct corpus_folder *folder;
    struct region *region;
    struct input_window window;
    const char *path;     /* path of the current input */
    uint64_t line;        /* number of its current line, from 1 */
    uint64_t number;      /* number of the current conversation, from 0, over all inputs */
    uint64_t shown_bytes; /* bytes of the inputs that the progress line has counted */
    struct tokenizer_encoder *encoder;
    struct chat_text text; /* the current conversation, rendered */
    struct chat_ids ids;   /* its token ids */
    struct row_packer packers[PARTS];
    struct shard_writer writers[PARTS];
    int32_t *row;    /* [row_tokens]: the row that is being written */
    int32_t padding; /* token id after the last conversation of a row */
    struct chat_corpus_report report;
};

/* ---- rows ---- */

/* Packs and writes what a packer has collected. */
static enum status write_rows(struct chat_corpus_run *run, int part, struct fault *fault) {
    struct row_packer *packer = &run->packers[part];
    struct chat_part_report *report = &run->report.parts[part];
    row_packer_pack(packer);
    for (int i = 0; i < packer->row_count; i++) {
        const int64_t filled = row_packer_fill(packer, i, run->padding, run->row);
        uint64_t conversations = 0;
        for (int64_t t = 0; t < filled; t++) {
            conversations += (run->row[t] & PACKED_START) != 0;
            report->trained += (run->row[t] & PACKED_TRAINED) != 0;
        }
        report->tokens += (uint64_t)filled;
        report->conversations += conversations;
        TRY(shard_writer_add_row(&run->writers[part], run->row, conversations, fault));
    }
    report->rows += (uint64_t)packer->row_count;
    row_packer_clear(packer);
    return OK;
}

/* The number of tokens of a conversation that are kept; 0: it is left out. Counts it in the report
 * if it is too long or has no trained token. The first token of a row is not predicted, so it does
 * not count as trained. */
static int32_t length_to_keep(struct chat_corpus_run *run) {
    const struct chat_ids *ids = &run->ids;
    const int64_t row_tokens = run->options->row_tokens;
    const bool is_long = ids->count > row_tokens;
    const int32_t length = (int32_t)min_i64(ids->count, row_tokens);
    bool has_trained = false;
    run->report.long_count += is_long;
    for (int32_t i = 1; i < length && !has_trained; i++) {
        has_trained = ids->is_trained[i];
    }
    if (is_long && !run->options->cuts_long) {
        return 0;
    }
    run->report.untrained_count += !has_trained;
    return has_trained ? length : 0;
}

static enum status add_conversation(struct chat_corpus_run *run, struct fault *fault) {
    const int part =
        validation_split_has(run->number, run->options->validation_ppm) ? VALIDATION : TRAIN;
    const int32_t length = length_to_keep(run);
    run->number++;
    if (length == 0) {
        return OK;
    }
    if (!row_packer_has_room(&run->packers[part], length)) {
        TRY(write_rows(run, part, fault));
    }
    row_packer_add(&run->packers[part], run->ids.ids, run->ids.is_trained, length, run->region);
    return OK;
}

/* ---- lines ---- */

/* Sets the file and line as the subject of a fault of the tokenizer, which does not know them. */
static enum status set_line_of_fault(enum status status, const char *name, struct fault *fault) {
    if (status == STATUS_INPUT && strncmp(fault->subject, name, strlen(name)) != 0) {
        snprintf(fault->subject, sizeof fault->subject, "%s", name);
    }
    return status;
}

/* Removes the line number of json_parse, which is always 1, because it parses one line of the file:
 * the subject FILE:LINE:1:COLUMN becomes FILE:LINE:COLUMN. */
static enum status correct_line_of_fault(enum status status, const char *name,
                                         struct fault *fault) {
    const size_t length = strlen(name);
    if (status == STATUS_INPUT && strncmp(fault->subject, name, length) == 0 &&
        fault->subject[length] == ':') {
        char column[16];
        snprintf(column, sizeof column, "%s", strrchr(fault->subject, ':'));
        snprintf(fault->subject + length, sizeof fault->subject - length, "%s", column);
    }
    return status;
}

static enum status add_line(struct chat_corpus_run *run, const char *line, size_t length,
                            struct fault *fault) {
    struct json_document document;
    char name[sizeof fault->subject];
    run->line++;
    if (strspn(line, " \t\r\n") >= length) {
        return OK;
    }
    snprintf(name, sizeof name, "%s:%llu", run->path, (unsigned long long)run->line);
    TRY(correct_line_of_fault(json_parse(line, length, WINDOW_TEXT_MAX, name, &document, fault),
                              name, fault));
    enum status status = chat_render(run->options->chat, &document.root, &run->text, fault);
    json_finish(&document);
    if (status == OK) {
        status = set_line_of_fault(
            chat_encode(run->options->tokenizer, run->encoder, &run->text, &run->ids, fault), name,
            fault);
    }
    return status == OK ? add_conversation(run, fault) : status;
}

/* Adds the whole lines of the window, and at the end of the input the rest. */
static enum status add_lines(struct chat_corpus_run *run, size_t *searched, struct fault *fault) {
    struct input_window *window = &run->window;
    bool has_line = true;
    while (has_line) {
        char *text = window->text + window->begin;
        const size_t length = window->end - window->begin;
        char *end = memchr(text + *searched, '\n', length - *searched);
        has_line = end != NULL || (window->is_at_end && length > 0);
        *searched = length;
        if (has_line) {
            const size_t bytes = end == NULL ? length : (size_t)(end - text);
            text[bytes] = '\0';
            window->begin += bytes + (end != NULL);
            *searched = 0;
            TRY(add_line(run, text, bytes, fault));
        }
    }
    return OK;
}

static enum status add_file(struct chat_corpus_run *run, const struct input *input,
                            struct fault *fault) {
    struct input_window *window = &run->window;
    size_t searched = 0;
    run->path = strcmp(input->path, "-") == 0 ? "standard input" : input->path;
    run->line = 0;
    TRY(input_window_open(window, input->path, fault));
    while (!window->is_at_end) {
        TRY(input_window_fill(window, fault));
        TRY(add_lines(run, &searched, fault));
        activity_advance(input_window_file_bytes(window) - run->shown_bytes);
        run->shown_bytes = input_window_file_bytes(window);
        if (stop_requested()) {
            return fault_set(fault, STATUS_STOPPED, run->options->folder,
                             "run the same command to start again", "stopped by request");
        }
    }
    input_window_close(window);
    return OK;
}

/* ---- the run ---- */

static enum status prepare_run(struct chat_corpus_run *run, struct fault *fault) {
    const struct chat_corpus_options *options = run->options;
    const struct tokenizer_info *info = tokenizer_info(options->tokenizer);
    const int64_t rows = max_i64(options->shard_tokens / options->row_tokens, 1);
    const struct shard_header header = {.width = info->id_count <= UINT16_MAX + 1 ? 2 : 4,
                                        .has_origin = true,
                                        .tokenizer_hash = info->hash,
                                        .tokenizer_version = TOKENIZER_ALGORITHM,
                                        .document_token = SHARD_NO_DOCUMENT_TOKEN,
                                        .has_mask = true,
                                        .row_tokens = options->row_tokens};
    for (int part = 0; part < PARTS; part++) {
        shard_writer_init(&run->writers[part], run->folder->unfinished_path,
                          part == TRAIN ? "train" : "validation", &header,
                          rows * options->row_tokens);
        shard_writer_init_mask(&run->writers[part], run->region);
        row_packer_init(&run->packers[part], options->row_tokens, run->region);
    }
    run->row = region_alloc(run->region, (size_t)options->row_tokens, sizeof *run->row);
    run->padding = info->pad_id >= 0        ? info->pad_id
                   : info->document_id >= 0 ? info->document_id
                                            : 0;
    run->encoder = tokenizer_encoder_make(options->tokenizer, run->region);
    run->text.region = run->ids.region = run->region;
    corpus_folder_clear(run->folder);
    return input_window_init(&run->window, options->is_strict, fault);
}

static enum status check_inputs(const struct input_list *inputs, struct fault *fault) {
    for (int i = 0; i < inputs->count; i++) {
        if (inputs->inputs[i].kind != INPUT_JSON_LINES) {
            return fault_set(fault, STATUS_INPUT, inputs->inputs[i].path,
                             "pass files whose names end in .jsonl or .ndjson",
                             "is text; --chat reads conversations in JSON lines");
        }
    }
    return OK;
}

static enum status complete_files(struct chat_corpus_run *run, struct fault *fault) {
    struct chat_corpus_report *report = &run->report;
    for (int part = 0; part < PARTS; part++) {
        TRY(write_rows(run, part, fault));
        TRY(shard_writer_end(&run->writers[part], fault));
        report->parts[part].shards = run->writers[part].position.shard;
    }
    report->replacements = run->window.replaced.count;
    if (report->parts[TRAIN].rows == 0) {
        return fault_set(fault, STATUS_INPUT, run->inputs->inputs[0].path,
                         "pass files with conversations, or raise --sequence",
                         "no conversation to train on; %llu are longer than a row, %llu have no "
                         "answer",
                         (unsigned long long)report->long_count,
                         (unsigned long long)report->untrained_count);
    }
    if (run->options->validation_ppm > 0 && report->parts[VALIDATION].rows == 0) {
        return fault_set(fault, STATUS_INPUT, "--validation", "raise the share",
                         "%llu conversations are too few for this share",
                         (unsigned long long)run->number);
    }
    return corpus_folder_publish(run->folder, fault);
}

static enum status run_all(struct chat_corpus_run *run, struct fault *fault) {
    TRY(prepare_run(run, fault));
    activity_begin("tokenising", run->inputs->bytes_total);
    enum status status = OK;
    for (int i = 0; i < run->inputs->count && status == OK; i++) {
        status = add_file(run, &run->inputs->inputs[i], fault);
    }
    activity_end(status != OK);
    return status == OK ? complete_files(run, fault) : status;
}

static enum status run_in_folder(const struct chat_corpus_options *options,
                                 const struct input_list *inputs, struct corpus_folder *folder,
                                 struct chat_corpus_report *report, struct fault *fault) {
    struct region scratch = {0};
    struct chat_corpus_run *run = region_alloc(&scratch, 1, sizeof *run);
    run->options = options;
    run->inputs = inputs;
    run->folder = folder;
    run->region = &scratch;
    run->writers[TRAIN].fd = run->writers[VALIDATION].fd = -1;
    const enum status status = run_all(run, fault);
    if (status == OK) {
        *report = run->report;
    }
    for (int part = 0; part < PARTS; part++) {
        shard_writer_close(&run->writers[part]);
    }
    input_window_finish(&run->window);
    region_finish(&scratch);
    return status;
}

enum status chat_corpus_write(const struct chat_corpus_options *options, struct region *region,
                              struct chat_corpus_report *report, struct fault *fault) {
    struct region scratch = {0};
    struct corpus_folder *folder = region_alloc(&scratch, 1, sizeof *folder);
    struct input_list inputs;
    TRY(input_list_expand(options->paths, options->path_count, INPUT_JSON_LINES, region, &inputs,
                          fault));
    TRY(check_inputs(&inputs, fault));
    enum status status = corpus_folder_open(options->folder, folder, fault);
    if (status == OK) {
        status = run_in_folder(options, &inputs, folder, report, fault);
    }
    corpus_folder_close(folder);
    region_finish(&scratch);
    return status;
}
