#include "runtime/data/data.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/random.h"
#include "base/text.h"
#include "runtime/corpus/tokenizer_folder.h"
#include "runtime/data/packed_row.h"
#include "runtime/settings/settings.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

enum { BLOCK_BYTES = 1 << 20 }; /* Size of a data block, the unit of shuffling, in bytes. */

static const double STEPS_MAX = 1e9; /* the maximum of the key `steps` */

/* The range [begin, end) of the tokens of a block, as indices in its file. */
struct token_range {
    int64_t begin, end; /* Indices of tokens in the file. */
};

static struct token_range block_tokens(const struct data_file *file, int64_t block) {
    int64_t offset = file->tokens.data_offset;
    int64_t begin = file->block_origin + block * file->block_bytes;
    int width = token_file_width(&file->tokens);
    int64_t end = min_i64(begin + file->block_bytes, offset + file->tokens.token_count * width);
    return (struct token_range){.begin = (max_i64(begin, offset) - offset) / width,
                                .end = (end - offset) / width};
}

/* Whether the file contains rows, which do not share a token with the next row. */
static bool has_rows(const struct data_file *file) {
    return file->tokens.header.row_tokens > 0;
}

static int64_t count_block_windows(const struct data_file *file, int64_t block, int64_t sequence) {
    struct token_range range = block_tokens(file, block);
    int64_t tokens = range.end - range.begin;
    if (has_rows(file)) {
        return tokens / sequence;
    }
    return tokens > sequence ? (tokens - 1) / sequence : 0;
}

/* Sets the blocks and windows of a file. All its blocks have the same number of windows, except the
 * first, which may contain a header, and the last. */
static void assign_window_indices(struct data_file *file, int64_t sequence) {
    int64_t row_bytes = (sequence + 1) * token_file_width(&file->tokens);
    bool row_fits = row_bytes <= BLOCK_BYTES;
    file->block_bytes = row_fits ? BLOCK_BYTES : row_bytes;
    file->block_origin = row_fits ? 0 : file->tokens.data_offset;
    if (has_rows(file)) { /* a block is then a number of whole rows */
        row_bytes = sequence * token_file_width(&file->tokens);
        file->block_bytes = max_i64(BLOCK_BYTES / row_bytes, 1) * row_bytes;
        file->block_origin = file->tokens.data_offset;
    }
    int64_t blocked = file->tokens.data_offset - file->block_origin +
                      file->tokens.token_count * token_file_width(&file->tokens);
    file->block_count = div_ceil(blocked, file->block_bytes);
    int64_t windows = count_block_windows(file, 0, sequence);
    if (file->block_count > 1) {
        windows += (file->block_count - 2) * count_block_windows(file, 1, sequence) +
                   count_block_windows(file, file->block_count - 1, sequence);
    }
    file->window_count = windows;
}

static enum status open_file(struct token_data *data, const char *path,
                             const struct data_options *options, struct fault *fault) {
    struct data_file *file = &data->files[data->file_count];
    TRY(token_file_open(path, options->format, &file->tokens, fault));
    /* counted before the checks below, so that data_close closes the file after an error */
    data->file_count++;
    if (options->rejects_text) {
        TRY(token_file_reject_text(&file->tokens, options->format, fault));
    }
    TRY(packed_row_check(&file->tokens, data->sequence, fault));
    assign_window_indices(file, data->sequence);
    if (file->window_count == 0 && data->short_count++ == 0) {
        data->short_path = path;
    }
    file->first_block = data->block_count;
    file->first_window = data->window_count;
    data->block_count += file->block_count;
    data->window_count += file->window_count;
    int64_t second = min_i64(1, file->block_count - 1);
    int64_t fullest = max_i64(count_block_windows(file, 0, data->sequence),
                              count_block_windows(file, second, data->sequence));
    data->block_windows_max = max_i64(data->block_windows_max, fullest);
    return OK;
}

/* Checks that at least one file has a row. A file that is shorter than a row has none; the last
 * part of a text may be so short. */
