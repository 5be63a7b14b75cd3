/* Where a document may be divided without a change of its ids. */
#include "runtime/tokenizer/load.h"
#include "runtime/tokenizer/scan.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

static bool text_equals(const struct counted_text *text, const char *expected) {
    return text->count == strlen(expected) && memcmp(text->bytes, expected, text->count) == 0;
}

/* Whether the step is a published pattern, which a function of scan.h matches. */
static bool is_published_pattern(const struct split_step *step) {
    return step->kind == SPLIT_GPT2 || step->kind == SPLIT_LLAMA3 || step->kind == SPLIT_TEKKEN;
}

/* Whether a token has white space after another character, so that it may lie across the position
 * of a division. */
static bool has_inner_space(const struct tokenizer *tokenizer, const struct counted_text *text) {
    bool follows_other = false;
    for (size_t at = 0; at < text->count;) {
        size_t length;
        bool is_space = unicode_is_space(tokenizer->unicode, utf8_read(text->bytes + at, &length));
        bool is_meta = length == META_BYTES && memcmp(text->bytes + at, META_SPACE, length) == 0;
        if ((is_space || is_meta) && follows_other) {
            return true;
        }
        follows_other = follows_other || !(is_space || is_meta);
        at += length;
    }
    return false;
}

/* Whether no added token can lie across a position between words. */
static bool added_tokens_allow_division(const struct tokenizer *tokenizer) {
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const struct added_token *token = &tokenizer->added[i];
        if (has_inner_space(tokenizer, &token->text) || has_inner_space(tokenizer, &token->match) ||
            token->is_single_word) {
            return false;
        }
    }
    return true;
}

/* Whether no merge crosses the beginning of a run of META_SPACE, because no merged token has
 * META_SPACE after another character. META_SPACE must also be a token, so that it ends a run of
 * unknown characters. */
static bool merges_keep_words(const struct bpe_model *model) {
    const struct vocabulary *vocabulary = &model->vocabulary;
    if (vocabulary_find(vocabulary, META_SPACE, META_BYTES) == VOCABULARY_ABSENT ||
        model->ignores_merges) {
        return false;
    }
    for (uint64_t slot = 0; slot <= model->merges.mask; slot++) {
        if (model->merges.slots[slot].rank == VOCABULARY_NO_MERGE) {
            continue;
        }
        size_t count = 0;
        const char *text = vocabulary_text(vocabulary, model->merges.slots[slot].merged, &count);
        size_t run = 0;
        while (count - run >= META_BYTES && memcmp(text + run, META_SPACE, META_BYTES) == 0) {
            run += META_BYTES;
        }
        if (memmem(text + run, count - run, META_SPACE, META_BYTES) != NULL) {
            return false;
        }
    }
    return true;
}

/* Whether META_SPACE replaces all spaces before the text is split. */
static bool replaces_spaces(const struct tokenizer *tokenizer) {
    for (size_t i = 0; i < tokenizer->normalizer_step_count; i++) {
        const struct normalizer_step *step = &tokenizer->normalizer_steps[i];
        if (step->kind == NORMALIZE_REPLACE && text_equals(&step->pattern, " ") &&
            text_equals(&step->content, META_SPACE)) {
            return true;
        }
    }
    return text_equals(&tokenizer->meta, META_SPACE);
}

/* Removes the steps that search for a space, if META_SPACE has replaced all spaces before them. */
static void drop_idle_splits(struct tokenizer *tokenizer) {
    size_t kept = 0;
    for (size_t i = 0; i < tokenizer->split_count; i++) {
        const struct split_step *step = &tokenizer->split[i];
        bool is_idle = step->kind == SPLIT_TEXT && text_equals(&step->text, " ") &&
                       !step->is_inverted && replaces_spaces(tokenizer);
        if (!is_idle) {
            tokenizer->split[kept++] = *step;
        }
    }
    tokenizer->split_count = kept;
}

