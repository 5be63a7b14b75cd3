/* Loading: files that are rejected, with the words of their faults; roles of tokens; patterns where
 * memory cannot be made executable. */
#include "runtime/tokenizer/tokenizer.h"
#include "tests/tokenizer/executable_memory.h"
#include "tests/tokenizer/small_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CANNOT_REFUSE = 255, HAS_CODE = 254 };

/* A template that puts the token with this id before a text. */
#define TEMPLATE(id)                                                                               \
    "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, "      \
    "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<s>\": {\"ids\": [" id "]}}}"

struct rejected {
    struct parts parts;
    const char *reason; /* part of the fault's reason */
};

static void check_rejected(const struct rejected *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct region region = {0};
        const struct tokenizer *tokenizer = NULL;
        struct fault fault = {0};
        assert_int_equal(load_small(&rows[i].parts, &region, &tokenizer, &fault), STATUS_INPUT);
        assert_null(tokenizer);
        if (strstr(fault.reason, rows[i].reason) == NULL) {
            fail_msg("row %zu: '%s' is not in '%s'", i, rows[i].reason, fault.reason);
        }
        assert_non_null(strstr(fault.subject, "tokenizer.json"));
        region_finish(&region);
    }
}

static void unsupported_parts_are_rejected_by_name(void **state) {
    (void)state;
    static const struct rejected ROWS[] = {
        {{.normalizer = "{\"type\": \"NFKC\"}"}, "`normalizer` is a NFKC"},
        {{.normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Lowercase\"}]}"},
         "`normalizer.normalizers[0]` is a Lowercase"},
        {{.normalizer = "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a\"}, "
                        "\"content\": \"\"}"},
         "a Regex in Replace"},
        {{.normalizer = "{\"type\": \"Prepend\", \"prepend\": \"\"}"}, "an empty prepend"},
        {{.normalizer = REPLACE("aa", "b"), .pre_tokenizer = META_FIRST},
         "`pre_tokenizer` has prepend_scheme first after this normalizer"},
        {{.normalizer = REPLACE("a", ""), .pre_tokenizer = META_FIRST}, "prepend_scheme first"},
        {{.normalizer = REPLACE("a", "bb"), .pre_tokenizer = META_FIRST}, "prepend_scheme first"},
        {{.normalizer = "{\"type\": \"NFC\"}", .pre_tokenizer = META_FIRST},
         "prepend_scheme first"},
        {{.pre_tokenizer = "{\"type\": \"Whitespace\"}"}, "is a Whitespace"},
        {{.pre_tokenizer = SPLIT("a*")}, "matches an empty text"},
        {{.pre_tokenizer = SPLIT("^a")}, "a character that must be escaped at '^a'"},
        {{.pre_tokenizer = SPLIT("\\\\p{Han}")}, "a property other than a general category"},
        {{.pre_tokenizer = SPLIT("(a)\\\\1")}, "an escape at '\\1'"},
        {{.pre_tokenizer = SPLIT("[a[b]]")}, "a class with this part at '[b]]'"},
        {{.pre_tokenizer = SPLIT("[a&&b]")}, "a class with this part at '&&b]'"},
        {{.pre_tokenizer = SPLIT("(?i:ss)")}, "letters of a ligature"},
        {{.pre_tokenizer = SPLIT("(?i:[a-z])")}, "(?i: with a class"},
        {{.pre_tokenizer = SPLIT("(a")}, "a group without a closing bracket"},
        {{.pre_tokenizer = SPLIT("a{2,1}")}, "a repetition"},
        {{.pre_tokenizer = SPLIT("\\\\h")}, "an escape at '\\h'"},
        {{.pre_tokenizer = "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"},"
                           " {\"type\": \"Digits\"}]}"},
         "ByteLevel before another step"},
        {{.post_processor = "{\"type\": \"RobertaProcessing\"}"}, "is a RobertaProcessing"},
        {{.vocab = "{\"a\": 0, \"b\": 2}", .merges = "[]", .post_processor = TEMPLATE("1")},
         "an id without a token"},
        {{.decoder = "{\"type\": \"WordPiece\"}"}, "`decoder` is a WordPiece"},
        {{.decoder = "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, "
                     "{\"type\": \"ByteFallback\"}]}"},
         "these decoders in this order"},
        {{.decoder = "{\"type\": \"Strip\", \"content\": \" \", \"start\": 0, \"stop\": 1}"},
         "a Strip at the end, or of several characters"},
    };
    check_rejected(ROWS, ARRAY_COUNT(ROWS));
}

