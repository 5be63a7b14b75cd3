#include "runtime/cli/reports/data_ids.h"

#include "base/text.h"
#include "runtime/cli/reports/token_ids.h"
#include "runtime/corpus/input_window.h"

#include <stdio.h>
#include <string.h>

/* A reader of the lines of a file, with the current line. */
struct lines {
    struct input_window window;
    const char *text; /* the current line, of `length` bytes without its line end */
    size_t length;    /* length of the line in bytes */
    uint64_t number;  /* number of the current line, from 1 */
};

/* Advances to the next line. *found is false at the end of the file. */
static enum status next_line(struct lines *lines, bool *found, struct fault *fault) {
    struct input_window *window = &lines->window;
    const char *line_end = NULL;
    size_t searched = 0;
    while (line_end == NULL) {
        const char *text = window->text + window->begin;
        const size_t length = window->end - window->begin;
        line_end = memchr(text + searched, '\n', length - searched);
        if (line_end == NULL && window->is_at_end) {
            line_end = text + length;
        } else if (line_end == NULL) {
            searched = length;
            TRY(input_window_fill(window, fault));
        }
    }
    lines->text = window->text + window->begin;
    lines->length = (size_t)(line_end - lines->text);
    *found = lines->length > 0 || window->begin < window->end;
    window->begin += lines->length;
    window->begin += window->begin < window->end;
    lines->number++;
    return OK;
}

/* A function that is called for each line, and the data that it uses. */
struct line_task {
    enum status (*run)(struct line_task *task, const struct lines *lines, struct fault *fault);
    struct tokenizer_encoder *encoder;
    const struct tokenizer_options *options;
    const struct tokenizer *tokenizer;
    struct tokenizer_decoder *decoder; /* decoder for texts of at most `ids_max` ids */
    struct region decoder_region;
    size_t ids_max;
    bool skips_special;
};

static enum status run_lines(const char *path, bool skips_mark, struct line_task *task,
                             struct fault *fault) {
    struct region region = {0};
    struct lines *lines = region_alloc(&region, 1, sizeof *lines);
    bool found = true;
    enum status status = input_window_init(&lines->window, false, fault);
    if (status == OK) {
        status = input_window_open(&lines->window, path, skips_mark, fault);
    }
    while (status == OK && found) { /* each iteration reads one line */
        status = next_line(lines, &found, fault);
        if (status == OK && found) {
            status = task->run(task, lines, fault);
        }
    }
    input_window_finish(&lines->window);
    region_finish(&region);
    return status;
}

/* ---- ids ---- */

static enum status print_ids(struct line_task *task, const struct lines *lines,
                             struct fault *fault) {
    struct token_list list;
    TRY(tokenizer_encode(task->encoder, lines->text, lines->length, task->options, &list, fault));
    putchar('[');
    for (size_t i = 0; i < list.count; i++) {
        printf("%s%d", i > 0 ? ", " : "", list.ids[i]);
    }
    puts("]");
    return OK;
}

enum status data_print_ids(const struct tokenizer *tokenizer, const char *path,
                           const struct tokenizer_options *options, struct fault *fault) {
    struct region region = {0};
    struct line_task task = {.run = print_ids,
                             .encoder = tokenizer_encoder_make(tokenizer, &region),
                             .options = options};
    const enum status status = run_lines(path, false, &task, fault);
    region_finish(&region);
    return status;
}

/* ---- text ---- */

static enum status invalid_ids_fault(const struct lines *lines, struct fault *fault) {
    char place[sizeof fault->subject];
    struct text text = text_over(place, sizeof place);
    text_add(&text, "%.280s:%llu", lines->window.stream.path, (unsigned long long)lines->number);
    return fault_set(fault, STATUS_INPUT, place, "write ids as in [464, 318]",
                     "is not a list of token ids");
}

static void write_text(struct token_text text) {
    (void)fwrite(text.bytes, 1, text.count, stdout);
}

/* Makes a decoder for at least `ids` ids, unless the present one is for that many. The caller
 * passes an upper bound of the number of ids in a line. */
static void reserve_decoder(struct line_task *task, size_t ids) {
    if (task->decoder == NULL || ids > task->ids_max) {
        region_finish(&task->decoder_region);
        task->ids_max = ids * 2;
        task->decoder =
            tokenizer_decoder_make(task->tokenizer, task->ids_max, &task->decoder_region);
    }
}

static enum status unknown_id_fault(const struct line_task *task, const struct lines *lines,
                                    const struct token_ids *ids, struct fault *fault) {
    char place[sizeof fault->subject];
    struct text text = text_over(place, sizeof place);
    text_add(&text, "%.280s:%llu", lines->window.stream.path, (unsigned long long)lines->number);
    return fault_set(fault, STATUS_INPUT, place, "name the model that made the ids with --model",
                     "id %.*s is not in the vocabulary, whose largest id is %d",
                     ids->digit_count < 40 ? ids->digit_count : 40, ids->digits,
                     tokenizer_info(task->tokenizer)->id_count - 1);
}

/* Reads the ids of a line, and prints their text if `prints`. */
static enum status read_ids(struct line_task *task, const struct lines *lines, bool prints,
                            struct fault *fault) {
    struct token_ids ids;
    int64_t id;
    token_ids_begin(&ids, lines->text, lines->length);
    enum token_ids_status status = token_ids_next(&ids, &id);
    while (status == TOKEN_IDS_FOUND) { /* each iteration reads one id */
        if (id >= tokenizer_info(task->tokenizer)->id_count) {
            return unknown_id_fault(task, lines, &ids, fault);
        }
        if (prints) {
            write_text(tokenizer_decode_next(task->decoder, (int32_t)id));
        }
        status = token_ids_next(&ids, &id);
    }
    return status == TOKEN_IDS_END ? OK : invalid_ids_fault(lines, fault);
}

/* Prints the text of a line's ids. The ids are first read without printing, so that nothing of a
 * line is printed if one of them is invalid. */
static enum status print_text(struct line_task *task, const struct lines *lines,
                              struct fault *fault) {
    TRY(read_ids(task, lines, false, fault));
    reserve_decoder(task, lines->length + 1);
    tokenizer_decode_begin(task->decoder, task->skips_special);
    TRY(read_ids(task, lines, true, fault));
    write_text(tokenizer_decode_end(task->decoder));
    putchar('\n');
    return OK;
}

enum status data_print_text(const struct tokenizer *tokenizer, const char *path, bool skips_special,
                            struct fault *fault) {
    struct line_task task = {
        .run = print_text, .tokenizer = tokenizer, .skips_special = skips_special};
    const enum status status = run_lines(path, true, &task, fault);
    region_finish(&task.decoder_region);
    return status;
}
