#include "runtime/tokenizer/bpe.h"

#include "runtime/tokenizer/byte_level.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

bool scratch_reserve(struct scratch *scratch, struct region *region, size_t count, size_t size,
                     size_t kept) {
    size_t bytes = count * size;
    if (bytes <= scratch->capacity) {
        return true;
    }
    if (process_is_sealed()) {
        return false;
    }
    size_t capacity = bytes > 2 * scratch->capacity ? bytes : 2 * scratch->capacity;
    void *memory = region_alloc(region, capacity, 1);
    if (kept > 0) {
        memcpy(memory, scratch->memory, kept);
    }
    *scratch = (struct scratch){.memory = memory, .capacity = capacity};
    return true;
}

enum status encoder_full_fault(struct tokenizer_encoder *encoder) {
    return fault_set(encoder->fault, STATUS_FIT, "text", "shorten it",
                     "it needs more memory for tokenizing than was planned");
}

enum status bpe_append_id(struct tokenizer_encoder *encoder, int32_t id) {
    if (!scratch_reserve(&encoder->ids, encoder->region, encoder->id_count + 1, sizeof id,
                         encoder->id_count * sizeof id)) {
        return encoder_full_fault(encoder);
    }
    ((int32_t *)encoder->ids.memory)[encoder->id_count++] = id;
    return OK;
}

static enum status append_ids(struct tokenizer_encoder *encoder, const int32_t *ids, size_t count) {
    if (!scratch_reserve(&encoder->ids, encoder->region, encoder->id_count + count, sizeof *ids,
                         encoder->id_count * sizeof *ids)) {
        return encoder_full_fault(encoder);
    }
    memcpy((int32_t *)encoder->ids.memory + encoder->id_count, ids, count * sizeof *ids);
    encoder->id_count += count;
    return OK;
}

bool bpe_reserve_scratch(struct tokenizer_encoder *encoder, size_t bytes) {
    return scratch_reserve(&encoder->symbols, encoder->region, MERGE_WORDS * bytes, sizeof(int32_t),
                           0) &&
           (bytes <= MERGE_SHORT_MAX ||
            scratch_reserve(&encoder->heap, encoder->region, 2 * bytes, sizeof(uint64_t), 0));
}

/* The symbols of a word as they are collected. An unknown character is held back, because the next
 * one may be fused with it. */
struct symbols {
    const struct bpe_model *model;
    int32_t *ids;   /* [count]: ids of the symbols so far */
    size_t count;   /* number of symbols */
    bool holds_unk; /* an unknown character is held back */
};

static void add_known(struct symbols *symbols, int32_t id) {
    if (symbols->holds_unk) {
        symbols->ids[symbols->count++] = symbols->model->unk_id;
        symbols->holds_unk = false;
    }
    symbols->ids[symbols->count++] = id;
}

/* Adds the tokens of the bytes of a character. Returns false if a byte has no token. As in the
 * reference, an unknown character that is held back stays so, and is added after these tokens. */
static bool add_bytes(struct symbols *symbols, const char *text, size_t count) {
    const struct bpe_model *model = symbols->model;
    if (!model->falls_back_to_bytes) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (model->byte_tokens[(unsigned char)text[i]] == VOCABULARY_ABSENT) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        symbols->ids[symbols->count++] = model->byte_tokens[(unsigned char)text[i]];
    }
    return true;
}

static void add_unknown(struct symbols *symbols) {
    const struct bpe_model *model = symbols->model;
    if (model->unk_id == VOCABULARY_ABSENT) {
        return;
    }
    if (symbols->holds_unk && !model->fuses_unk) {
        symbols->ids[symbols->count++] = model->unk_id;
    }
    symbols->holds_unk = true;
}

/* Adds the symbols of a word in a byte-level model, in which each byte is written as one character
 * of one or two bytes. */
static void collect_bytes(struct symbols *symbols, const char *word, size_t bytes) {
    const struct bpe_model *model = symbols->model;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)word[i];
        int32_t id = model->byte_ids[byte];
        if (id != VOCABULARY_ABSENT) {
            add_known(symbols, id);
            continue;
        }
        char character[UTF8_BYTES_MAX];
        size_t length = utf8_write(byte_level_point(byte), character);
        if (!add_bytes(symbols, character, length)) {
            add_unknown(symbols);
        }
    }
}

