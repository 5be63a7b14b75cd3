#include "runtime/data/token_file.h"

#include "base/file.h"
#include "base/limits.h"
#include "runtime/data/tokenizer_script.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    HEADER_WORDS =
        256, /* Number of words in llm.c's header: magic number, version, token count, zeros. */
    HEADER_BYTES = 4 * HEADER_WORDS,
    WORD_BYTES = 4 /* Size of a word of the header. */
};

/* The formats of llm.c's token files. Both versions of a format are accepted: the one that llm.c's
 * tools write, and version 1. */
static const struct llmc_format {
    int64_t magic; /* First word of the header. */
    enum token_format format;
    int64_t version, other_version; /* Accepted values of the second word. */
} LLMC_FORMATS[] = {
    {20240520, TOKENS_LLMC_U16, 1, 1},
    {20240801, TOKENS_LLMC_U32, 7, 1},
};

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

static const struct llmc_format *find_llmc_format(int64_t magic) {
    for (size_t i = 0; i < ARRAY_COUNT(LLMC_FORMATS); i++) {
        if (LLMC_FORMATS[i].magic == magic) {
            return &LLMC_FORMATS[i];
        }
    }
    return NULL;
}

static enum status llmc_read_header(struct token_file *file, const struct llmc_format *llmc,
                                    struct fault *fault) {
    uint8_t header[3 * WORD_BYTES];
    TRY(file_read_at(file->fd, file->path, header, sizeof header, 0, fault));
    int64_t version = token_at(header, 1, WORD_BYTES);
    int64_t tokens = token_at(header, 2, WORD_BYTES);
    int64_t expected_bytes = HEADER_BYTES + tokens * format_token_bytes(llmc->format);
    if (version != llmc->version && version != llmc->other_version) {
        return fault_set(fault, STATUS_INPUT, file->path, NULL,
                         "the header has version %lld, but files with the magic number %lld must "
                         "have version %lld",
                         (long long)version, (long long)llmc->magic, (long long)llmc->version);
    }
    if (expected_bytes != file->bytes) {
        return fault_set(fault, STATUS_INPUT, file->path,
                         "the file is truncated or was changed: download or write it again",
                         "the header states %lld tokens, which need %lld bytes; the file has %lld",
                         (long long)tokens, (long long)expected_bytes, (long long)file->bytes);
    }
    file->format = llmc->format;
    file->data_offset = HEADER_BYTES;
    return OK;
}

/* A kind of file that contains text, which must be converted to tokens first. `remedy` has %s for
 * the path of the script. */
struct text_file_kind {
    const char *suffix, *name, *remedy;
};

static const struct text_file_kind TEXT_KINDS[] = {
    {".jsonl", "text in JSON lines", "tokenise it with %s"},
    {".json", "text in JSON", "convert it to .jsonl, then tokenise it with %s"},
    {".csv", "text in a table", "convert it to .jsonl, then tokenise it with %s"},
    {".md", "text", "tokenise it with %s"},
    {".parquet", "a table in Parquet", "convert it to .jsonl, then tokenise it with %s"},
    {".arrow", "a table in Arrow", "convert it to .jsonl, then tokenise it with %s"},
    {".gz", "compressed", "decompress it"},
    {".zst", "compressed", "decompress it"},
    {".zip", "compressed", "decompress it"},
};

/* Fills in the path of the script for each %s of a remedy. */
static enum status set_text_fault(const struct token_file *file, const char *reason,
                                  const struct text_file_kind *kind, struct fault *fault) {
    char script[2 * PATH_BYTES];
    const char *place = strstr(kind->remedy, "%s");
    (void)fault_set(fault, STATUS_INPUT, file->path, kind->remedy, "%s", reason);
    if (place != NULL) {
        tokenizer_script_path(script, sizeof script);
        snprintf(fault->remedy, sizeof fault->remedy, "%.*s%.200s%s", (int)(place - kind->remedy),
                 kind->remedy, script, place + 2);
    }
    return fault->status;
}

static const struct text_file_kind *find_text_file_kind(const char *suffix) {
    for (size_t i = 0; i < ARRAY_COUNT(TEXT_KINDS); i++) {
        if (strcmp(TEXT_KINDS[i].suffix, suffix) == 0) {
            return &TEXT_KINDS[i];
        }
    }
    return NULL;
}

static enum status find_format(struct token_file *file, const char *format, struct fault *fault) {
    uint8_t magic[WORD_BYTES] = {0};
    if (file->bytes >= WORD_BYTES) {
        TRY(file_read_at(file->fd, file->path, magic, sizeof magic, 0, fault));
    }
    const struct llmc_format *llmc = find_llmc_format(token_at(magic, 0, WORD_BYTES));
    if (llmc != NULL && file->bytes >= HEADER_BYTES) {
        return llmc_read_header(file, llmc, fault);
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
        char reason[NAME_BYTES];
        snprintf(reason, sizeof reason, "is %s, not tokens", find_text_file_kind(dot)->name);
        return set_text_fault(file, reason, find_text_file_kind(dot), fault);
    }
    return fault_set(fault, STATUS_INPUT, file->path,
                     "set data.format to u16, u32 or bytes, or rename the file to .u16, .u32, "
                     ".bytes or .txt",
                     "cannot determine the token format: no llm.c header and no known suffix");
}

enum status token_file_refuse_text(const struct token_file *file, const char *format,
                                   struct fault *fault) {
    const char *dot = strrchr(file->path, '.');
    bool is_text = file->format == TOKENS_BYTES && dot != NULL && strcmp(dot, ".txt") == 0;
    if (!is_text || (format != NULL && strcmp(format, "bytes") == 0)) {
        return OK;
    }
    static const struct text_file_kind PLAIN = {
        .remedy = "tokenise it with %s, or set data.format to bytes to train on its bytes"};
    return set_text_fault(file, "is text, but this model's tokens are not bytes", &PLAIN, fault);
}

static enum status count_tokens(struct token_file *file, struct fault *fault) {
    int64_t data_bytes = file->bytes - file->data_offset;
    int width = format_token_bytes(file->format);
    if (data_bytes == 0) {
        return fault_set(fault, STATUS_INPUT, file->path, NULL, "has no tokens");
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
    struct token_file opened = {.path = path, .fd = -1};
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

void token_file_close(struct token_file *file) {
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
    }
}
