/* The BPE model of tokenizer.json: vocabulary, merges and options. */
#include "base/limits.h"
#include "runtime/tokenizer/byte_level.h"
#include "runtime/tokenizer/load.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include <stdio.h>
#include <string.h>

enum {
    SHOWN_BYTES = 60,      /* maximum number of bytes of a token's text that a message shows */
    FIRST_CAPACITY = 1024, /* initial capacity of an array, in items */
    BYTE_TOKEN_BYTES = 8,  /* size of the buffer for a text such as <0x0A> */
    /* Every id is below HOLES_FACTOR * tokens + HOLES_MAX, because ids without tokens cost memory.
     * Published vocabularies have few ids without tokens. */
    HOLES_FACTOR = 2,
    HOLES_MAX = 1 << 16, /* number of ids without tokens that a vocabulary of any size may have */
};

/* An array that grows. */
struct growing_array {
    void *items;            /* [capacity] */
    size_t count, capacity; /* numbers of items */
};

/* Adds an item of `size` bytes, and returns its address. */
static void *append_item(struct growing_array *array, size_t size, struct region *region) {
    if (array->count == array->capacity) {
        size_t capacity = array->capacity == 0 ? FIRST_CAPACITY : 2 * array->capacity;
        void *items = region_alloc(region, capacity, size);
        if (array->count > 0) {
            memcpy(items, array->items, array->count * size);
        }
        array->items = items;
        array->capacity = capacity;
    }
    return (char *)array->items + array->count++ * size;
}

static enum status list_fault(struct loader *loader, const struct json_scan *scan,
                              const char *list) {
    return load_fault(loader, "download the file again", "byte %zu of `%s`: %s", scan->at, list,
                      scan->reason);
}

static enum status read_vocabulary_entry(struct loader *loader, struct json_scan *scan,
                                         struct growing_array *array) {
    char *text;
    int64_t id;
    if (!json_scan_string(scan, &text) || !json_scan_expect_byte(scan, ':') ||
        !json_scan_natural(scan, &id)) {
        return list_fault(loader, scan, "model.vocab");
    }
    size_t count = strlen(text);
    if (id >= VOCAB_MAX || count > VOCABULARY_TEXT_BYTES_MAX) {
        return load_fault(loader, "use a tokenizer with a smaller vocabulary",
                          "`model.vocab`: '%.*s' has the id %lld or a text that is too long",
                          SHOWN_BYTES, text, (long long)id);
    }
    struct vocabulary_entry *entry = append_item(array, sizeof *entry, loader->temporary);
    *entry = (struct vocabulary_entry){.text = text, .count = (uint32_t)count, .id = (int32_t)id};
    return OK;
}

static enum status read_vocabulary(struct loader *loader, struct growing_array *array) {
    struct json_scan scan = {
        .bytes = loader->text, .length = loader->length, .at = loader->model[MODEL_VOCAB].begin};
    if (loader->model[MODEL_VOCAB].end == 0 || !json_scan_expect_byte(&scan, '{')) {
        return load_fault(loader, "use a tokenizer with a BPE model",
                          "`model.vocab` is missing, or is not an object");
    }
    bool has_more = json_scan_peek(&scan) != '}';
    while (has_more) {
        TRY(read_vocabulary_entry(loader, &scan, array));
        scan.reason = NULL;
        has_more = json_scan_has_more(&scan, '}');
    }
    const struct vocabulary_entry *entries = array->items;
    for (size_t i = 0; i < array->count; i++) {
        if ((size_t)entries[i].id >= HOLES_FACTOR * array->count + HOLES_MAX) {
            return load_fault(loader, "number the tokens consecutively from 0",
                              "`model.vocab`: '%.*s' has the id %d, but there are %zu tokens",
                              SHOWN_BYTES, entries[i].text, entries[i].id, array->count);
        }
    }
    int64_t bad = vocabulary_make(entries, array->count, loader->region,
                                  &loader->tokenizer->model.vocabulary);
    if (bad >= 0) {
        return load_fault(loader, "download the file again",
                          "`model.vocab`: the text or id of '%.*s' occurs twice", SHOWN_BYTES,
                          entries[bad].text);
    }
    return OK;
}

/* Reads one merge: a list of two texts, or one text with a space between them. Sets *right to NULL
 * for a comment line, which older files have among the merges. */
