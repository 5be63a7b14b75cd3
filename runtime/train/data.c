#include "runtime/train/data.h"

#include "base/file.h"
#include "base/random.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = 1 << 20,
    LLMC_HEADER_INTS = 256,
    LLMC_MAGIC_U16 = 20240520,
    LLMC_MAGIC_U32 = 20240801,
    FILES_MAX = 65536
};

static int token_bytes(enum token_format format) {
    switch (format) {
    case TOKENS_BYTES:
        return 1;
    case TOKENS_U16:
    case TOKENS_LLMC_U16:
        return 2;
    case TOKENS_U32:
    case TOKENS_LLMC_U32:
        return 4;
    }
    ASSERT(false && "an unknown token format");
    return 0;
}

static bool format_named(const char *name, enum token_format *format) {
    static const struct {
        const char *name;
        enum token_format format;
    } ROWS[] = {
        {"u16", TOKENS_U16}, {"u32", TOKENS_U32}, {"bytes", TOKENS_BYTES}, {"txt", TOKENS_BYTES}};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (strcmp(name, ROWS[i].name) == 0) {
            *format = ROWS[i].format;
            return true;
        }
    }
    return false;
}

static enum status llmc_check(const struct token_file *file, const int32_t *header, int64_t bytes,
                              struct fault *fault) {
    int64_t expected = (int64_t)header[2] * token_bytes(file->format) + file->data_offset;
    if (header[1] != 1) {
        return fault_set(fault, STATUS_INPUT, file->path, "write version 1",
                         "the header's version is %d", header[1]);
    }
    if (header[2] <= 0 || expected != bytes) {
        return fault_set(fault, STATUS_INPUT, file->path, "the file is truncated or was changed",
                         "the header promises %d tokens, so %lld bytes; the file has %lld",
                         header[2], (long long)expected, (long long)bytes);
    }
    return OK;
}

/* Magic first, then the given format, then the suffix. */
static enum status find_format(struct token_file *file, const char *format, int64_t bytes,
                               struct fault *fault) {
    int32_t header[LLMC_HEADER_INTS] = {0};
    if (bytes >= (int64_t)sizeof header) {
        enum status status = file_read_at(file->fd, file->path, header, sizeof header, 0, fault);
        if (status != OK) {
            return status;
        }
    }
    if (header[0] == LLMC_MAGIC_U16 || header[0] == LLMC_MAGIC_U32) {
        file->format = header[0] == LLMC_MAGIC_U16 ? TOKENS_LLMC_U16 : TOKENS_LLMC_U32;
        file->data_offset = sizeof header;
        return llmc_check(file, header, bytes, fault);
    }
    const char *dot = strrchr(file->path, '.');
    const char *suffix = dot == NULL ? "" : dot + 1;
    if ((format != NULL && format_named(format, &file->format)) ||
        (format == NULL && format_named(suffix, &file->format))) {
        return OK;
    }
    if (format != NULL) {
        return fault_set(fault, STATUS_INPUT, "data.format", NULL,
                         "\"%s\" is none of u16, u32, bytes", format);
    }
    return fault_set(fault, STATUS_INPUT, file->path, "set data.format to u16, u32 or bytes",
                     "neither magic nor suffix tells the token format");
}

static int64_t windows_of_block(int64_t tokens, int64_t sequence) {
    return tokens <= sequence ? 0 : (tokens - 1) / sequence;
}

static int64_t block_tokens(const struct token_file *file) {
    return BLOCK_BYTES / token_bytes(file->format);
}

/* All blocks but the last hold equally many windows. A row longer than a block makes the whole file
 * one block. */
static int64_t windows_per_block(const struct token_file *file, int64_t sequence) {
    int64_t in_block = windows_of_block(block_tokens(file), sequence);
    return in_block > 0 ? in_block : windows_of_block(file->token_count, sequence);
}

static bool one_block(const struct token_file *file, int64_t sequence) {
    return windows_of_block(block_tokens(file), sequence) == 0 ||
           file->token_count <= block_tokens(file);
}