/* Whether the normalizer replaces single characters only. */
static bool normalizer_allows_division(const struct tokenizer *tokenizer) {
    for (size_t i = 0; i < tokenizer->normalizer_step_count; i++) {
        const struct normalizer_step *step = &tokenizer->normalizer_steps[i];
        if (step->kind == NORMALIZE_REPLACE &&
            step->pattern.count != utf8_length(step->pattern.bytes[0])) {
            return false;
        }
    }
    return true;
}

void load_split_rule(struct tokenizer *tokenizer) {
    struct split_rule *rule = &tokenizer->rule;
    drop_idle_splits(tokenizer);
    bool keeps_words = replaces_spaces(tokenizer) && !tokenizer->model.is_byte_level &&
                       merges_keep_words(&tokenizer->model);
    if (keeps_words && tokenizer->split_count < STEPS_MAX) {
        /* shorter words are merged faster, and can be found in the cache */
        tokenizer->split[tokenizer->split_count++] =
            (struct split_step){.kind = SPLIT_META, .behavior = BEHAVIOR_ISOLATED};
    }
    bool scans = tokenizer->split_count > 0;
    bool has_scanner = false;
    for (size_t i = 0; i < tokenizer->split_count; i++) {
        const struct split_step *step = &tokenizer->split[i];
        scans = scans && (is_published_pattern(step) || step->kind == SPLIT_DIGITS ||
                          step->kind == SPLIT_META ||
                          (step->kind == SPLIT_TEXT && text_equals(&step->text, META_SPACE) &&
                           step->behavior == BEHAVIOR_MERGED_WITH_NEXT && !step->is_inverted));
        has_scanner = has_scanner || is_published_pattern(step) || step->kind == SPLIT_META ||
                      step->kind == SPLIT_TEXT;
    }
    bool allows = scans && has_scanner && added_tokens_allow_division(tokenizer) &&
                  normalizer_allows_division(tokenizer);
    const struct split_step *first = &tokenizer->split[0];
    rule->allows_space = allows;
    rule->allows_newline = allows && is_published_pattern(first);
    rule->needs_one_newline = first->kind == SPLIT_GPT2;
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const struct counted_text *text = &tokenizer->added[i].text;
        rule->begins[(unsigned char)text->bytes[0]] = true;
        rule->ends[(unsigned char)text->bytes[text->count - 1]] = true;
    }
}

bool tokenizer_can_split(const struct tokenizer *tokenizer) {
    return tokenizer->rule.allows_space;
}

/* Whether the document may be divided before text[at], where a space or a letter follows. */
static bool may_divide_at(const struct tokenizer *tokenizer, const char *text, size_t at) {
    const struct split_rule *rule = &tokenizer->rule;
    size_t previous = utf8_before(text, at);
    size_t length;
    uint32_t before = utf8_read(text + previous, &length);
    bool is_meta = length == META_BYTES && memcmp(text + previous, META_SPACE, length) == 0;
    if (rule->ends[(unsigned char)text[at - 1]] || rule->begins[(unsigned char)text[at]]) {
        return false;
    }
    if (text[at] == ' ') {
        return !is_meta && !unicode_is_space(tokenizer->unicode, before);
    }
    uint32_t next = utf8_read(text + at, &length);
    if (!rule->allows_newline || before != '\n' ||
        (unicode_kind(tokenizer->unicode, next) & KIND_LETTER) == 0 ||
        unicode_form(tokenizer->unicode, next) != 0) {
        return false;
    }
    if (!rule->needs_one_newline) {
        return true;
    }
    return previous > 0 &&
           !unicode_is_space(tokenizer->unicode,
                             utf8_read(text + utf8_before(text, previous), &length));
}

size_t tokenizer_split_position(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                                size_t limit) {
    ASSERT(limit < bytes);
    if (!tokenizer->rule.allows_space) {
        return 0;
    }
    for (size_t at = limit; at > 0; at--) {
        if ((text[at] == ' ' || text[at - 1] == '\n') && may_divide_at(tokenizer, text, at)) {
            return at;
        }
    }
    return 0;
}