static enum status read_merge(struct loader *loader, struct json_scan *scan, const char **left,
                              const char **right) {
    char *first;
    char *second;
    bool is_list = json_scan_peek(scan) == '[';
    if (is_list) {
        if (!json_scan_expect_byte(scan, '[') || !json_scan_string(scan, &first) ||
            !json_scan_expect_byte(scan, ',') || !json_scan_string(scan, &second) ||
            !json_scan_expect_byte(scan, ']')) {
            return list_fault(loader, scan, "model.merges");
        }
    } else {
        if (!json_scan_string(scan, &first)) {
            return list_fault(loader, scan, "model.merges");
        }
        if (strncmp(first, "#version", strlen("#version")) == 0) {
            *right = NULL;
            return OK;
        }
        second = strchr(first, ' ');
        if (second == NULL || strchr(second + 1, ' ') != NULL) {
            return load_fault(loader, "download the file again",
                              "`model.merges`: '%.*s' is not two tokens", SHOWN_BYTES, first);
        }
        *second++ = '\0';
    }
    *left = first;
    *right = second;
    return OK;
}

static enum status add_merge(struct loader *loader, const char *left, const char *right,
                             struct growing_array *array) {
    const struct vocabulary *vocabulary = &loader->tokenizer->model.vocabulary;
    size_t left_count = strlen(left);
    size_t right_count = strlen(right);
    char merged[VOCABULARY_TEXT_BYTES_MAX];
    struct merge merge = {.left = vocabulary_find(vocabulary, left, left_count),
                          .right = vocabulary_find(vocabulary, right, right_count),
                          .merged = VOCABULARY_ABSENT};
    if (left_count + right_count <= sizeof merged) {
        memcpy(merged, left, left_count);
        memcpy(merged + left_count, right, right_count);
        merge.merged = vocabulary_find(vocabulary, merged, left_count + right_count);
    }
    if (merge.left < 0 || merge.right < 0 || merge.merged < 0 || left_count == 0 ||
        right_count == 0) {
        return load_fault(loader, "download the file again",
                          "`model.merges`: '%.*s' + '%.*s': not all three are in the vocabulary",
                          SHOWN_BYTES, left, SHOWN_BYTES, right);
    }
    if (array->count == VOCABULARY_MERGES_MAX) {
        return load_fault(loader, "use a tokenizer with fewer merges",
                          "`model.merges` has more than %d items", VOCABULARY_MERGES_MAX);
    }
    *(struct merge *)append_item(array, sizeof merge, loader->temporary) = merge;
    return OK;
}

static enum status read_merges(struct loader *loader) {
    struct growing_array array = {0};
    struct json_scan scan = {
        .bytes = loader->text, .length = loader->length, .at = loader->model[MODEL_MERGES].begin};
    if (loader->model[MODEL_MERGES].end == 0 || !json_scan_expect_byte(&scan, '[')) {
        return load_fault(loader, "use a tokenizer with a BPE model",
                          "`model.merges` is missing, or is not a list");
    }
    bool has_more = json_scan_peek(&scan) != ']';
    while (has_more) {
        const char *left = NULL;
        const char *right = NULL;
        TRY(read_merge(loader, &scan, &left, &right));
        if (right != NULL) {
            TRY(add_merge(loader, left, right, &array));
        }
        scan.reason = NULL;
        has_more = json_scan_has_more(&scan, ']');
    }
    loader->tokenizer->info.merge_count = (int32_t)array.count;
    loader->tokenizer->model.merges = merge_table_make(array.items, array.count, loader->region);
    return OK;
}

/* Sets *text to a member of `model` that is a string, or to NULL if the file does not have it. */
static enum status read_text(struct loader *loader, enum model_member member, const char *name,
                             const char **text) {
    struct json_document document;
    struct json_node value;
    bool found;
    const char *found_text;
    *text = NULL;
    TRY(load_value(loader, &loader->model[member], name, &document, &value, &found));
    if (!found) {
        return OK;
    }
    enum status status = json_as_text(&value, &found_text, loader->fault);
    if (status == OK) {
        *text = region_copy_text(loader->temporary, found_text);
    }
    json_finish(&document);
    return status;
}

static enum status read_flag(struct loader *loader, enum model_member member, const char *name,
                             bool *flag) {
    struct json_document document;
    struct json_node value;
    bool found;
    TRY(load_value(loader, &loader->model[member], name, &document, &value, &found));
    if (!found) {
        return OK;
    }
    enum status status = json_as_bool(&value, flag, loader->fault);
    json_finish(&document);
    return status;
}

