/* Rare cases in which small tokenizers must give the ids of the reference. */
#include "tests/tokenizer/small_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* A tokenizer, a text, and the ids that the package tokenizers 0.23.3 gives it. */
struct example {
    struct parts parts;
    const char *text;
    size_t count;
    int32_t ids[5]; /* [count] */
};

static void check_examples(const struct example *examples, size_t count) {
    static const struct tokenizer_options OPTIONS;
    int failures = 0;
    for (size_t i = 0; i < count; i++) {
        const struct example *example = &examples[i];
        struct region region = {0};
        const struct tokenizer *tokenizer = NULL;
        struct token_list list;
        struct fault fault = {0};
        if (load_small(&example->parts, &region, &tokenizer, &fault) != OK) {
            fail_msg("row %zu: %s", i, fault.reason);
        }
        struct tokenizer_encoder *encoder = tokenizer_encoder_make(tokenizer, &region);
        assert_int_equal(tokenizer_encode(encoder, example->text, strlen(example->text), &OPTIONS,
                                          &list, &fault),
                         OK);
        if (list.count != example->count ||
            memcmp(list.ids, example->ids, list.count * sizeof *list.ids) != 0) {
            print_error("row %zu: other ids than expected, %zu of them\n", i, list.count);
            failures++;
        }
        tokenizer_finish(tokenizer);
        region_finish(&region);
    }
    assert_int_equal(failures, 0);
}

/* U+00B2 is part of \w, but not of [\w]. */
static void word_characters_in_brackets_are_those_of_the_reference(void **state) {
    (void)state;
#define WITH_SQUARE(regex)                                                                         \
    {                                                                                              \
        .pre_tokenizer = SPLIT(regex), .merges = "[[\"a\", \"\xc2\xb2\"]]",                        \
        .vocab = "{\"a\": 0, \"\xc2\xb2\": 1, \"a\xc2\xb2\": 2}"                                   \
    }
    static const char TEXT[] = "a\xc2\xb2\x61";
    static const struct example EXAMPLES[] = {
        {WITH_SQUARE("\\\\w+"), TEXT, 2, {2, 0}},
        {WITH_SQUARE("\\\\W+"), TEXT, 2, {2, 0}},
        {WITH_SQUARE("[\\\\w]+"), TEXT, 3, {0, 1, 0}},
        {WITH_SQUARE("[\\\\W]+"), TEXT, 3, {0, 1, 0}},
        {WITH_SQUARE("[^\\\\W]+"), TEXT, 3, {0, 1, 0}},
        {WITH_SQUARE("[^\\\\w\\\\s]+"), TEXT, 3, {0, 1, 0}},
        {WITH_SQUARE("[x]\\\\w+|\\\\w+"), TEXT, 2, {2, 0}},
    };
    check_examples(EXAMPLES, ARRAY_COUNT(EXAMPLES));
}

/* The package fails with the last text; it is treated as the one before it. */
static void tokens_of_stripped_white_space_are_left_out(void **state) {
    (void)state;
    static const char TAB[] = "[" TOKEN("6", "<s>", RSTRIP) ", " TOKEN("7", "\\t", LSTRIP) "]";
    static const char LINES[] = "[" TOKEN("6", "\\n\\n", RSTRIP LSTRIP) "]";
    static const struct example EXAMPLES[] = {
        {{.added = TAB}, "a<s>b\tb", 5, {0, 6, 1, 7, 1}},
        {{.added = LINES}, "a\n\n\n\nb", 3, {0, 6, 1}},
        {{.added = LINES}, "\n\n\n\n", 1, {6}},
        {{.added = TAB}, "a<s>\tb", 3, {0, 6, 1}},
        {{.added = TAB}, "a<s>\t\tb", 3, {0, 6, 1}},
    };
    check_examples(EXAMPLES, ARRAY_COUNT(EXAMPLES));
}

static void repeated_added_tokens_count_once(void **state) {
    (void)state;
    static const char MODEL_TOKEN[] = "[" TOKEN("0", "a", "") ", " TOKEN("0", "a", "") "]";
    static const char NEW_TOKENS[] = "[" TOKEN("6", "<s>", "") ", " TOKEN(
        "6", "<s>", "") ", " TOKEN("7", "<t>", "") ", " TOKEN("6", "<s>", "") "]";
    static const struct example EXAMPLES[] = {
        {{.added = MODEL_TOKEN}, "ab", 2, {0, 1}},
        {{.added = NEW_TOKENS}, "a<s><t>", 3, {0, 6, 7}},
    };
    check_examples(EXAMPLES, ARRAY_COUNT(EXAMPLES));
}

static void first_text_gets_its_prefix_after_a_normalizer(void **state) {
    (void)state;
    static const struct example EXAMPLES[] = {
        {{.normalizer = REPLACE("x", "b"), .pre_tokenizer = META_FIRST}, "xa", 3, {5, 1, 0}},
        {{.normalizer = "{\"type\": \"Prepend\", \"prepend\": \"c\"}", .pre_tokenizer = META_FIRST},
         "ab",
         3,
         {5, 2, 3}},
    };
    check_examples(EXAMPLES, ARRAY_COUNT(EXAMPLES));
}

int main(void) {
    static const struct CMUnitTest TESTS[] = {
        cmocka_unit_test(word_characters_in_brackets_are_those_of_the_reference),
        cmocka_unit_test(tokens_of_stripped_white_space_are_left_out),
        cmocka_unit_test(repeated_added_tokens_count_once),
        cmocka_unit_test(first_text_gets_its_prefix_after_a_normalizer),
    };
    return cmocka_run_group_tests(TESTS, make_small_folder, remove_small_folder);
}
