#include "runtime/tokenizer/pretokenize.h"

#include "runtime/tokenizer/bpe.h"
#include "runtime/tokenizer/normalize.h"
#include "runtime/tokenizer/pattern.h"
#include "runtime/tokenizer/scan.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

/* A piece of a text, and whether the pattern of its step matched it. */
struct piece {
    size_t begin, end; /* range of the level's text */
    bool is_match;     /* the pattern matched it */
};

/* The pieces of one span by one step. The steps are levels: the pieces of a level are the spans of
 * the next. */
struct level {
    struct tokenizer_encoder *encoder;
    const struct split_step *step; /* the step that divides the span */
    struct matcher *matcher;       /* SPLIT_PATTERN */
    const char *text;              /* the span, as a text of its own */
    size_t bytes;                  /* length of `text` */
    size_t at;                     /* position: all pieces before it have been taken */
    size_t match_begin, match_end; /* the next match, if knows_match */
    bool knows_match;              /* `match_begin` and `match_end` are set */
};

/* Returns the position of the first digit, as SPLIT_DIGITS defines it, at or after `at`. *length is
 * set to its size. */
static size_t digits_begin(const struct level *level, size_t at, size_t *length) {
    const struct unicode *unicode = level->encoder->tokenizer->unicode;
    while (at < level->bytes) {
        uint8_t class_number = unicode_class(unicode, utf8_read(level->text + at, length));
        if (class_number != UNICODE_CONTROL_SPACE && (class_number & UNICODE_NUMERIC) != 0) {
            break;
        }
        at += *length;
    }
    return at;
}

/* Returns the beginning of the next run of META_SPACE that follows another character, or the end of
 * the text. */
static size_t meta_begin(const struct level *level, size_t at) {
    const char *text = level->text;
    size_t bytes = level->bytes;
    while (at < bytes) {
        const char *found = memmem(text + at, bytes - at, META_SPACE, META_BYTES);
        size_t begin = found == NULL ? bytes : (size_t)(found - text);
        bool follows_meta = begin >= META_BYTES && begin < bytes &&
                            memcmp(text + begin - META_BYTES, META_SPACE, META_BYTES) == 0;
        if (begin > level->at && !follows_meta) {
            return begin;
        }
        at = begin + META_BYTES;
    }
    return bytes;
}

/* Finds the next match of the step at or after the position of the level. */
static enum status find_match(struct level *level) {
    const struct unicode *unicode = level->encoder->tokenizer->unicode;
    const struct split_step *step = level->step;
    const char *text = level->text;
    size_t at = level->at;
    size_t bytes = level->bytes;
    size_t length = 0;
    level->match_begin = at;
    switch (step->kind) {
    case SPLIT_GPT2:
        level->match_end = scan_gpt2(unicode, text, at, bytes);
        break;
    case SPLIT_LLAMA3:
        level->match_end = scan_llama3(unicode, step, text, at, bytes);
        break;
    case SPLIT_TEKKEN:
        level->match_end = scan_tekken(unicode, step, text, at, bytes);
        break;
    case SPLIT_META:
        level->match_end = meta_begin(level, at);
        break;
    case SPLIT_DIGITS:
        level->match_begin = digits_begin(level, at, &length);
        level->match_end = level->match_begin < bytes ? level->match_begin + length : bytes;
        break;
    case SPLIT_TEXT: {
        const char *found = memmem(text + at, bytes - at, step->text.bytes, step->text.count);
        level->match_begin = found == NULL ? bytes : (size_t)(found - text);
        level->match_end = found == NULL ? bytes : level->match_begin + step->text.count;
        break;
    }
    case SPLIT_PATTERN:
        TRY(matcher_find(level->matcher, at, &level->match_begin, &level->match_end,
                         level->encoder->fault));
        break;
    }
    level->knows_match = true;
    return OK;
}

/* Sets *piece to the next match or the text before it, without moving past it. *found is false at
 * the end. */
static enum status peek_piece(struct level *level, struct piece *piece, bool *found) {
    *found = level->at < level->bytes;
    if (!*found) {
        return OK;
    }
    if (!level->knows_match) {
        TRY(find_match(level));
    }
    bool is_match = level->match_begin == level->at;
    *piece = (struct piece){.begin = level->at,
                            .end = is_match ? level->match_end : level->match_begin,
                            .is_match = is_match != level->step->is_inverted};
    return OK;
}

/* Moves past a piece that peek_piece has set. */
static void consume_piece(struct level *level, const struct piece *piece) {
    level->knows_match = level->knows_match && piece->end <= level->match_begin;
    level->at = piece->end;
}