static void unsupported_models_and_added_tokens_are_rejected_by_name(void **state) {
    (void)state;
    static const struct rejected ROWS[] = {
        {{.options = "\"type\": \"Unigram\""}, "`model.type` is Unigram"},
        {{.options = "\"type\": \"BPE\", \"dropout\": 0.1"}, "`model.dropout` is set"},
        {{.options = "\"type\": \"BPE\", \"end_of_word_suffix\": \"</w>\""},
         "`model.end_of_word_suffix` is set"},
        {{.options = "\"type\": \"BPE\", \"unk_token\": \"<unk>\""},
         "`model.unk_token` '<unk>' is not in the vocabulary"},
        {{.vocab = "{\"a\": 0, \"b\": 0, \"ab\": 1}"}, "the text or id of 'b' occurs twice"},
        {{.vocab = "{\"a\": -1}"}, "expected a whole number"},
        {{.vocab = "{\"a\": 99999999}"}, "'a' has the id 99999999"},
        {{.vocab = "{\"a\": 9999999}"}, "'a' has the id 9999999, but there are 1 tokens"},
        {{.merges = "[[\"a\", \"c\"]]"}, "'a' + 'c': not all three are in the vocabulary"},
        {{.merges = "[\"a b c\"]"}, "'a b c' is not two tokens"},
        {{.merges = "[[\"a\"]]"}, "of `model.merges`"},
        {{.added = "[" TOKEN("7", "<s>", "") "]"},
         "has the id 7, but the tokenizers package gives it 6"},
        {{.added = "[" TOKEN("6", "<s>", "") ", " TOKEN("7", "<s>", "") "]"}, "have the same text"},
        {{.added = "[" TOKEN("6", "<s>", "") ", " TOKEN("6", "<s>", RSTRIP) "]"},
         "have the same text"},
        {{.added = "[" TOKEN("6", "<s>", "") ", " TOKEN("6", "<t>", "") "]"},
         "but the tokenizers package gives it 7"},
        {{.added = "[{\"id\": 6}]"}, "content"},
    };
    check_rejected(ROWS, ARRAY_COUNT(ROWS));
}

static void other_files_are_rejected_with_the_remedy(void **state) {
    (void)state;
    static const struct {
        const char *file, *reason, *remedy;
    } ROWS[] = {
        {"tokenizer.model", "does not exist, only tokenizer.model", "save_pretrained"},
        {"tekken.json", "does not exist, only tekken.json", "tokenizer.json"},
        {"vocab.json", "does not exist, only vocab.json", "save_pretrained"},
        {NULL, "does not exist", "download the model with its tokenizer"},
    };
    remove_small_file("tokenizer.json");
    assert_false(tokenizer_exists(small_folder()));
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct region region = {0};
        const struct tokenizer *tokenizer;
        struct fault fault;
        if (ROWS[i].file != NULL) {
            write_small_file(ROWS[i].file, "{}");
        }
        assert_int_equal(tokenizer_load(small_folder(), &region, &tokenizer, &fault), STATUS_INPUT);
        assert_non_null(strstr(fault.reason, ROWS[i].reason));
        assert_non_null(strstr(fault.remedy, ROWS[i].remedy));
        if (ROWS[i].file != NULL) {
            remove_small_file(ROWS[i].file);
        }
        region_finish(&region);
    }
}

