/* Fuzz target: a tokenizer.json of at most 64 KiB. A file that is accepted must encode and decode:
 * ids are those of tokens, and decoded text is well-formed. */
#include "runtime/tokenizer/load.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { FILE_MAX = 1 << 16, IDS_MAX = 1 << 12 };

static const char *const TEXTS[] = {
    "",
    "a b  c\n\nd 1234 'll <s> </s>",
    "\xe2\x96\x81\xe2\x96\x81x \xc3\xa9 e\xcc\x81 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\xa4\x97\t",
};

static void check_ids(const struct tokenizer *tokenizer, const struct token_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        ASSERT(tokenizer_token_text(tokenizer, list->ids[i]).bytes != NULL);
    }
}

static void check_decoding(const struct tokenizer *tokenizer, const struct token_list *list,
                           struct region *region) {
    struct tokenizer_decoder *decoder = tokenizer_decoder_make(tokenizer, IDS_MAX, region);
    for (int skips = 0; skips < 2; skips++) {
        tokenizer_decode_begin(decoder, skips != 0);
        for (size_t i = 0; i <= list->count && i < IDS_MAX; i++) {
            struct token_text text = i < list->count ? tokenizer_decode_next(decoder, list->ids[i])
                                                     : tokenizer_decode_end(decoder);
            ASSERT(utf8_valid_bytes(text.bytes, text.count) == text.count);
        }
    }
}

static void use(const struct tokenizer *tokenizer, struct region *region) {
    struct tokenizer_encoder *encoder = tokenizer_encoder_make(tokenizer, region);
    struct token_list list;
    struct fault fault;
    for (size_t i = 0; i < ARRAY_COUNT(TEXTS); i++) {
        for (int literal = 0; literal < 2; literal++) {
            struct tokenizer_options options = {.adds_special_tokens = true,
                                                .is_literal = literal != 0};
            if (tokenizer_encode(encoder, TEXTS[i], strlen(TEXTS[i]), &options, &list, &fault) ==
                OK) {
                check_ids(tokenizer, &list);
                check_decoding(tokenizer, &list, region);
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (count > FILE_MAX) {
        return 0;
    }
    struct region region = {0};
    struct region temporary = {0};
    struct fault fault;
    char *text = malloc(count + 1); /* no slack behind it: the sanitizer sees each stray read */
    ASSERT(text != NULL);
    memcpy(text, bytes, count);
    text[count] = '\0';
    const struct tokenizer *tokenizer = NULL;
    static struct region lasting;
    static const struct unicode *unicode;
    unicode = unicode == NULL ? unicode_make(&lasting) : unicode;
    struct tokenizer_source source = {
        .path = "fuzz", .text = text, .length = count, .unicode = unicode};
    if (tokenizer_parse(&source, &region, &temporary, &tokenizer, &fault) == OK) {
        use(tokenizer, &region);
        tokenizer_finish(tokenizer);
    } else {
        ASSERT(tokenizer == NULL && fault.reason[0] != '\0');
    }
    region_finish(&temporary);
    region_finish(&region);
    free(text);
    return 0;
}