static enum status check_rows(const struct token_data *data, const struct data_options *options,
                              struct fault *fault) {
    const char *source = options->paths.source;
    int64_t longest = 0;
    for (int i = 0; i < data->file_count; i++) {
        longest = max_i64(longest, data->files[i].tokens.token_count);
    }
    return data->window_count > 0
               ? OK
               : fault_set(fault, STATUS_INPUT,
                           source != NULL ? source : data->files[0].tokens.path,
                           "use more text, or reduce batch.sequence",
                           "has %s%lld tokens; a row of %lld tokens needs one token more, the "
                           "label of its last token",
                           data->file_count > 1 ? "at most " : "", (long long)longest,
                           (long long)data->sequence);
}

static const struct shard_header *header_of(const struct data_file *file) {
    return &file->tokens.header;
}

/* Returns the first digits of a hash in hexadecimal, as many as a person compares. */
static const char *shown_hash(const struct hash *hash, char hex[static HASH_HEX_BYTES]) {
    enum { SHOWN_DIGITS = 12 }; /* number of hexadecimal digits of a hash in a message */
    (void)hash_hex(hash, hex);
    hex[SHOWN_DIGITS] = '\0';
    return hex;
}

/* Checks that all files whose headers have the hash of a tokenizer have the same hash. If the token
 * between documents is read from the headers, that token must be the same in all of them, too. */
static enum status compare_origins(struct token_data *data, const struct data_options *options,
                                   struct fault *fault) {
    char hex[HASH_HEX_BYTES], other_hex[HASH_HEX_BYTES];
    for (int i = 0; i < data->file_count; i++) {
        const struct data_file *file = &data->files[i];
        if (!header_of(file)->has_origin) {
            continue;
        }
        data->origin = data->origin == NULL ? file : data->origin;
        const struct shard_header *first = header_of(data->origin);
        if (!hash_equal(&first->tokenizer_hash, &header_of(file)->tokenizer_hash)) {
            return fault_set(
                fault, STATUS_INPUT, file->tokens.path, "make all files with one tokenizer",
                "its tokens were made with tokenizer %s, but the tokens of %.200s with tokenizer "
                "%s",
                shown_hash(&header_of(file)->tokenizer_hash, hex), data->origin->tokens.path,
                shown_hash(&first->tokenizer_hash, other_hex));
        }
        if (options->reads_separator && first->document_token != header_of(file)->document_token) {
            return fault_set(
                fault, STATUS_INPUT, file->tokens.path,
                "set data.documents, or make all files in the same way",
                "its documents end with token %lld, but the documents of %.200s with token %lld",
                (long long)header_of(file)->document_token, data->origin->tokens.path,
                (long long)first->document_token);
        }
    }
    if (options->reads_separator && data->origin != NULL) {
        data->separator = header_of(data->origin)->document_token;
    }
    return OK;
}

double data_bytes_per_token(const struct token_data *data) {
    double bytes = 0;
    double tokens = 0;
    for (int i = 0; i < data->file_count; i++) {
        const struct token_file *file = &data->files[i].tokens;
        if (!file->header.has_origin && file->format != TOKENS_BYTES) {
            return 0;
        }
        tokens += (double)file->token_count;
        bytes +=
            file->header.has_origin ? (double)file->header.text_bytes : (double)file->token_count;
    }
    return tokens > 0 ? bytes / tokens : 0;
}

/* Raises the process's limit of open files, because runs may have thousands of token files and the
 * default limit is 1024. If the limit cannot be raised enough, the opening of a file reports the
 * error. */
static void raise_open_file_limit(int count) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return;
    }
    rlim_t needed = limit.rlim_cur + (rlim_t)count;
    limit.rlim_cur = min_u64(needed, limit.rlim_max);
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

