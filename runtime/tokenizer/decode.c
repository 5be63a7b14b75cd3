/* Decoding, id by id. A decoder of the reference is a list of steps over a list of texts. Here the
 * text of each token passes through all steps at once, and a step stores only what the texts of
 * later tokens can still change. */
#include "base/check.h"
#include "runtime/tokenizer/byte_level.h"
#include "runtime/tokenizer/normalize.h"
#include "runtime/tokenizer/parts.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */
enum { REPLACEMENT_BYTES = 3 };                   /* size of U+FFFD in UTF-8 */

struct tokenizer_decoder {
    const struct tokenizer *tokenizer;
    bool skips_special; /* whether special tokens are left out of the text */
    /* number of ids since tokenizer_decode_begin; maximum of this number */
    size_t id_count, ids_max;
    size_t token_count;   /* number of ids since tokenizer_decode_begin that have a token */
    char *texts[2];       /* [texts_bytes]: text of a token before and after a step */
    size_t texts_bytes;   /* capacity of each of `texts` */
    char *pending;        /* bytes of a character that is not complete */
    size_t pending_count; /* number of bytes in `pending` */
    /* by step: number of characters that a DECODE_STRIP has removed at the start of the whole
     * text */
    size_t stripped[STEPS_MAX];
    char *out;        /* text that tokenizer_decode_next or _end returns */
    size_t out_count; /* length of `out` in bytes */
};

/* The maximum size of the text of one token before and after any step. */
static size_t token_bytes_max(const struct tokenizer *tokenizer) {
    size_t bytes = UTF8_BYTES_MAX;
    for (int32_t id = 0; id < tokenizer->info.id_count; id++) {
        bytes = tokenizer->decoded[id].count > bytes ? tokenizer->decoded[id].count : bytes;
    }
    for (size_t i = 0; i < tokenizer->decode_count; i++) {
        const struct decode_step *step = &tokenizer->decode[i];
        if (step->kind == DECODE_REPLACE) {
            size_t after = replace_bytes_max(bytes, &step->pattern, &step->content);
            bytes = after > bytes ? after : bytes;
        }
    }
    return bytes;
}

static bool has_step(const struct tokenizer *tokenizer, enum decode_kind kind) {
    for (size_t i = 0; i < tokenizer->decode_count; i++) {
        if (tokenizer->decode[i].kind == kind) {
            return true;
        }
    }
    return false;
}

struct tokenizer_decoder *tokenizer_decoder_make(const struct tokenizer *tokenizer, size_t ids_max,
                                                 struct region *region) {
    struct tokenizer_decoder *decoder = region_alloc(region, 1, sizeof *decoder);
    size_t token_bytes = token_bytes_max(tokenizer);
    size_t pending = has_step(tokenizer, DECODE_BYTE_FALLBACK) ? ids_max : UTF8_BYTES_MAX;
    *decoder = (struct tokenizer_decoder){.tokenizer = tokenizer, .ids_max = ids_max};
    decoder->texts_bytes = token_bytes;
    for (size_t i = 0; i < ARRAY_COUNT(decoder->texts); i++) {
        decoder->texts[i] = region_alloc(region, token_bytes, 1);
    }
    decoder->pending = region_alloc(region, pending, 1);
    /* each byte may become U+FFFD; the last term is for spaces between tokens */
    decoder->out =
        region_alloc(region, REPLACEMENT_BYTES * (pending + token_bytes) + UTF8_BYTES_MAX, 1);
    return decoder;
}

void tokenizer_decode_begin(struct tokenizer_decoder *decoder, bool skips_special) {
    decoder->skips_special = skips_special;
    decoder->id_count = 0;
    decoder->token_count = 0;
    decoder->pending_count = 0;
    memset(decoder->stripped, 0, sizeof decoder->stripped);
    decoder->out_count = 0;
}

/* Appends the next part of the whole text to `out`. The only steps from `index` on that have an
 * effect are those that strip the beginning of the whole text. */