/* Adds the symbols of a word in any other model: one for each character. */
static void collect_characters(struct symbols *symbols, const char *word, size_t bytes) {
    const struct bpe_model *model = symbols->model;
    for (size_t at = 0; at < bytes;) {
        size_t length = utf8_length(word[at]);
        int32_t id = length == 1 ? model->ascii_ids[(unsigned char)word[at]]
                                 : vocabulary_find(&model->vocabulary, word + at, length);
        if (id != VOCABULARY_ABSENT) {
            add_known(symbols, id);
        } else if (!add_bytes(symbols, word + at, length)) {
            add_unknown(symbols);
        }
        at += length;
    }
}

/* Maximum number of symbols for each byte of a word in a byte-level model that falls back to bytes:
 * the character of a byte can take two bytes, each of which becomes a symbol. */
enum { SYMBOLS_PER_BYTE = 2 };

/* Appends the ids of a word that is not a token as a whole. */
static enum status encode_by_merges(struct tokenizer_encoder *encoder, const char *word,
                                    size_t bytes) {
    const struct bpe_model *model = &encoder->tokenizer->model;
    size_t most =
        model->is_byte_level && model->falls_back_to_bytes ? SYMBOLS_PER_BYTE * bytes : bytes;
    if (!bpe_reserve_scratch(encoder, most)) {
        return encoder_full_fault(encoder);
    }
    struct symbols symbols = {.model = model, .ids = encoder->symbols.memory};
    if (model->is_byte_level) {
        collect_bytes(&symbols, word, bytes);
    } else {
        collect_characters(&symbols, word, bytes);
    }
    if (symbols.holds_unk) {
        symbols.ids[symbols.count++] = model->unk_id;
    }
    size_t count =
        merge_all(&model->merges, symbols.ids, symbols.count, encoder->heap.memory, encoder->stops);
    if (count == MERGE_STOPPED) {
        return fault_set(encoder->fault, STATUS_STOPPED, "text", NULL, "stopped by request");
    }
    return append_ids(encoder, symbols.ids, count);
}

static enum status encode_uncached(struct tokenizer_encoder *encoder, const char *word,
                                   size_t bytes) {
    const struct bpe_model *model = &encoder->tokenizer->model;
    if (model->ignores_merges) {
        int32_t id = vocabulary_find(model->words, word, bytes);
        if (id != VOCABULARY_ABSENT) {
            return bpe_append_id(encoder, id);
        }
    }
    return encode_by_merges(encoder, word, bytes);
}

enum status bpe_encode_word(struct tokenizer_encoder *encoder, const char *word, size_t bytes) {
    if (bytes > CACHE_KEY_BYTES) {
        return encode_uncached(encoder, word, bytes);
    }
    uint64_t key[CACHE_KEY_BYTES / 8] = {0};
    memcpy(key, word, bytes);
    uint64_t mixed = (key[0] ^ key[1] * 0x9e3779b97f4a7c15u ^ key[2] * 0xc2b2ae3d27d4eb4fu ^
                      (uint64_t)bytes << 56) *
                     0xff51afd7ed558ccdu;
    struct cached_word *cached = &encoder->cache[mixed >> 32 & (CACHE_SLOTS - 1)];
    if (cached->byte_count == bytes && memcmp(cached->key, key, sizeof key) == 0) {
        return append_ids(encoder, cached->ids, cached->id_count);
    }
    size_t begin = encoder->id_count;
    TRY(encode_uncached(encoder, word, bytes));
    size_t count = encoder->id_count - begin;
    if (count <= CACHE_IDS) {
        memcpy(cached->key, key, sizeof key);
        memcpy(cached->ids, (int32_t *)encoder->ids.memory + begin, count * sizeof *cached->ids);
        cached->byte_count = (uint8_t)bytes;
        cached->id_count = (uint8_t)count;
    }
    return OK;
}