static void roles_come_from_the_files_beside_it(void **state) {
    (void)state;
    static const struct parts PARTS = {
        .added = "[" TOKEN("6", "<|endoftext|>", "") ", " TOKEN("7", "<|im_end|>", "") "]"};
    struct region region = {0};
    const struct tokenizer *tokenizer;
    struct fault fault;
    write_small_file("tokenizer_config.json",
                     "{\"bos_token\": null, \"eos_token\": {\"content\": \"<|im_end|>\"}}");
    write_small_file("special_tokens_map.json", "{\"pad_token\": \"c\", \"eos_token\": \"a\"}");
    assert_int_equal(load_small(&PARTS, &region, &tokenizer, &fault), OK);
    const struct tokenizer_info *info = tokenizer_info(tokenizer);
    assert_int_equal(info->bos_id, TOKENIZER_NO_ID);
    assert_int_equal(info->eos_id, 7);
    assert_int_equal(info->pad_id, 2);
    assert_int_equal(info->document_id, 6);
    assert_int_equal(info->id_count, 8);
    assert_int_equal(info->token_count, 8);
    assert_int_equal(info->added_count, 2);
    assert_int_equal(info->merge_count, 1);
    assert_true(tokenizer_is_special(tokenizer, 7));
    assert_false(tokenizer_is_special(tokenizer, 0));
    assert_int_equal(tokenizer_token_id(tokenizer, "ab", 2), 3);
    assert_int_equal(tokenizer_token_id(tokenizer, "<|im_end|>", 10), 7);
    assert_int_equal(tokenizer_token_id(tokenizer, "x", 1), TOKENIZER_NO_ID);
    struct token_text text = tokenizer_token_text(tokenizer, 6);
    assert_int_equal(text.count, strlen("<|endoftext|>"));
    size_t at;
    static const char WITH_TOKEN[] = "ab<|im_end|>c";
    assert_int_equal(tokenizer_find_special(tokenizer, WITH_TOKEN, strlen(WITH_TOKEN), &at), 7);
    assert_int_equal(at, 2);
    assert_int_equal(tokenizer_find_special(tokenizer, "ab", 2, &at), TOKENIZER_NO_ID);
    remove_small_file("tokenizer_config.json");
    remove_small_file("special_tokens_map.json");
    region_finish(&region);
}

static void ill_formed_text_is_rejected_with_its_position(void **state) {
    (void)state;
    static const struct parts PARTS;
    static const struct tokenizer_options OPTIONS;
    static const struct {
        const char *text;
        size_t valid;
    } ROWS[] = {{"ab\xff", 2},       {"abcabcabc\xc3", 9},
                {"\xed\xa0\x80", 0}, {"a\xf4\x90\x80\x80", 1},
                {"\xc0\x80", 0},     {"a\xe2\x82g", 1}};
    struct region region = {0};
    const struct tokenizer *tokenizer;
    struct token_list list;
    struct fault fault;
    assert_int_equal(load_small(&PARTS, &region, &tokenizer, &fault), OK);
    struct tokenizer_encoder *encoder = tokenizer_encoder_make(tokenizer, &region);
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "byte %zu is not UTF-8", ROWS[i].valid);
        assert_int_equal(
            tokenizer_encode(encoder, ROWS[i].text, strlen(ROWS[i].text), &OPTIONS, &list, &fault),
            STATUS_INPUT);
        assert_string_equal(fault.reason, expected);
    }
    region_finish(&region);
}

/* Encodes a text with a pattern that PCRE2 matches, and returns a number for the ids.
 * has_code  set to whether the pattern is machine code */
static unsigned ids_of_pattern(bool *has_code) {
    static const struct parts PARTS = {.pre_tokenizer = SPLIT("\\\\s?[^\\\\s\\\\p{Lu}]+|\\\\w")};
    static const struct tokenizer_options OPTIONS;
    static const char TEXT[] = "ab cab abab  bba\xe2\x96\x81 abcabcabc";
    struct region region = {0};
    const struct tokenizer *tokenizer;
    struct token_list list;
    struct fault fault;
    assert_int_equal(load_small(&PARTS, &region, &tokenizer, &fault), OK);
    struct tokenizer_encoder *encoder = tokenizer_encoder_make(tokenizer, &region);
    assert_int_equal(tokenizer_encode(encoder, TEXT, strlen(TEXT), &OPTIONS, &list, &fault), OK);
    unsigned sum = 1;
    for (size_t i = 0; i < list.count; i++) {
        sum = (sum * 31 + (unsigned)list.ids[i]) % 127;
    }
    *has_code = has_generated_code();
    tokenizer_finish(tokenizer);
    region_finish(&region);
    return sum;
}

/* Runs a function in a process that cannot make memory executable, and returns its result. It must
 * run before this process has compiled a pattern. Skips the test where the kernel cannot refuse. */
