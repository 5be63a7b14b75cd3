#include "runtime/tokenizer/added.h"

#include "runtime/tokenizer/unicode/utf8.h"

#include <stdlib.h>
#include <string.h>

static int compare_matches(const void *a, const void *b) {
    const struct counted_text *left = &(*(const struct added_token *const *)a)->match;
    const struct counted_text *right = &(*(const struct added_token *const *)b)->match;
    size_t shorter = left->count < right->count ? left->count : right->count;
    int order = memcmp(left->bytes, right->bytes, shorter);
    return order != 0 ? order : (left->count > right->count) - (left->count < right->count);
}

bool added_set_make(const struct added_token **tokens, size_t count, struct region *region,
                    struct added_set *set) {
    const struct added_token **sorted = region_alloc(region, count, sizeof *sorted);
    if (count > 0) {
        memcpy(sorted, tokens, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_matches);
    }
    *set = (struct added_set){.tokens = sorted, .count = count};
    size_t at = 0;
    for (size_t byte = 0; byte < 256; byte++) {
        set->first[byte] = (uint32_t)at;
        while (at < count && (unsigned char)sorted[at]->match.bytes[0] == byte) {
            at++;
        }
    }
    set->first[256] = (uint32_t)at;
    bool is_unique = true;
    for (size_t i = 1; i < count; i++) {
        is_unique = is_unique && compare_matches(&sorted[i - 1], &sorted[i]) != 0;
    }
    return is_unique;
}

/* Returns the index of the first token in [low, high) whose byte at index `depth` is `byte` or
 * more, or `high` if there is none. Only the first token of the range may be too short to have this
 * byte. */
static size_t lower_bound(const struct added_set *set, size_t low, size_t high, size_t depth,
                          unsigned byte) {
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct counted_text *match = &set->tokens[middle]->match;
        bool is_below = match->count <= depth || (unsigned char)match->bytes[depth] < byte;
        low = is_below ? middle + 1 : low;
        high = is_below ? high : middle;
    }
    return low;
}

/* The longest token that text[at, end) begins with. */
static const struct added_token *longest_token_at(const struct added_set *set, const char *text,
                                                  size_t at, size_t end) {
    unsigned char first = (unsigned char)text[at];
    size_t low = set->first[first];
    size_t high = set->first[first + 1];
    const struct added_token *longest = NULL;
    for (size_t depth = 1; low < high; depth++) {
        if (set->tokens[low]->match.count == depth) {
            longest = set->tokens[low];
        }
        if (at + depth == end) {
            break;
        }
        unsigned byte = (unsigned char)text[at + depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1);
    }
    return longest;
}

const struct added_token *added_set_find(const struct added_set *set, const char *text, size_t from,
                                         size_t end, size_t *begin) {
    if (set->count == 0) {
        return NULL;
    }
    for (size_t at = from; at < end; at++) {
        unsigned char byte = (unsigned char)text[at];
        if (set->first[byte] == set->first[byte + 1]) {
            continue;
        }
        const struct added_token *token = longest_token_at(set, text, at, end);
        if (token != NULL) {
            *begin = at;
            return token;
        }
    }
    return NULL;
}

/* Whether the character at `at` is part of a word. */
static bool is_word_at(const struct tokenizer *tokenizer, const char *text, size_t at) {
    size_t length;
    uint8_t class_number = unicode_class(tokenizer->unicode, utf8_read(text + at, &length));
    return class_number != UNICODE_CONTROL_SPACE && (class_number & UNICODE_WORD) != 0;
}

/* Whether the character before `begin` or the character at `end` is part of a word. */
static bool is_within_word(const struct added_walk *walk, size_t begin, size_t end) {
    return (begin > 0 && is_word_at(walk->tokenizer, walk->text, utf8_before(walk->text, begin))) ||
           (end < walk->bytes && is_word_at(walk->tokenizer, walk->text, end));
}

static bool is_space_at(const struct added_walk *walk, size_t at, size_t *length) {
    return unicode_is_space(walk->tokenizer->unicode, utf8_read(walk->text + at, length));
}

/* The start of the white space that ends at `at`. */
static size_t spaces_begin(const struct added_walk *walk, size_t at) {
    size_t length;
    while (at > 0 && is_space_at(walk, utf8_before(walk->text, at), &length)) {
        at -= length;
    }
    return at;
}

/* The end of the white space that starts at `at`. */
static size_t spaces_end(const struct added_walk *walk, size_t at) {
    size_t length;
    while (at < walk->bytes && is_space_at(walk, at, &length)) {
        at += length;
    }
    return at;
}

struct added_walk added_walk_over(const struct tokenizer *tokenizer, const struct added_set *set,
                                  const char *text, size_t bytes, bool is_literal) {
    return (struct added_walk){
        .tokenizer = tokenizer, .set = set, .text = text, .bytes = bytes, .is_literal = is_literal};
}

/* Sets *part to the rest of the text, which has no added tokens, and ends the walk. Returns false
 * if no text is left. */
static bool take_rest(struct added_walk *walk, struct added_part *part) {
    walk->is_done = true;
    *part = (struct added_part){.begin = walk->part_begin, .end = walk->bytes};
    return walk->part_begin < walk->bytes;
}

/* If a token strips the white space after it, and the next token is white space, these tokens
 * overlap. As in the reference, the walk then moves back to the beginning of the next token, except
 * that a token with strips_left is left out when nothing of it remains. If more than it has been
 * stripped, the reference fails with the text; the token is then left out, too. */
bool added_walk_next(struct added_walk *walk, struct added_part *part) {
    if (walk->held != NULL) {
        *part = (struct added_part){.token = walk->held};
        walk->part_begin = walk->held_stop;
        walk->held = NULL;
        return true;
    }
    if (walk->is_done) {
        return false;
    }
    for (;;) {
        size_t begin;
        const struct added_token *token =
            added_set_find(walk->set, walk->text, walk->search_at, walk->bytes, &begin);
        if (token == NULL) {
            return take_rest(walk, part);
        }
        size_t end = begin + token->match.count;
        walk->search_at = end;
        if ((walk->is_literal && token->is_literal) ||
            (token->is_single_word && is_within_word(walk, begin, end))) {
            continue;
        }
        if (token->strips_left) {
            size_t stripped = spaces_begin(walk, begin);
            begin = stripped > walk->part_begin ? stripped : walk->part_begin;
        }
        end = token->strips_right ? spaces_end(walk, end) : end;
        if (begin >= end) {
            continue;
        }
        walk->held = token;
        walk->held_stop = end;
        if (walk->part_begin < begin) {
            *part = (struct added_part){.begin = walk->part_begin, .end = begin};
            return true;
        }
        *part = (struct added_part){.token = token};
        walk->part_begin = walk->held_stop;
        walk->held = NULL;
        return true;
    }
}
