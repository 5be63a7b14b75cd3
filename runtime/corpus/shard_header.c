/* shard_header: little-endian words of 32 bits at fixed positions (docs/FORMATS.md). */
#include "runtime/corpus/shard_header.h"

#include "base/check.h"

#include <string.h>

/* Each constant is the index of a word of 32 bits, and its comment says what the word holds. */
enum {
    WORD_MAGIC = 0,   /* llm.c's magic number */
    WORD_VERSION = 1, /* word with llm.c's version of the format */
    WORD_TOKENS = 2,  /* number of tokens */
    /* word with ORIGIN_MAGIC, if this program wrote the words from here on */
    WORD_ORIGIN = 64,
    WORD_ORIGIN_VERSION = 65,    /* word with the version of the words from WORD_ORIGIN on */
    WORD_TOKENIZER_VERSION = 66, /* word with the version of the algorithm that made the ids */
    WORD_DOCUMENT_TOKEN = 67,    /* word with the token id that ends a document */
    WORD_FLAGS = 68,             /* FLAG_MASK or 0 */
    WORD_ROW_TOKENS = 69,        /* word with the number of tokens of a row; 0: no rows */
    WORD_DOCUMENTS = 70,         /* two words: number of documents */
    WORD_TEXT_BYTES = 72,        /* two words: bytes of text */
    WORD_TOKENIZER = 80,         /* eight words: hash of the tokenizer */
};

enum {
    FLAG_MASK = 1,      /* flag: the file has a mask of trained tokens */
    ORIGIN_VERSION = 1, /* value of WORD_ORIGIN_VERSION */
};

static const uint32_t ORIGIN_MAGIC = 0x50454b53; /* "SKEP" */

/* The two formats of llm.c, each with the version that its tools write and another version that its
 * programs read. */
static const struct header_form {
    uint32_t magic; /* magic number of the format */
    int width;      /* size of a token in bytes */
    /* version that is written; another version that is also read */
    uint32_t version, other_version;
} FORMS[] = {{20240520, 2, 1, 1}, {20240801, 4, 7, 1}};

static uint32_t get_word(const uint8_t *bytes, int word) {
    const uint8_t *at = bytes + 4 * word;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_word(uint8_t *bytes, int word, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        bytes[4 * word + i] = (uint8_t)(value >> 8 * i);
    }
}

static uint64_t get_u64(const uint8_t *bytes, int word) {
    return get_word(bytes, word) | (uint64_t)get_word(bytes, word + 1) << 32;
}

static void put_u64(uint8_t *bytes, int word, uint64_t value) {
    put_word(bytes, word, (uint32_t)value);
    put_word(bytes, word + 1, (uint32_t)(value >> 32));
}

static const struct header_form *find_form(uint32_t magic) {
    for (size_t i = 0; i < ARRAY_COUNT(FORMS); i++) {
        if (FORMS[i].magic == magic) {
            return &FORMS[i];
        }
    }
    return NULL;
}

bool shard_header_is_valid_start(const uint8_t bytes[static 4]) {
    return find_form(get_word(bytes, WORD_MAGIC)) != NULL;
}

void shard_header_write(const struct shard_header *header,
                        uint8_t bytes[static SHARD_HEADER_BYTES]) {
    const struct header_form *form = &FORMS[header->width == 4];
    ASSERT(header->width == form->width);
    ASSERT(header->token_count >= 0 && header->token_count <= SHARD_TOKENS_MAX);
    memset(bytes, 0, SHARD_HEADER_BYTES);
    put_word(bytes, WORD_MAGIC, form->magic);
    put_word(bytes, WORD_VERSION, form->version);
    put_word(bytes, WORD_TOKENS, (uint32_t)header->token_count);
    if (!header->has_origin) {
        return;
    }
    put_word(bytes, WORD_ORIGIN, ORIGIN_MAGIC);
    put_word(bytes, WORD_ORIGIN_VERSION, ORIGIN_VERSION);
    put_word(bytes, WORD_TOKENIZER_VERSION, (uint32_t)header->tokenizer_version);
    put_word(bytes, WORD_DOCUMENT_TOKEN, (uint32_t)(int32_t)header->document_token);
    put_word(bytes, WORD_FLAGS, header->has_mask ? FLAG_MASK : 0);
    put_word(bytes, WORD_ROW_TOKENS, (uint32_t)header->row_tokens);
    put_u64(bytes, WORD_DOCUMENTS, header->document_count);
    put_u64(bytes, WORD_TEXT_BYTES, header->text_bytes);
    memcpy(bytes + 4 * WORD_TOKENIZER, header->tokenizer_hash.bytes, HASH_BYTES);
}

const char *shard_header_read(const uint8_t bytes[static SHARD_HEADER_BYTES],
                              struct shard_header *header) {
    const struct header_form *form = find_form(get_word(bytes, WORD_MAGIC));
    if (form == NULL) {
        return "does not begin with the magic number of a token file";
    }
    const uint32_t version = get_word(bytes, WORD_VERSION);
    if (version != form->version && version != form->other_version) {
        return form->width == 4 ? "the header's version is not 7 or 1"
                                : "the header's version is not 1";
    }
    struct shard_header read = {.width = form->width,
                                .version = version,
                                .token_count = (int32_t)get_word(bytes, WORD_TOKENS),
                                .document_token = SHARD_NO_DOCUMENT_TOKEN};
    if (read.token_count < 0) {
        return "the header's number of tokens is negative";
    }
    if (get_word(bytes, WORD_ORIGIN) == ORIGIN_MAGIC) {
        const uint32_t flags = get_word(bytes, WORD_FLAGS);
        if (get_word(bytes, WORD_ORIGIN_VERSION) != ORIGIN_VERSION || (flags & ~FLAG_MASK) != 0) {
            return "the header was written by a newer version of skep";
        }
        read.has_origin = true;
        read.tokenizer_version = get_word(bytes, WORD_TOKENIZER_VERSION);
        read.document_token = (int32_t)get_word(bytes, WORD_DOCUMENT_TOKEN);
        read.has_mask = (flags & FLAG_MASK) != 0;
        read.row_tokens = get_word(bytes, WORD_ROW_TOKENS);
        read.document_count = get_u64(bytes, WORD_DOCUMENTS);
        read.text_bytes = get_u64(bytes, WORD_TEXT_BYTES);
        memcpy(read.tokenizer_hash.bytes, bytes + 4 * WORD_TOKENIZER, HASH_BYTES);
        if (read.has_mask != (read.row_tokens > 0) ||
            (read.has_mask && read.token_count % read.row_tokens != 0)) {
            return "the header's rows contradict its number of tokens or its mask";
        }
        if (read.document_token < SHARD_NO_DOCUMENT_TOKEN) {
            return "the header's document token is negative";
        }
    }
    *header = read;
    return NULL;
}

int64_t shard_bits_bytes(int64_t token_count) {
    return (token_count + 7) / 8;
}
