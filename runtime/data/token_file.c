#include "runtime/data/token_file.h"

#include "base/file.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { MAGIC_BYTES = 4 }; /* size in bytes of the magic number of llm.c's format */

static int format_token_bytes(enum token_format format) {
    static const int WIDTHS[] = {
        [TOKENS_BYTES] = 1,    [TOKENS_U16] = 2,      [TOKENS_U32] = 4,
        [TOKENS_LLMC_U16] = 2, [TOKENS_LLMC_U32] = 4,
    };
    ASSERT((size_t)format < ARRAY_COUNT(WIDTHS));
    return WIDTHS[format];
}

int token_file_width(const struct token_file *file) {
    return format_token_bytes(file->format);
}

int64_t token_at(const void *raw, int64_t index, int width) {
    const uint8_t *at = (const uint8_t *)raw + index * width;
    int64_t value = 0;
    for (int i = width - 1; i >= 0; i--) {
        value = value << 8 | at[i];
    }
    return value;
}

static bool format_parse(const char *name, enum token_format *format) {
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

static enum status read_header(struct token_file *file, struct fault *fault) {
    uint8_t bytes[SHARD_HEADER_BYTES];
    TRY(file_read_at(file->fd, file->path, bytes, sizeof bytes, 0, fault));
    const char *reason = shard_header_read(bytes, &file->header);
    if (reason != NULL) {
        return fault_set(fault, STATUS_INPUT, file->path, "make the file again with `skep data`",
                         "%s", reason);
    }
    const int64_t tokens = file->header.token_count;
    const int64_t mask_bytes = file->header.has_mask ? 2 * shard_bits_bytes(tokens) : 0;
    const int64_t expected_bytes = SHARD_HEADER_BYTES + tokens * file->header.width + mask_bytes;
    if (expected_bytes != file->bytes) {
        return fault_set(fault, STATUS_INPUT, file->path,
                         "the file is truncated or was changed: download or write it again",
                         "the header states %lld tokens, which need %lld bytes; the file has %lld",
                         (long long)tokens, (long long)expected_bytes, (long long)file->bytes);
    }
    file->format = file->header.width == 2 ? TOKENS_LLMC_U16 : TOKENS_LLMC_U32;
    file->data_offset = SHARD_HEADER_BYTES;
    return OK;
}

/* A kind of file that contains text, which must be converted to tokens first. */
struct text_file_kind {
    /* suffix of the files' names; name of the kind; remedy, for faults */
    const char *suffix, *name, *remedy;
};

static const char MAKE_TOKENS[] = "make tokens of it with `skep data`";

static const struct text_file_kind TEXT_KINDS[] = {
    {".jsonl", "text in JSON lines", MAKE_TOKENS},
    {".ndjson", "text in JSON lines", MAKE_TOKENS},
    {".json", "text in JSON", "convert it to .jsonl, then make tokens with `skep data`"},
    {".csv", "text in a table", "convert it to .jsonl, then make tokens with `skep data`"},
    {".md", "text", MAKE_TOKENS},
    {".parquet", "a table in Parquet", "convert it to .jsonl, then make tokens with `skep data`"},
    {".arrow", "a table in Arrow", "convert it to .jsonl, then make tokens with `skep data`"},
    {".gz", "compressed", "make tokens of it with `skep data`, or decompress it"},
    {".zst", "compressed", "make tokens of it with `skep data`, or decompress it"},
    {".zip", "compressed", "decompress it"},
};

static const struct text_file_kind *find_text_file_kind(const char *suffix) {
    for (size_t i = 0; i < ARRAY_COUNT(TEXT_KINDS); i++) {
        if (strcmp(TEXT_KINDS[i].suffix, suffix) == 0) {
            return &TEXT_KINDS[i];
        }
    }
    return NULL;
}

static enum status find_format(struct token_file *file, const char *format, struct fault *fault) {
    uint8_t magic[MAGIC_BYTES] = {0};
    if (file->bytes >= MAGIC_BYTES) {
        TRY(file_read_at(file->fd, file->path, magic, sizeof magic, 0, fault));
    }
    if (shard_header_is_valid_start(magic) && file->bytes >= SHARD_HEADER_BYTES) {
        return read_header(file, fault);
    }
    const char *dot = strrchr(file->path, '.');
    if ((dot != NULL && format_parse(dot + 1, &file->format)) ||
        (format != NULL && format_parse(format, &file->format))) {
        return OK;
    }
    if (format != NULL) {
        return fault_set(fault, STATUS_INPUT, "data.format", NULL,
                         "\"%.40s\" is not one of the token formats u16, u32 and bytes", format);
    }
    if (dot != NULL && find_text_file_kind(dot) != NULL) {
        const struct text_file_kind *kind = find_text_file_kind(dot);
        return fault_set(fault, STATUS_INPUT, file->path, kind->remedy, "is %s, not tokens",
                         kind->name);
    }
    return fault_set(fault, STATUS_INPUT, file->path,
                     "set data.format to u16, u32 or bytes, or rename the file to .u16, .u32, "
                     ".bytes or .txt",
                     "cannot determine the token format: no llm.c header and no known suffix");
}

enum status token_file_reject_text(const struct token_file *file, const char *format,
                                   struct fault *fault) {
    const char *dot = strrchr(file->path, '.');
    bool is_text = file->format == TOKENS_BYTES && dot != NULL && strcmp(dot, ".txt") == 0;
    if (!is_text || (format != NULL && strcmp(format, "bytes") == 0)) {
        return OK;
    }
    return fault_set(fault, STATUS_INPUT, file->path,
                     "make tokens of it with `skep data`, or set data.format to bytes to train on "
                     "its bytes",
                     "is text, but this model's tokens are not bytes");
}

static enum status count_tokens(struct token_file *file, struct fault *fault) {
    const bool has_mask = file->header.has_mask;
    int64_t mask_bytes = has_mask ? 2 * shard_bits_bytes(file->header.token_count) : 0;
    int64_t data_bytes = file->bytes - file->data_offset - mask_bytes;
    int width = format_token_bytes(file->format);
    if (data_bytes == 0) {
        return fault_set(fault, STATUS_INPUT, file->path, "use a file with tokens",
                         "has no tokens");
    }
    if (data_bytes % width != 0) {
        return fault_set(
            fault, STATUS_INPUT, file->path,
            "the file is truncated, or its suffix or the key data.format gives another format than "
            "it has",
            "the file of %lld bytes does not contain a whole number of tokens of %d bytes",
            (long long)data_bytes, width);
    }
    file->token_count = data_bytes / width;
    return OK;
}

enum status token_file_open(const char *path, const char *format, struct token_file *file,
                            struct fault *fault) {
    struct token_file opened = {
        .path = path, .fd = -1, .header.document_token = SHARD_NO_DOCUMENT_TOKEN};
    TRY(file_open_read(path, &opened.fd, &opened.bytes, fault));
    enum status status = find_format(&opened, format, fault);
    if (status == OK) {
        status = count_tokens(&opened, fault);
    }
    if (status != OK) {
        token_file_close(&opened);
        return status;
    }
    *file = opened;
    return OK;
}

enum status token_file_read(const struct token_file *file, int64_t first, int64_t count, void *raw,
                            struct fault *fault) {
    ASSERT(first >= 0 && count >= 0 && first + count <= file->token_count);
    int width = format_token_bytes(file->format);
    return file_read_at(file->fd, file->path, raw, (size_t)(count * width),
                        file->data_offset + first * width, fault);
}

enum status token_file_read_bits(const struct token_file *file, int64_t first, int64_t count,
                                 uint8_t *bits, struct fault *fault) {
    ASSERT(file->header.has_mask && first >= 0 && count > 0 && first + count <= file->token_count);
    const int64_t list_offset = file->data_offset + file->token_count * token_file_width(file);
    const int64_t list_bytes = shard_bits_bytes(file->token_count);
    const int64_t begin = first / 8;
    const int64_t bytes = (first + count - 1) / 8 + 1 - begin;
    for (int list = 0; list < 2; list++) {
        TRY(file_read_at(file->fd, file->path, bits + list * (count / 8 + 2), (size_t)bytes,
                         list_offset + list * list_bytes + begin, fault));
    }
    return OK;
}

void token_file_close(struct token_file *file) {
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
    }
}