static int64_t windows_of_file(const struct token_file *file, int64_t sequence) {
    if (one_block(file, sequence)) {
        return windows_of_block(file->token_count, sequence);
    }
    int64_t whole = file->token_count / block_tokens(file);
    int64_t rest = file->token_count % block_tokens(file);
    return whole * windows_per_block(file, sequence) + windows_of_block(rest, sequence);
}

static enum status open_one(struct token_file *file, const char *format, int64_t sequence,
                            struct fault *fault) {
    int64_t bytes;
    enum status status = file_open_read(file->path, &file->fd, &bytes, fault);
    if (status != OK) {
        file->fd = -1;
        return status;
    }
    status = find_format(file, format, bytes, fault);
    if (status != OK) {
        return status;
    }
    int64_t data_bytes = bytes - file->data_offset;
    if (data_bytes % token_bytes(file->format) != 0) {
        return fault_set(fault, STATUS_INPUT, file->path,
                         "the file is truncated, or data.format is wrong",
                         "%lld bytes are not whole tokens of %d bytes", (long long)data_bytes,
                         token_bytes(file->format));
    }
    file->token_count = data_bytes / token_bytes(file->format);
    if (windows_of_file(file, sequence) == 0) {
        return fault_set(fault, STATUS_INPUT, file->path, "give more text or lower batch.sequence",
                         "%lld tokens; a row of %lld needs one more than that",
                         (long long)file->token_count, (long long)sequence);
    }
    return OK;
}

enum status data_open(const char *const *paths, int path_count, const char *format,
                      int64_t sequence, int64_t vocab, struct region *region,
                      struct token_data *data, struct fault *fault) {
    if (path_count == 0 || path_count > FILES_MAX) {
        return fault_set(fault, STATUS_INPUT, "data", "name token files in data.train",
                         "%d files; 1 to %d are read", path_count, FILES_MAX);
    }
    struct token_data opened = {.sequence = sequence, .vocab = vocab, .file_count = path_count};
    opened.files = region_alloc(region, (size_t)path_count, sizeof *opened.files);
    for (int i = 0; i < path_count; i++) {
        opened.files[i].fd = -1;
    }
    for (int i = 0; i < path_count; i++) {
        struct token_file *file = &opened.files[i];
        file->path = region_text(region, paths[i]);
        file->first_window = opened.window_count;
        enum status status = open_one(file, format, sequence, fault);
        if (status != OK) {
            data_close(&opened);
            return status;
        }
        opened.window_count += windows_of_file(file, sequence);
    }
    *data = opened;
    return OK;
}

void data_close(struct token_data *data) {
    for (int i = 0; i < data->file_count; i++) {
        if (data->files[i].fd >= 0) {
            close(data->files[i].fd);
            data->files[i].fd = -1;
        }
    }
}

int data_token_bytes(const struct token_data *data) {
    int widest = 1;
    for (int i = 0; i < data->file_count; i++) {
        int bytes = token_bytes(data->files[i].format);
        widest = bytes > widest ? bytes : widest;
    }
    return widest;
}

/* Files hold few enough blocks that a walk over files is cheap beside reading a window. */
static const struct token_file *file_of(const struct token_data *data, int64_t window) {
    int index = 0;
    while (index + 1 < data->file_count && data->files[index + 1].first_window <= window) {
        index++;
    }
    return &data->files[index];
}

/* Blocks of all files in one row; a block's windows are neighbours in window order. Blocks are
 * permuted first, then the windows of each: what is read together lies together. */
struct block_place {
    int64_t first_window, window_count;
};

static int64_t blocks_of_file(const struct token_file *file, int64_t sequence) {
    int64_t windows = windows_of_file(file, sequence);
    int64_t each = windows_per_block(file, sequence);
    return (windows + each - 1) / each;
}