static void append_whole(struct tokenizer_decoder *decoder, size_t index, const char *text,
                         size_t count) {
    for (size_t i = index; i < decoder->tokenizer->decode_count; i++) {
        const struct decode_step *step = &decoder->tokenizer->decode[i];
        size_t length = step->content.count;
        while (step->kind == DECODE_STRIP && count > 0 && decoder->stripped[i] < step->start) {
            if (count < length || memcmp(text, step->content.bytes, length) != 0) {
                decoder->stripped[i] = step->start;
                break;
            }
            decoder->stripped[i]++;
            text += length;
            count -= length;
        }
    }
    memcpy(decoder->out + decoder->out_count, text, count);
    decoder->out_count += count;
}

/* Appends the characters of `bytes`, which follow the pending bytes, to `out`. `is_end`: no bytes
 * will follow these. */
static void append_bytes(struct tokenizer_decoder *decoder, size_t index, const char *bytes,
                         size_t count, bool is_end) {
    size_t at = 0;
    while (decoder->pending_count > 0 && (at < count || is_end)) {
        char joined[2 * UTF8_BYTES_MAX];
        size_t added = count - at < UTF8_BYTES_MAX ? count - at : UTF8_BYTES_MAX;
        memcpy(joined, decoder->pending, decoder->pending_count);
        memcpy(joined + decoder->pending_count, bytes + at, added);
        size_t taken;
        size_t length = utf8_check_character(joined, decoder->pending_count + added, &taken);
        if (length == 0 && !is_end && taken == decoder->pending_count + added) {
            memcpy(decoder->pending, joined, taken); /* still not complete */
            decoder->pending_count = taken;
            return;
        }
        append_whole(decoder, index, length > 0 ? joined : REPLACEMENT,
                     length > 0 ? length : REPLACEMENT_BYTES);
        /* `taken` includes the pending bytes, of which `bytes` has no copy */
        at += taken - decoder->pending_count;
        decoder->pending_count = 0;
    }
    while (at < count) {
        size_t valid = utf8_valid_bytes(bytes + at, count - at);
        append_whole(decoder, index, bytes + at, valid);
        at += valid;
        size_t taken;
        if (at == count || utf8_check_character(bytes + at, count - at, &taken) > 0) {
            continue;
        }
        if (!is_end && taken == count - at && utf8_can_begin(bytes[at])) {
            break;
        }
        append_whole(decoder, index, REPLACEMENT, REPLACEMENT_BYTES);
        at += taken;
    }
    memcpy(decoder->pending + decoder->pending_count, bytes + at, count - at);
    decoder->pending_count += count - at;
}

/* The text of one token without the characters that a DECODE_STRIP removes at its ends. */
static void strip_text(const struct decode_step *step, const char **text, size_t *count) {
    const struct counted_text *content = &step->content;
    const char *end = *text + *count;
    for (uint32_t i = 0; i < step->start && (size_t)(end - *text) >= content->count &&
                         memcmp(*text, content->bytes, content->count) == 0;
         i++) {
        *text += content->count;
    }
    *count = (size_t)(end - *text);
}

/* Applies the steps from `index` on to the text of one token, and appends the result to `out`. */
static void append_text(struct tokenizer_decoder *decoder, size_t index, const char *text,
                        size_t count) {
    const struct tokenizer *tokenizer = decoder->tokenizer;
    for (; index < tokenizer->decode_count; index++) {
        const struct decode_step *step = &tokenizer->decode[index];
        if (step->kind == DECODE_FUSE) {
            break;
        }
        if (step->kind == DECODE_STRIP) {
            strip_text(step, &text, &count);
        }
    }
    append_whole(decoder, index, text, count);
}

/* Appends the pending bytes, for which tokens such as <0x0A> stood: as text if they are valid
 * UTF-8, else as one U+FFFD for each byte. */