/* Rejects subword markers and dropout: they change the ids, and no supported family has them. */
static enum status reject_unsupported_options(struct loader *loader) {
    const char *type;
    const char *prefix;
    const char *suffix;
    TRY(read_text(loader, MODEL_TYPE, "type", &type));
    if (type != NULL && strcmp(type, "BPE") != 0) {
        return load_fault(loader, "use a tokenizer with a BPE model",
                          "`model.type` is %.40s, which is not supported", type);
    }
    TRY(read_text(loader, MODEL_PREFIX, "continuing_subword_prefix", &prefix));
    TRY(read_text(loader, MODEL_SUFFIX, "end_of_word_suffix", &suffix));
    if ((prefix != NULL && prefix[0] != '\0') || (suffix != NULL && suffix[0] != '\0')) {
        return load_fault(loader, "use a tokenizer without this option",
                          "`model.%s` is set, which is not supported",
                          prefix != NULL && prefix[0] != '\0' ? "continuing_subword_prefix"
                                                              : "end_of_word_suffix");
    }
    struct json_document document;
    struct json_node value;
    bool found;
    double dropout = 0;
    TRY(load_value(loader, &loader->model[MODEL_DROPOUT], "dropout", &document, &value, &found));
    if (found) {
        enum status status = json_as_f64(&value, &dropout, loader->fault);
        json_finish(&document);
        TRY(status);
    }
    return dropout == 0 ? OK
                        : load_fault(loader, "set `dropout` to null",
                                     "`model.dropout` is set, so the ids would be random");
}

/* Fills the tables with the ids of bytes and of single characters. With them, encoding a character
 * needs no search in the vocabulary. */
static void fill_character_ids(struct loader *loader) {
    struct bpe_model *model = &loader->tokenizer->model;
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[BYTE_TOKEN_BYTES];
        int length = snprintf(text, sizeof text, "<0x%02X>", byte);
        model->byte_tokens[byte] = vocabulary_find(&model->vocabulary, text, (size_t)length);
        size_t count = utf8_write(byte_level_point((unsigned char)byte), text);
        model->byte_ids[byte] = vocabulary_find(&model->vocabulary, text, count);
    }
    for (uint32_t point = 0; point < ARRAY_COUNT(model->ascii_ids); point++) {
        char text = (char)point;
        model->ascii_ids[point] = vocabulary_find(&model->vocabulary, &text, 1);
    }
}

/* Whether each byte has a token. */
static bool has_all_bytes(const int32_t ids[static 256]) {
    for (int byte = 0; byte < 256; byte++) {
        if (ids[byte] == VOCABULARY_ABSENT) {
            return false;
        }
    }
    return true;
}

/* Sets model->words, in which whole words are searched for. In a byte-level model its texts are the
 * bytes of the tokens, not their characters in the alphabet of GPT-2. */
static void make_words(struct loader *loader) {
    struct bpe_model *model = &loader->tokenizer->model;
    const struct vocabulary *vocabulary = &model->vocabulary;
    if (!model->ignores_merges || !model->is_byte_level) {
        model->words = vocabulary;
        return;
    }
    struct vocabulary_entry *entries =
        region_alloc(loader->temporary, (size_t)vocabulary->token_count, sizeof *entries);
    size_t count = 0;
    for (int32_t id = 0; id < vocabulary->id_count; id++) {
        size_t bytes;
        const char *text = vocabulary_text(vocabulary, id, &bytes);
        char *raw = text == NULL ? NULL : region_alloc(loader->temporary, bytes, 1);
        int64_t raw_bytes = text == NULL ? -1 : byte_level_bytes(text, bytes, raw);
        if (raw_bytes >= 0) {
            entries[count++] = (struct vocabulary_entry){raw, (uint32_t)raw_bytes, id};
        }
    }
    struct vocabulary *words = region_alloc(loader->region, 1, sizeof *words);
    int64_t bad = vocabulary_make(entries, count, loader->region, words);
    ASSERT(bad < 0); /* the characters of bytes are distinct */
    model->words = words;
}

enum status load_model(struct loader *loader) {
    struct tokenizer *tokenizer = loader->tokenizer;
    struct bpe_model *model = &tokenizer->model;
    struct growing_array array = {0};
    const char *unk;
    TRY(reject_unsupported_options(loader));
    TRY(read_text(loader, MODEL_UNK_TOKEN, "unk_token", &unk));
    TRY(read_flag(loader, MODEL_FUSE_UNK, "fuse_unk", &model->fuses_unk));
    TRY(read_flag(loader, MODEL_BYTE_FALLBACK, "byte_fallback", &model->falls_back_to_bytes));
    TRY(read_flag(loader, MODEL_IGNORE_MERGES, "ignore_merges", &model->ignores_merges));
    TRY(read_vocabulary(loader, &array));
    TRY(read_merges(loader));
    model->is_byte_level = loader->has_byte_level;
    fill_character_ids(loader);
    make_words(loader);
    tokenizer->info.is_byte_level = model->is_byte_level && has_all_bytes(model->byte_ids);
    model->unk_id =
        unk == NULL ? VOCABULARY_ABSENT : vocabulary_find(&model->vocabulary, unk, strlen(unk));
    if (unk != NULL && model->unk_id == VOCABULARY_ABSENT && !tokenizer->info.is_byte_level) {
        return load_fault(loader, "add the token to the vocabulary, or set unk_token to null",
                          "`model.unk_token` '%.*s' is not in the vocabulary", SHOWN_BYTES, unk);
    }
    return OK;
}