static int result_without_executable_memory(unsigned (*function)(bool *has_code)) {
    int status;
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool has_code;
        if (!refuse_executable_memory()) {
            _exit(CANNOT_REFUSE);
        }
        unsigned result = function(&has_code);
        _exit(has_code ? HAS_CODE : (int)result);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CANNOT_REFUSE) {
        skip();
    }
    return WEXITSTATUS(status);
}

/* Encodes a text whose pattern repeats a group after the seal, and again before it. Returns the two
 * statuses as digits. */
static unsigned statuses_of_repeated_group(bool *has_code) {
    static const struct parts PARTS = {.pre_tokenizer = SPLIT("(?:a|b)+c?")};
    static const struct tokenizer_options OPTIONS;
    static char text[1 << 14];
    struct region region = {0};
    const struct tokenizer *tokenizer;
    struct token_list list;
    struct fault fault;
    memset(text, 'a', sizeof text);
    assert_int_equal(load_small(&PARTS, &region, &tokenizer, &fault), OK);
    struct tokenizer_encoder *encoder = tokenizer_encoder_make(tokenizer, &region);
    tokenizer_encoder_reserve(encoder, sizeof text);
    process_seal();
    enum status sealed = tokenizer_encode(encoder, text, sizeof text, &OPTIONS, &list, &fault);
    process_unseal();
    enum status open = tokenizer_encode(encoder, text, sizeof text, &OPTIONS, &list, &fault);
    *has_code = has_generated_code();
    tokenizer_finish(tokenizer);
    region_finish(&region);
    return 10 * (unsigned)sealed + (unsigned)open;
}

static void interpreted_pattern_that_needs_more_memory_is_rejected_after_the_seal(void **state) {
    (void)state;
    assert_int_equal(result_without_executable_memory(statuses_of_repeated_group),
                     10 * STATUS_FIT + OK);
}

static void patterns_match_without_executable_memory(void **state) {
    (void)state;
    bool has_code;
    int result = result_without_executable_memory(ids_of_pattern);
    assert_int_equal(result, ids_of_pattern(&has_code));
    if (!has_code) {
        print_message("this PCRE2 never makes machine code\n");
    }
}

static bool stops_now(void) {
    return true;
}

static void a_long_word_ends_early_on_a_stop(void **state) {
    (void)state;
    static const struct parts PARTS = {.pre_tokenizer = NULL};
    static const struct tokenizer_options OPTIONS;
    static char text[1 << 14];
    struct region region = {0};
    const struct tokenizer *tokenizer;
    struct token_list list;
    struct fault fault;
    memset(text, 'a', sizeof text);
    assert_int_equal(load_small(&PARTS, &region, &tokenizer, &fault), OK);
    struct tokenizer_encoder *encoder = tokenizer_encoder_make(tokenizer, &region);
    assert_int_equal(tokenizer_encode(encoder, text, sizeof text, &OPTIONS, &list, &fault), OK);
    tokenizer_encoder_watch_stop(encoder, stops_now);
    assert_int_equal(tokenizer_encode(encoder, text, sizeof text, &OPTIONS, &list, &fault),
                     STATUS_STOPPED);
    assert_int_equal(tokenizer_encode(encoder, text, 2, &OPTIONS, &list, &fault), OK);
    tokenizer_finish(tokenizer);
    region_finish(&region);
}

int main(void) {
    static const struct CMUnitTest TESTS[] = {
        /* first, before any pattern is compiled */
        cmocka_unit_test(interpreted_pattern_that_needs_more_memory_is_rejected_after_the_seal),
        cmocka_unit_test(patterns_match_without_executable_memory),
        cmocka_unit_test(a_long_word_ends_early_on_a_stop),
        cmocka_unit_test(unsupported_parts_are_rejected_by_name),
        cmocka_unit_test(unsupported_models_and_added_tokens_are_rejected_by_name),
        cmocka_unit_test(other_files_are_rejected_with_the_remedy),
        cmocka_unit_test(roles_come_from_the_files_beside_it),
        cmocka_unit_test(ill_formed_text_is_rejected_with_its_position),
    };
    return cmocka_run_group_tests(TESTS, make_small_folder, remove_small_folder);
}