enum status data_open(const struct data_options *options, struct region *region,
                      struct token_data *data, struct fault *fault) {
    const struct path_list *paths = &options->paths;
    ASSERT(options->sequence > 0 && options->vocab > 0);
    if (paths->count == 0) {
        return fault_set(fault, STATUS_INPUT, "data", "set data.train to token files",
                         "no token files");
    }
    struct token_data opened = {
        .sequence = options->sequence, .vocab = options->vocab, .separator = options->separator};
    opened.files = region_alloc(region, (size_t)paths->count, sizeof *opened.files);
    raise_open_file_limit(paths->count);
    enum status status = OK;
    for (int i = 0; i < paths->count && status == OK; i++) {
        status = open_file(&opened, region_copy_text(region, paths->paths[i]), options, fault);
    }
    if (status == OK) {
        status = check_rows(&opened, options, fault);
    }
    if (status == OK) {
        status = compare_origins(&opened, options, fault);
    }
    if (status != OK) {
        data_close(&opened);
        return status;
    }
    *data = opened;
    return OK;
}

static bool is_in_list(const struct path_list *patterns, const char *path) {
    for (int i = 0; i < patterns->count; i++) {
        if (strcmp(patterns->paths[i], path) == 0) {
            return true;
        }
    }
    return false;
}

void data_explain_missing_file(const struct settings *settings, const struct path_list *patterns,
                               struct fault *fault) {
    const char *key = patterns == &settings->train_files        ? "data.train"
                      : patterns == &settings->validation_files ? "data.validation"
                                                                : NULL;
    char path[sizeof fault->subject];
    if (key == NULL || !is_in_list(patterns, fault->subject) || file_exists(fault->subject)) {
        return;
    }
    memcpy(path, fault->subject, sizeof path);
    const char *place = settings_location(settings, key);
    const bool is_pattern = strpbrk(path, "*?[") != NULL;
    (void)fault_set(fault, STATUS_INPUT, place, NULL, "%s: %.200s %s", key, path,
                    is_pattern ? "matches no file" : "does not exist");
    if (strcmp(place, "command line") == 0) {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "check the path; paths on the command line are relative to the working directory");
        return;
    }
    snprintf(fault->remedy, sizeof fault->remedy,
             "put it there, or correct the path; paths in a run file are relative to its "
             "folder%s%.100s",
             settings->folder[0] != '\0' ? ", " : "", settings->folder);
}

static double rows_per_step(const struct settings *settings) {
    return (double)(settings->batch_tokens / settings->sequence_tokens);
}

double data_pass_count(const struct settings *settings, const struct token_data *data) {
    return (double)settings->steps * rows_per_step(settings) / (double)data->window_count;
}

enum status data_resolve_epochs(struct settings *settings, const struct token_data *data,
                                struct fault *fault) {
    const double steps =
        ceil(settings->epochs * (double)data->window_count / rows_per_step(settings));
    if (settings->epochs == 0) {
        return OK;
    }
    if (steps > STEPS_MAX) {
        return fault_set(fault, STATUS_INPUT, settings_location(settings, "epochs"),
                         "lower epochs, or raise batch.tokens",
                         "%g passes over %lld rows make %.0f steps; the limit is %.0f",
                         settings->epochs, (long long)data->window_count, steps, STEPS_MAX);
    }
    settings->steps = (int64_t)steps;
    settings->epochs = 0;
    settings->has_epochs = true;
    return OK;
}

/* Sets a fault if the files' headers have another tokenizer's hash than that of the model. */
static enum status check_tokenizer(const struct settings *settings, const struct token_data *data,
                                   struct fault *fault) {
    char hex[HASH_HEX_BYTES], model_hex[HASH_HEX_BYTES];
    struct hash model_hash;
    if (data->origin == NULL || settings->model == NULL ||
        !tokenizer_folder_hash(settings->model, &model_hash)) {
        return OK;
    }
    const struct hash *hash = &header_of(data->origin)->tokenizer_hash;
    if (!hash_equal(hash, &model_hash)) {
        return fault_set(fault, STATUS_INPUT, data->origin->tokens.path,
                         "make the tokens with `skep data --model` and this model",
                         "its tokens were made with tokenizer %s; the model %.200s has %s",
                         shown_hash(hash, hex), settings->model,
                         shown_hash(&model_hash, model_hex));
    }
    return OK;
}