static void append_pending_bytes(struct tokenizer_decoder *decoder, size_t index) {
    size_t count = decoder->pending_count;
    decoder->pending_count = 0;
    if (utf8_valid_bytes(decoder->pending, count) == count) {
        if (count > 0) {
            append_text(decoder, index, decoder->pending, count);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        append_text(decoder, index, REPLACEMENT, REPLACEMENT_BYTES);
    }
}

static int hex_digit(char digit) {
    char small = digit >= 'A' && digit <= 'F' ? (char)(digit + ('a' - 'A')) : digit;
    return small >= '0' && small <= '9'   ? small - '0'
           : small >= 'a' && small <= 'f' ? small - 'a' + 10
                                          : -1;
}

/* The byte of a token such as <0x0A>, or -1 for any other token. The reference accepts <0x+A>
 * too. */
static int byte_of_token(const char *text, size_t count) {
    enum { TOKEN_BYTES = 6 }; /* length of "<0x0A>" */
    if (count != TOKEN_BYTES || memcmp(text, "<0x", 3) != 0 || text[TOKEN_BYTES - 1] != '>') {
        return -1;
    }
    int high = text[3] == '+' ? 0 : hex_digit(text[3]);
    int low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Replaces the character of Metaspace by a space, or by nothing in the first token. */
static size_t replace_meta(const struct decode_step *step, bool is_first, const char *text,
                           size_t count, char *out) {
    static const struct counted_text SPACE = {" ", 1};
    static const struct counted_text NOTHING = {"", 0};
    return replace_all(text, count, &step->content,
                       is_first && step->has_prefix ? &NOTHING : &SPACE, out);
}

static void decode_token(struct tokenizer_decoder *decoder, const char *text, size_t count) {
    const struct tokenizer *tokenizer = decoder->tokenizer;
    int target = 0;
    for (size_t i = 0; i < tokenizer->decode_count; i++) {
        const struct decode_step *step = &tokenizer->decode[i];
        char *out = decoder->texts[target];
        switch (step->kind) {
        case DECODE_REPLACE:
            count = replace_all(text, count, &step->pattern, &step->content, out);
            break;
        case DECODE_METASPACE:
            count = replace_meta(step, decoder->token_count == 0, text, count, out);
            break;
        case DECODE_STRIP:
            strip_text(step, &text, &count);
            continue;
        case DECODE_BYTE_FALLBACK: {
            int byte = byte_of_token(text, count);
            if (byte >= 0) {
                decoder->pending[decoder->pending_count++] = (char)byte;
                return;
            }
            append_pending_bytes(decoder, i + 1);
            append_text(decoder, i + 1, text, count);
            return;
        }
        case DECODE_BYTE_LEVEL: {
            int64_t bytes = byte_level_bytes(text, count, out);
            append_bytes(decoder, i + 1, bytes < 0 ? text : out, bytes < 0 ? count : (size_t)bytes,
                         false);
            return;
        }
        case DECODE_FUSE:
            append_whole(decoder, i + 1, text, count);
            return;
        }
        text = out;
        target = 1 - target;
    }
    append_whole(decoder, tokenizer->decode_count, text, count);
}

/* The text that the current call has added to `out`. */
static struct token_text output_of(const struct tokenizer_decoder *decoder) {
    return (struct token_text){.bytes = decoder->out, .count = decoder->out_count};
}

struct token_text tokenizer_decode_next(struct tokenizer_decoder *decoder, int32_t id) {
    const struct tokenizer *tokenizer = decoder->tokenizer;
    decoder->out_count = 0;
    ASSERT(decoder->id_count < decoder->ids_max);
    decoder->id_count++;
    if (id < 0 || id >= tokenizer->info.id_count || tokenizer->decoded[id].bytes == NULL ||
        (decoder->skips_special && tokenizer->is_skipped[id])) {
        return output_of(decoder);
    }
    const struct counted_text *text = &tokenizer->decoded[id];
    if (!tokenizer->has_decoder && decoder->token_count > 0) {
        append_whole(decoder, 0, " ", 1);
    }
    decode_token(decoder, text->bytes, text->count);
    decoder->token_count++;
    return output_of(decoder);
}

struct token_text tokenizer_decode_end(struct tokenizer_decoder *decoder) {
    const struct tokenizer *tokenizer = decoder->tokenizer;
    decoder->out_count = 0;
    for (size_t i = 0; i < tokenizer->decode_count; i++) {
        if (tokenizer->decode[i].kind == DECODE_BYTE_LEVEL) {
            append_bytes(decoder, i + 1, "", 0, true);
        } else if (tokenizer->decode[i].kind == DECODE_BYTE_FALLBACK) {
            append_pending_bytes(decoder, i + 1);
        }
    }
    return output_of(decoder);
}