/* Whether the behavior adds the piece `next` to `piece`, which precedes it. */
static bool joins_pieces(enum split_behavior behavior, const struct piece *piece,
                         const struct piece *next) {
    switch (behavior) {
    case BEHAVIOR_CONTIGUOUS:
        return piece->is_match == next->is_match;
    case BEHAVIOR_MERGED_WITH_PREVIOUS:
        return !piece->is_match && next->is_match;
    case BEHAVIOR_MERGED_WITH_NEXT:
        return piece->is_match && !next->is_match;
    default:
        return false;
    }
}

/* Sets *piece to the next piece, joined with its neighbours as the step's behavior requires, and
 * moves past it. *found is false at the end. */
static enum status next_piece(struct level *level, struct piece *piece, bool *found) {
    enum split_behavior behavior = level->step->behavior;
    do {
        TRY(peek_piece(level, piece, found));
        if (!*found) {
            return OK;
        }
        consume_piece(level, piece);
    } while (behavior == BEHAVIOR_REMOVED && piece->is_match);
    bool has_next = behavior > BEHAVIOR_ISOLATED;
    while (has_next) {
        struct piece next;
        TRY(peek_piece(level, &next, &has_next));
        if (!has_next || !joins_pieces(behavior, piece, &next)) {
            break;
        }
        consume_piece(level, &next);
        piece->end = next.end;
        has_next = behavior == BEHAVIOR_CONTIGUOUS;
    }
    return OK;
}

static enum status open_level(struct tokenizer_encoder *encoder, size_t depth, const char *text,
                              size_t bytes, struct level *level) {
    const struct split_step *step = &encoder->tokenizer->split[depth];
    *level = (struct level){.encoder = encoder,
                            .step = step,
                            .matcher = &encoder->matchers[depth],
                            .text = text,
                            .bytes = bytes};
    if (step->kind == SPLIT_PATTERN) {
        TRY(matcher_open(level->matcher, step->regex, encoder, text, bytes));
    }
    return OK;
}

/* Splits a text into words by all steps, and appends the ids of each word. */
static enum status encode_words(struct tokenizer_encoder *encoder, const char *text, size_t bytes) {
    size_t count = encoder->tokenizer->split_count;
    struct level levels[STEPS_MAX];
    if (count == 0) {
        return bpe_encode_word(encoder, text, bytes);
    }
    size_t depth = 0;
    TRY(open_level(encoder, 0, text, bytes, &levels[0]));
    for (;;) {
        struct piece piece;
        bool found;
        struct level *level = &levels[depth];
        TRY(next_piece(level, &piece, &found));
        if (!found) {
            if (depth == 0) {
                return OK;
            }
            depth--;
        } else if (depth + 1 == count) {
            TRY(bpe_encode_word(encoder, level->text + piece.begin, piece.end - piece.begin));
        } else {
            depth++;
            TRY(open_level(encoder, depth, level->text + piece.begin, piece.end - piece.begin,
                           &levels[depth]));
        }
    }
}

size_t prefixed_bytes_max(const struct tokenizer *tokenizer, size_t bytes) {
    return tokenizer->prefix_text.count +
           bytes * (tokenizer->meta.count > 0 ? tokenizer->meta.count : 1);
}

enum status pretokenize(struct tokenizer_encoder *encoder, const char *text, size_t bytes,
                        bool is_first, bool is_continued) {
    static const struct counted_text SPACE = {" ", 1};
    const struct tokenizer *tokenizer = encoder->tokenizer;
    const struct counted_text *prefix = &tokenizer->prefix_text;
    const struct counted_text *meta = &tokenizer->meta;
    bool begins_with_prefix = prefix->count > 0 && bytes >= prefix->count &&
                              memcmp(text, prefix->bytes, prefix->count) == 0;
    begins_with_prefix = begins_with_prefix || (meta->count > 0 && text[0] == ' ');
    bool has_prefix =
        !is_continued && !begins_with_prefix &&
        (tokenizer->prefix == PREFIX_ALWAYS || (tokenizer->prefix == PREFIX_FIRST && is_first));
    bool has_spaces = meta->count > 0 && memchr(text, ' ', bytes) != NULL;
    if (!has_prefix && !has_spaces) {
        return encode_words(encoder, text, bytes);
    }
    if (!scratch_reserve(&encoder->prefixed, encoder->region, prefixed_bytes_max(tokenizer, bytes),
                         1, 0)) {
        return encoder_full_fault(encoder);
    }
    char *out = encoder->prefixed.memory;
    size_t filled = has_prefix ? prefix->count : 0;
    memcpy(out, prefix->bytes, filled);
    if (has_spaces) {
        filled += replace_all(text, bytes, &SPACE, meta, out + filled);
    } else {
        memcpy(out + filled, text, bytes);
        filled += bytes;
    }
    return encode_words(encoder, out, filled);
}
