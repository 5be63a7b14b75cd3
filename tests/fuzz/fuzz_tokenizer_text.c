/* Fuzz target: texts for tokenizers of each kind. The first byte chooses the tokenizer, the rest is
 * the text. Ill-formed text is rejected at its first ill-formed byte. Otherwise ids are those of
 * tokens, a divided document gives the same ids, and decoded text is well-formed. */
#include "runtime/tokenizer/load.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { IDS_MAX = 1 << 16, KINDS = 6 };

#define MODEL(options)                                                                             \
    "\"added_tokens\":[{\"id\":12,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"     \
    "{\"id\":13,\"content\":\"ab \",\"rstrip\":true,\"lstrip\":true,\"normalized\":false},"        \
    "{\"id\":14,\"content\":\"cab\",\"single_word\":true,\"normalized\":true}],"                   \
    "\"model\":{\"type\":\"BPE\"," options "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,"          \
    "\"\u2581\":4,\"abc\":5,\"\u0120\":6,\"\u2581a\":7,\"aa\":8,\"\u0120a\":9,\"<unk>\":10,"       \
    "\"<0xC3>\":11},\"merges\":[\"a b\",\"ab c\",\"\u2581 a\",\"a a\",\"\u0120 a\"]}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"

static const char *const FILES[KINDS] = {
    "{\"pre_tokenizer\":" BYTES ",\"decoder\":" BYTES "," MODEL("") "}",
    "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\","
    "\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":"
    "\"(?:[^\\\\r\\\\n\\\\p{L}]?\\\\p{L}+|\\\\p{N}{1,3}|\\\\s+(?!\\\\S))\"}}," BYTES "]},"
    "\"decoder\":" BYTES "," MODEL("\"ignore_merges\":true,") "}",
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
    "\"\u2581\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
    "{\"String\":\"\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}," MODEL(
        "\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,") "}",
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":"
    "\"first\"},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"}," MODEL(
        "\"unk_token\":\"<unk>\",") "}",
    "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
    "\"behavior\":\"MergedWithNext\",\"invert\":true,\"pattern\":{\"String\":\"b\"}},{\"type\":"
    "\"Digits\",\"individual_digits\":true}]}," MODEL("") "}",
    "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Contiguous\",\"pattern\":{\"Regex\":"
    "\"\\\\b\\\\w+?\\\\b|(?<=a)\\\\W\"}}," MODEL("\"unk_token\":\"<unk>\",") "}",
};

struct kind {
    const struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    struct tokenizer_decoder *decoder;
};

static struct region lasting;

static void make_kind(const char *file, const struct unicode *unicode, struct kind *kind) {
    struct region temporary = {0};
    struct fault fault;
    size_t length = strlen(file);
    char *text = region_alloc(&temporary, length + 1, 1);
    memcpy(text, file, length);
    struct tokenizer_source source = {
        .path = "fuzz", .text = text, .length = length, .unicode = unicode};
    enum status status = tokenizer_parse(&source, &lasting, &temporary, &kind->tokenizer, &fault);
    if (status != OK) {
        fault_print(&fault, 2);
    }
    ASSERT(status == OK);
    region_finish(&temporary);
    kind->encoder = tokenizer_encoder_make(kind->tokenizer, &lasting);
    kind->decoder = tokenizer_decoder_make(kind->tokenizer, IDS_MAX, &lasting);
}

static void check_decoding(struct kind *kind, const int32_t *ids, size_t id_count) {
    tokenizer_decode_begin(kind->decoder, false);
    for (size_t i = 0; i <= id_count; i++) {
        struct token_text piece = i < id_count ? tokenizer_decode_next(kind->decoder, ids[i])
                                               : tokenizer_decode_end(kind->decoder);
        ASSERT(utf8_valid_bytes(piece.bytes, piece.count) == piece.count);
    }
}

static void check_split(struct kind *kind, const char *text, size_t count, const int32_t *ids,
                        size_t id_count) {
    struct token_list list;
    struct fault fault;
    size_t at = count < 2 ? 0 : tokenizer_split_position(kind->tokenizer, text, count, count - 1);
    if (at == 0) {
        return;
    }
    const struct tokenizer_options first = {.has_more = true};
    const struct tokenizer_options last = {.is_continued = true};
    ASSERT(tokenizer_encode(kind->encoder, text, at, &first, &list, &fault) == OK);
    size_t first_count = list.count;
    ASSERT(first_count <= id_count);
    ASSERT(memcmp(list.ids, ids, first_count * sizeof *ids) == 0);
    ASSERT(tokenizer_encode(kind->encoder, text + at, count - at, &last, &list, &fault) == OK);
    ASSERT(first_count + list.count == id_count);
    ASSERT(memcmp(list.ids, ids + first_count, list.count * sizeof *ids) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static struct kind kinds[KINDS];
    if (kinds[0].tokenizer == NULL) {
        const struct unicode *unicode = unicode_make(&lasting);
        for (size_t i = 0; i < KINDS; i++) {
            make_kind(FILES[i], unicode, &kinds[i]);
        }
    }
    if (count == 0 || count > IDS_MAX / 8) {
        return 0;
    }
    struct kind *kind = &kinds[bytes[0] % KINDS];
    count--;
    char *text = malloc(count + 1); /* no slack behind it: the sanitizer sees each stray read */
    ASSERT(text != NULL);
    memcpy(text, bytes + 1, count);
    struct tokenizer_options options = {.is_literal = (bytes[0] & 0x80) != 0};
    struct token_list list;
    struct fault fault;
    bool is_valid = utf8_valid_bytes(text, count) == count;
    enum status status = tokenizer_encode(kind->encoder, text, count, &options, &list, &fault);
    ASSERT(is_valid ? status == OK || kind->tokenizer->split_count > 0 : status == STATUS_INPUT);
    if (status == OK) {
        int32_t *ids = malloc((list.count + 1) * sizeof *ids);
        ASSERT(ids != NULL);
        size_t id_count = list.count;
        if (id_count > 0) {
            memcpy(ids, list.ids, id_count * sizeof *ids);
        }
        check_decoding(kind, ids, id_count);
        if (!options.is_literal) {
            check_split(kind, text, count, ids, id_count);
        }
        free(ids);
    }
    free(text);
    return 0;
}
