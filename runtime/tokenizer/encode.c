#include "base/text.h"
#include "runtime/tokenizer/added.h"
#include "runtime/tokenizer/bpe.h"
#include "runtime/tokenizer/normalize.h"
#include "runtime/tokenizer/pattern.h"
#include "runtime/tokenizer/pretokenize.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

enum { FIRST_IDS = 1024 }; /* number of ids that a new encoder has memory for */

struct tokenizer_encoder *tokenizer_encoder_make(const struct tokenizer *tokenizer,
                                                 struct region *region) {
    struct tokenizer_encoder *encoder = region_alloc(region, 1, sizeof *encoder);
    encoder->tokenizer = tokenizer;
    encoder->region = region;
    encoder->cache = region_alloc(region, CACHE_SLOTS, sizeof *encoder->cache);
    encoder->matchers = region_alloc(region, STEPS_MAX, sizeof *encoder->matchers);
    encoder->ids.capacity = FIRST_IDS * sizeof(int32_t);
    encoder->ids.memory = region_alloc(region, FIRST_IDS, sizeof(int32_t));
    return encoder;
}

void tokenizer_encoder_watch_stop(struct tokenizer_encoder *encoder, tokenizer_stop *stops) {
    encoder->stops = stops;
}

void tokenizer_encoder_reserve(struct tokenizer_encoder *encoder, size_t text_bytes) {
    const struct tokenizer *tokenizer = encoder->tokenizer;
    size_t normal = normalize_bytes_max(tokenizer, text_bytes);
    size_t whole = prefixed_bytes_max(tokenizer, normal);
    bool is_reserved = bpe_reserve_scratch(encoder, 2 * whole);
    for (size_t i = 0; i < ARRAY_COUNT(encoder->normalized); i++) {
        is_reserved = is_reserved &&
                      (tokenizer->normalizer_step_count == 0 ||
                       scratch_reserve(&encoder->normalized[i], encoder->region, normal, 1, 0));
    }
    is_reserved = is_reserved &&
                  scratch_reserve(&encoder->points, encoder->region, unicode_nfc_points_max(normal),
                                  sizeof(uint32_t), 0) &&
                  scratch_reserve(&encoder->prefixed, encoder->region, whole, 1, 0) &&
                  scratch_reserve(&encoder->ids, encoder->region, 2 * whole + 2 * TEMPLATE_IDS_MAX,
                                  sizeof(int32_t), encoder->id_count * sizeof(int32_t));
    for (size_t i = 0; i < tokenizer->split_count; i++) {
        is_reserved = is_reserved &&
                      matcher_reserve(&encoder->matchers[i], &tokenizer->split[i], encoder, whole);
    }
    ASSERT(is_reserved); /* reserving memory can fail only after the seal */
}

/* Encodes a text without tokens of the raw set: normalizes it, and searches for tokens of the
 * normalized set. */
static enum status encode_part(struct tokenizer_encoder *encoder, const char *text, size_t bytes,
                               bool is_first, const struct tokenizer_options *options) {
    bool is_continued = is_first && options->is_continued;
    TRY(normalize(encoder, is_continued, &text, &bytes));
    struct added_walk walk = added_walk_over(encoder->tokenizer, &encoder->tokenizer->normalized,
                                             text, bytes, options->is_literal);
    struct added_part part;
    while (added_walk_next(&walk, &part)) {
        bool is_start = is_first && part.begin == 0;
        if (part.token != NULL) {
            TRY(bpe_append_id(encoder, part.token->id));
        } else {
            TRY(pretokenize(encoder, text + part.begin, part.end - part.begin, is_start,
                            is_start && options->is_continued));
        }
    }
    return OK;
}

static enum status encode(struct tokenizer_encoder *encoder, const char *text, size_t bytes,
                          const struct tokenizer_options *options) {
    const struct tokenizer *tokenizer = encoder->tokenizer;
    if (options->adds_special_tokens && !options->is_continued) {
        for (size_t i = 0; i < tokenizer->before_count; i++) {
            TRY(bpe_append_id(encoder, tokenizer->before[i]));
        }
    }
    struct added_walk walk =
        added_walk_over(tokenizer, &tokenizer->raw, text, bytes, options->is_literal);
    struct added_part part;
    while (added_walk_next(&walk, &part)) {
        if (part.token != NULL) {
            TRY(bpe_append_id(encoder, part.token->id));
        } else {
            TRY(encode_part(encoder, text + part.begin, part.end - part.begin, part.begin == 0,
                            options));
        }
    }
    if (options->adds_special_tokens && !options->has_more) {
        for (size_t i = 0; i < tokenizer->after_count; i++) {
            TRY(bpe_append_id(encoder, tokenizer->after[i]));
        }
    }
    return OK;
}

enum status tokenizer_check_text(const char *text, size_t bytes, struct fault *fault) {
    const size_t valid = utf8_valid_bytes(text, bytes);
    return valid == bytes ? OK
                          : fault_set(fault, STATUS_INPUT, "text", "convert it to UTF-8",
                                      "byte %zu is not UTF-8", valid);
}

enum status tokenizer_encode(struct tokenizer_encoder *encoder, const char *text, size_t bytes,
                             const struct tokenizer_options *options, struct token_list *list,
                             struct fault *fault) {
    ASSERT(bytes <= TOKENIZER_TEXT_BYTES_MAX);
    TRY(tokenizer_check_text(text, bytes, fault));
    encoder->fault = fault;
    encoder->id_count = 0;
    TRY(encode(encoder, text, bytes, options));
    *list = (struct token_list){.ids = encoder->ids.memory, .count = encoder->id_count};
    return OK;
}