static struct block_place block_at(const struct token_data *data, int64_t block) {
    for (int i = 0; i < data->file_count; i++) {
        const struct token_file *file = &data->files[i];
        int64_t blocks = blocks_of_file(file, data->sequence);
        if (block < blocks) {
            int64_t each = windows_per_block(file, data->sequence);
            int64_t left = windows_of_file(file, data->sequence) - block * each;
            return (struct block_place){.first_window = file->first_window + block * each,
                                        .window_count = left < each ? left : each};
        }
        block -= blocks;
    }
    ASSERT(false && "a block beyond the data");
    return (struct block_place){0};
}

static int64_t block_count(const struct token_data *data) {
    int64_t count = 0;
    for (int i = 0; i < data->file_count; i++) {
        count += blocks_of_file(&data->files[i], data->sequence);
    }
    return count;
}

static int64_t widest_block(const struct token_data *data) {
    int64_t widest = 0;
    for (int i = 0; i < data->file_count; i++) {
        int64_t each = windows_per_block(&data->files[i], data->sequence);
        widest = each > widest ? each : widest;
    }
    return widest;
}

int64_t data_next(const struct token_data *data, uint64_t seed, int64_t *cursor) {
    int64_t blocks = block_count(data);
    int64_t width = widest_block(data);
    int64_t places = blocks * width;
    /* Blocks shorter than the widest leave holes; at least one window exists in every pass. */
    for (int64_t walked = 0; walked < 2 * places; walked++) {
        int64_t at = (*cursor)++;
        uint64_t pass_key = random_key(seed, "samples") + (uint64_t)(at / places);
        int64_t place = at % places;
        int64_t chosen =
            (int64_t)random_permute(pass_key, (uint64_t)(place / width), (uint64_t)blocks);
        struct block_place block = block_at(data, chosen);
        uint64_t block_key = pass_key ^ ((uint64_t)chosen + 1) * 0x9E3779B97F4A7C15u;
        int64_t window =
            (int64_t)random_permute(block_key, (uint64_t)(place % width), (uint64_t)width);
        if (window < block.window_count) {
            return block.first_window + window;
        }
    }
    ASSERT(false && "a pass over the data without a window");
    return 0;
}

static int64_t first_token(const struct token_file *file, int64_t window, int64_t sequence) {
    int64_t local = window - file->first_window;
    if (one_block(file, sequence)) {
        return local * sequence;
    }
    int64_t each = windows_per_block(file, sequence);
    return local / each * block_tokens(file) + local % each * sequence;
}

static int64_t token_at(const void *raw, int64_t index, int bytes) {
    const uint8_t *at = (const uint8_t *)raw + index * bytes;
    int64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) {
        value = value << 8 | at[i];
    }
    return value;
}

static enum status refuse_token(const struct token_data *data, const struct token_file *file,
                                int64_t index, int64_t id, struct fault *fault) {
    char place[sizeof fault->place];
    struct text text = text_over(place, sizeof place);
    text_add(&text, "%s: token %lld", file->path, (long long)index);
    return fault_set(fault, STATUS_INPUT, place, "tokenise with this model's tokenizer",
                     "id %lld is beyond the model's vocabulary of %lld", (long long)id,
                     (long long)data->vocab);
}

enum status data_window(const struct token_data *data, int64_t window, void *raw,
                        struct token_row *row, struct fault *fault) {
    ASSERT(window >= 0 && window < data->window_count);
    const struct token_file *file = file_of(data, window);
    int bytes = token_bytes(file->format);
    int64_t first = first_token(file, window, data->sequence);
    enum status status =
        file_read_at(file->fd, file->path, raw, (size_t)((data->sequence + 1) * bytes),
                     file->data_offset + first * bytes, fault);
    if (status != OK) {
        return status;
    }
    for (int64_t t = 0; t <= data->sequence; t++) {
        int64_t id = token_at(raw, t, bytes);
        if (id >= data->vocab) {
            return refuse_token(data, file, first + t, id, fault);
        }
        if (t < data->sequence) {
            row->ids[t] = (int32_t)id;
            row->positions[t] = (int32_t)t;
        }
        if (t > 0) {
            row->labels[t - 1] = (int32_t)id;
        }
    }
    return OK;
}