enum status data_open_run(const struct settings *settings, const struct path_list *patterns,
                          int64_t vocab, struct region *region, struct token_data *data,
                          struct fault *fault) {
    struct data_options options = {.format = settings->data_format,
                                   .rejects_text = settings->text_needs_tokenizer,
                                   .sequence = settings->sequence_tokens,
                                   .vocab = vocab,
                                   .separator = DATA_NO_SEPARATOR};
    if (settings->document_end_token >= 0) {
        options.separator = settings->document_end_token;
    }
    options.reads_separator = settings->document_end_token == DOCUMENT_END_OF_FILES;
    enum status status = path_list_expand(patterns, region, &options.paths, fault);
    if (status == OK) {
        status = data_open(&options, region, data, fault);
    }
    if (status == OK) {
        status = check_tokenizer(settings, data, fault);
        if (status != OK) {
            data_close(data);
        }
        return status;
    }
    if (status == STATUS_INPUT) {
        data_explain_missing_file(settings, patterns, fault);
    }
    return status;
}

void data_close(struct token_data *data) {
    for (int i = 0; i < data->file_count; i++) {
        token_file_close(&data->files[i].tokens);
    }
}

enum unit { UNIT_WINDOW, UNIT_BLOCK }; /* what the index that find_file gets counts */

/* Returns the file that contains the window or block with index `index`. Files without windows are
 * skipped. */
static const struct data_file *find_file(const struct token_data *data, enum unit unit,
                                         int64_t index) {
    int low = 0;
    int high = data->file_count;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        const struct data_file *file = &data->files[middle];
        if ((unit == UNIT_BLOCK ? file->first_block : file->first_window) <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &data->files[low];
}

/* Returns the number of windows in the blocks of a file before its block `block`. */
static int64_t count_windows_before(const struct data_file *file, int64_t block, int64_t sequence) {
    return block == 0 ? 0
                      : count_block_windows(file, 0, sequence) +
                            (block - 1) * count_block_windows(file, 1, sequence);
}

/* Returns the index, over all files, of window number `window` of block `block`, or -1 if the block
 * has fewer windows. */
static int64_t find_window_in_block(const struct token_data *data, int64_t block, int64_t window) {
    const struct data_file *file = find_file(data, UNIT_BLOCK, block);
    int64_t local = block - file->first_block;
    if (window >= count_block_windows(file, local, data->sequence)) {
        return -1;
    }
    return file->first_window + count_windows_before(file, local, data->sequence) + window;
}

int64_t data_block_window_count(const struct token_data *data, int64_t block) {
    const struct data_file *file = find_file(data, UNIT_BLOCK, block);
    return count_block_windows(file, block - file->first_block, data->sequence);
}

int64_t data_block_at(const struct token_data *data, uint64_t seed, uint64_t pass,
                      int64_t block_position) {
    uint64_t key = random_key(seed, "blocks") + pass;
    return (int64_t)random_permute(key, (uint64_t)block_position, (uint64_t)data->block_count);
}

int64_t data_window_at(const struct token_data *data, uint64_t seed, uint64_t pass, int64_t block,
                       int64_t position) {
    uint32_t words[4];
    random_block(random_key(seed, "windows") + pass, (uint64_t)block, words);
    uint64_t key = (uint64_t)words[0] << 32 | words[1];
    uint64_t window = random_permute(key, (uint64_t)position, (uint64_t)data->block_windows_max);
    return find_window_in_block(data, block, (int64_t)window);
}

int64_t data_next_window(const struct token_data *data, uint64_t seed, int64_t *cursor) {
    uint64_t blocks = (uint64_t)data->block_count;
    uint64_t width = (uint64_t)data->block_windows_max;
    ASSERT(*cursor >= 0 && (uint64_t)*cursor <= DATA_CURSOR_MAX && data->window_count > 0);
    /* A pass has blocks * width positions; those that a short block cannot fill are empty. So the
     * loop walks over at most two passes to the next window. */
    for (uint64_t walked = 0; walked < 2 * blocks * width; walked++) {
        uint64_t index = (uint64_t)(*cursor)++;
        uint64_t pass = index / (blocks * width);
        uint64_t position = index % (blocks * width);
        int64_t block = data_block_at(data, seed, pass, (int64_t)(position / width));
        int64_t window = data_window_at(data, seed, pass, block, (int64_t)(position % width));
        if (window >= 0) {
            return window;
        }
    }
    ASSERT(false && "two consecutive passes contain at least one window");
    return 0;
}

/* Returns the index, in `file`, of the first token of a window. */
static int64_t first_token_index(const struct data_file *file, int64_t window, int64_t sequence) {
    int64_t local = window - file->first_window;
    if (has_rows(file)) {
        return local * sequence;
    }
    int64_t in_first = count_block_windows(file, 0, sequence);
    if (local < in_first) {
        return local * sequence;
    }
    int64_t each = count_block_windows(file, 1, sequence);
    int64_t block = 1 + (local - in_first) / each;
    return block_tokens(file, block).begin + (local - in_first) % each * sequence;
}

static enum status invalid_token_fault(const struct token_data *data, const struct token_file *file,
                                       int64_t index, int64_t id, struct fault *fault) {
    char subject[sizeof fault->subject];
    struct text text = text_over(subject, sizeof subject);
    text_add(&text, "%.280s: token %lld", file->path, (long long)index);
    return fault_set(fault, STATUS_INPUT, subject, "tokenise with this model's tokenizer",
                     "the token id %lld is outside the model's vocabulary of %lld ids",
                     (long long)id, (long long)data->vocab);
}

/* Fills `row` with ids, labels and positions. Token positions restart at 0 after a separator.
 * DATA_NO_SEPARATOR differs from every token id. */
static void fill_row(const struct token_data *data, const void *raw, int width,
                     const struct token_row *row) {
    int64_t position = 0;
    for (int64_t t = 0; t < data->sequence; t++) {
        int64_t id = token_at(raw, t, width);
        bool is_separator = id == data->separator;
        row->ids[t] = (int32_t)id;
        row->labels[t] = is_separator ? LABEL_IGNORED : (int32_t)token_at(raw, t + 1, width);
        row->positions[t] = (int32_t)position;
        position = is_separator ? 0 : position + 1;
    }
}

enum status data_read_window(const struct token_data *data, int64_t window, void *raw,
                             const struct token_row *row, struct fault *fault) {
    ASSERT(window >= 0 && window < data->window_count);
    const struct data_file *file = find_file(data, UNIT_WINDOW, window);
    int width = token_file_width(&file->tokens);
    int64_t first = first_token_index(file, window, data->sequence);
    int64_t count = data->sequence + !has_rows(file);
    TRY(token_file_read(&file->tokens, first, count, raw, fault));
    for (int64_t t = 0; t < count; t++) {
        int64_t id = token_at(raw, t, width);
        if (id >= data->vocab) {
            return invalid_token_fault(data, &file->tokens, first + t, id, fault);
        }
    }
    if (has_rows(file)) {
        for (int64_t t = 0; t < count; t++) {
            row->ids[t] = (int32_t)token_at(raw, t, width);
        }
        return packed_row_fill(&file->tokens, first, data->sequence, raw, row, fault);
    }
    fill_row(data, raw, width, row);
    return OK;
}

enum status data_count_valid_labels(const struct token_data *data, int64_t window, void *raw,
                                    int64_t *valid, struct fault *fault) {
    ASSERT(window >= 0 && window < data->window_count);
    const struct data_file *file = find_file(data, UNIT_WINDOW, window);
    if (has_rows(file)) {
        return packed_row_count_trained(&file->tokens,
                                        first_token_index(file, window, data->sequence),
                                        data->sequence, raw, valid, fault);
    }
    if (data->separator == DATA_NO_SEPARATOR) {
        *valid = data->sequence;
        return OK;
    }
    int width = token_file_width(&file->tokens);
    int64_t first = first_token_index(file, window, data->sequence);
    TRY(token_file_read(&file->tokens, first, data->sequence, raw, fault));
    int64_t count = 0;
    for (int64_t t = 0; t < data->sequence; t++) {
        count += token_at(raw, t, width) != data->separator;
    }
    *valid = count;
    return OK;
}
