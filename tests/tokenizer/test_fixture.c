/* A fixture of make_fixtures.py: encoding and decoding give the digests of the reference's results.
 * Also what follows from them: documents that are divided give the same ids, decoded pieces are
 * whole characters, and nothing is allocated after the seal. With the argument `interpreted` all of
 * this runs without executable memory, so that PCRE2 interprets the patterns. */
#include "base/file.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/text.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/unicode/utf8.h"
#include "tests/tokenizer/executable_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    PATH_CAPACITY = 1024,
    FILE_MAX = 1 << 24,
    DIGEST_BYTES = 17,
    GROUP = 8, /* texts under one digest: GROUP of make_fixtures.py, and so on */
    RANDOM_LISTS = 1000,
    LISTS_A_LINE = 100,
    IDS_MAX = 30,
    SCALARS_A_TEXT = 64,
    TEXTS_A_LINE = 64,
    SCALAR_TEXT_BYTES = SCALARS_A_TEXT * 48,
    DECODED_MAX = 1 << 22,
    SKIPPED = 77, /* exit code */
};

struct fixture {
    struct region region;
    const struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    struct tokenizer_decoder *decoder;
    char *expected; /* expected.txt, with a line feed before it */
    struct json_document document;
    struct json_node texts;
    size_t text_count;
    char *decoded; /* [DECODED_MAX] */
};

static const char *folder;
static bool is_interpreted;

static const char *text_at(const struct fixture *fixture, size_t index) {
    struct json_node node = json_element(&fixture->texts, index);
    struct fault fault;
    const char *text;
    assert_int_equal(json_as_text(&node, &text, &fault), OK);
    return text;
}

static char *read_file(struct region *region, const char *name, size_t *length) {
    char path[PATH_CAPACITY];
    char *text;
    struct fault fault;
    path_join(folder, name, path, sizeof path);
    if (file_read_into_region(path, FILE_MAX, region, &text, length, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return text;
}

static int open_fixture(void **state) {
    struct fixture *fixture = test_calloc(1, sizeof *fixture);
    struct fault fault;
    size_t length;
    if (tokenizer_load(folder, &fixture->region, &fixture->tokenizer, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    fixture->encoder = tokenizer_encoder_make(fixture->tokenizer, &fixture->region);
    fixture->decoder = tokenizer_decoder_make(fixture->tokenizer, 1 << 16, &fixture->region);
    const char *expected = read_file(&fixture->region, "expected.txt", &length);
    fixture->expected = region_alloc(&fixture->region, length + 2, 1);
    (void)snprintf(fixture->expected, length + 2, "\n%s", expected);
    const char *texts = read_file(&fixture->region, "../texts.json", &length);
    assert_int_equal(json_parse(texts, length, length, "texts.json", &fixture->document, &fault),
                     OK);
    assert_int_equal(
        json_get_array(&fixture->document.root, "texts", &fixture->texts, NULL, &fault), OK);
    fixture->text_count = json_child_count(&fixture->texts);
    fixture->decoded = region_alloc(&fixture->region, DECODED_MAX, 1);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state) {
    struct fixture *fixture = *state;
    json_finish(&fixture->document);
    tokenizer_finish(fixture->tokenizer);
    region_finish(&fixture->region);
    test_free(fixture);
    return 0;
}

/* The digest in the line "KEY INDEX DIGEST"; NULL: no such line. */
static const char *expected_digest(const struct fixture *fixture, const char *key, size_t index) {
    char line[64];
    (void)snprintf(line, sizeof line, "\n%s %zu ", key, index);
    const char *found = strstr(fixture->expected, line);
    return found == NULL ? NULL : found + strlen(line);
}

static void check_digest(const struct fixture *fixture, const char *key, size_t index,
                         struct hash_state *state) {
    struct hash hash = hash_end(state);
    char digest[HASH_HEX_BYTES];
    const char *expected = expected_digest(fixture, key, index);
    (void)hash_hex(&hash, digest);
    if (expected == NULL || strncmp(expected, digest, DIGEST_BYTES - 1) != 0) {
        fail_msg("%s: %s %zu: %.16s, expected %.16s", folder, key, index, digest,
                 expected == NULL ? "a line" : expected);
    }
}

static struct token_list encode(struct fixture *fixture, const char *text, size_t bytes,
                                const struct tokenizer_options *options) {
    struct token_list list;
    struct fault fault;
    if (tokenizer_encode(fixture->encoder, text, bytes, options, &list, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return list;
}

static void check_encoding(struct fixture *fixture, const char *key,
                           const struct tokenizer_options *options) {
    size_t groups = (fixture->text_count + GROUP - 1) / GROUP;
    for (size_t group = 0; group < groups; group++) {
        struct hash_state state;
        hash_begin(&state);
        for (size_t i = group * GROUP; i < fixture->text_count && i < (group + 1) * GROUP; i++) {
            const char *text = text_at(fixture, i);
            struct token_list list = encode(fixture, text, strlen(text), options);
            hash_add(&state, list.ids, list.count * sizeof *list.ids);
        }
        check_digest(fixture, key, group, &state);
    }
}

static void ids_equal_the_reference(void **state) {
    static const struct tokenizer_options PLAIN;
    static const struct tokenizer_options SPECIAL = {.adds_special_tokens = true};
    static const struct tokenizer_options LITERAL = {.is_literal = true};
    check_encoding(*state, "encode", &PLAIN);
    check_encoding(*state, "special", &SPECIAL);
    check_encoding(*state, "literal", &LITERAL);
}

/* Decodes ids, checks that each piece is whole characters, and returns the size of the text. */
static size_t decode(struct fixture *fixture, const int32_t *ids, size_t count, bool skips,
                     char *out) {
    size_t filled = 0;
    tokenizer_decode_begin(fixture->decoder, skips);
    for (size_t i = 0; i <= count; i++) {
        struct token_text piece = i < count ? tokenizer_decode_next(fixture->decoder, ids[i])
                                            : tokenizer_decode_end(fixture->decoder);
        assert_int_equal(utf8_valid_bytes(piece.bytes, piece.count), piece.count);
        assert_true(filled + piece.count <= DECODED_MAX);
        memcpy(out + filled, piece.bytes, piece.count);
        filled += piece.count;
    }
    return filled;
}

static void decoded_texts_equal_the_reference(void **state) {
    struct fixture *fixture = *state;
    static const struct tokenizer_options SPECIAL = {.adds_special_tokens = true};
    size_t groups = (fixture->text_count + GROUP - 1) / GROUP;
    for (size_t group = 0; group < groups; group++) {
        struct hash_state states[2];
        for (int skips = 0; skips < 2; skips++) {
            hash_begin(&states[skips]);
            for (size_t i = group * GROUP; i < fixture->text_count && i < (group + 1) * GROUP;
                 i++) {
                const char *text = text_at(fixture, i);
                struct token_list list = encode(fixture, text, strlen(text), &SPECIAL);
                size_t count = decode(fixture, list.ids, list.count, skips != 0, fixture->decoded);
                hash_add(&states[skips], fixture->decoded, count);
            }
        }
        check_digest(fixture, "decode", group, &states[0]);
        check_digest(fixture, "skip", group, &states[1]);
    }
}

static uint64_t next_random(uint64_t *random) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

static void random_ids_decode_as_the_reference_does(void **state) {
    struct fixture *fixture = *state;
    uint64_t random = 1;
    uint64_t id_end = (uint64_t)tokenizer_info(fixture->tokenizer)->id_count + 2;
    for (size_t line = 0; line < RANDOM_LISTS / LISTS_A_LINE; line++) {
        struct hash_state states[2];
        hash_begin(&states[0]);
        hash_begin(&states[1]);
        for (int i = 0; i < LISTS_A_LINE; i++) {
            int32_t ids[IDS_MAX];
            size_t count = next_random(&random) % IDS_MAX;
            for (size_t j = 0; j < count; j++) {
                ids[j] = (int32_t)(next_random(&random) % id_end);
            }
            for (int skips = 0; skips < 2; skips++) {
                size_t bytes = decode(fixture, ids, count, skips != 0, fixture->decoded);
                hash_add(&states[skips], fixture->decoded, bytes);
            }
        }
        check_digest(fixture, "random", line, &states[0]);
        check_digest(fixture, "random_skip", line, &states[1]);
    }
}

/* scalar_text of texts.py, for SCALARS_A_TEXT scalar values from *point on. */
static size_t scalar_text(uint32_t *point, char *out) {
    struct text text = text_over(out, SCALAR_TEXT_BYTES);
    for (int i = 0; i < SCALARS_A_TEXT && *point < 0x110000; i++) {
        static const char *const PARTS[] = {"\na", "b 1", "2 ", "\xcc\x81", " ", "'s\n"};
        char character[UTF8_BYTES_MAX];
        size_t length = utf8_write(*point, character);
        for (size_t part = 0; part < ARRAY_COUNT(PARTS); part++) {
            text_add_bytes(&text, character, length);
            text_add_bytes(&text, PARTS[part], strlen(PARTS[part]));
        }
        *point = *point == 0xd7ff ? 0xe000 : *point + 1;
    }
    assert_false(text.truncated);
    return text.length;
}

static void scalar_values_equal_the_reference(void **state) {
    struct fixture *fixture = *state;
    static const struct tokenizer_options PLAIN;
    static char text[SCALAR_TEXT_BYTES];
    uint32_t point = 0;
    if (expected_digest(fixture, "scalars", 0) == NULL) {
        skip();
    }
    for (size_t line = 0; point < 0x110000; line++) {
        struct hash_state hash;
        hash_begin(&hash);
        for (int i = 0; i < TEXTS_A_LINE && point < 0x110000; i++) {
            size_t bytes = scalar_text(&point, text);
            struct token_list list = encode(fixture, text, bytes, &PLAIN);
            hash_add(&hash, list.ids, list.count * sizeof *list.ids);
        }
        check_digest(fixture, "scalars", line, &hash);
    }
}

/* Divides a text at one position and compares the ids with those of the whole. */
static void check_split(struct fixture *fixture, const char *text, size_t bytes, size_t at,
                        const int32_t *ids, size_t count) {
    static const struct tokenizer_options FIRST = {.adds_special_tokens = true, .has_more = true};
    static const struct tokenizer_options LAST = {.adds_special_tokens = true,
                                                  .is_continued = true};
    struct token_list part = encode(fixture, text, at, &FIRST);
    size_t first = part.count;
    assert_true(first <= count);
    assert_memory_equal(part.ids, ids, first * sizeof *ids);
    part = encode(fixture, text + at, bytes - at, &LAST);
    if (first + part.count != count ||
        memcmp(part.ids, ids + first, part.count * sizeof *ids) != 0) {
        fail_msg("%s: '%s' divided at %zu has other ids", folder, text, at);
    }
}

static void divided_documents_have_the_same_ids(void **state) {
    struct fixture *fixture = *state;
    static const struct tokenizer_options SPECIAL = {.adds_special_tokens = true};
    size_t positions = 0;
    for (size_t i = 0; i < fixture->text_count; i++) {
        const char *text = text_at(fixture, i);
        size_t bytes = strlen(text);
        struct token_list whole = encode(fixture, text, bytes, &SPECIAL);
        size_t count = whole.count;
        int32_t *ids = test_malloc((count + 1) * sizeof *ids);
        memcpy(ids, whole.ids, count * sizeof *ids);
        size_t limit = bytes > 0 ? bytes - 1 : 0;
        while (limit > 0 && positions < 20000) {
            size_t at = tokenizer_split_position(fixture->tokenizer, text, bytes, limit);
            assert_true(at <= limit);
            if (at == 0) {
                break;
            }
            check_split(fixture, text, bytes, at, ids, count);
            positions++;
            limit = at - 1;
        }
        test_free(ids);
    }
    assert_int_equal(positions > 0, tokenizer_can_split(fixture->tokenizer));
}

static void reserved_encoder_allocates_nothing_after_the_seal(void **state) {
    struct fixture *fixture = *state;
    static const struct tokenizer_options SPECIAL = {.adds_special_tokens = true};
    struct region region = {0};
    struct token_list list;
    struct fault fault;
    size_t longest = 0;
    for (size_t i = 0; i < fixture->text_count; i++) {
        size_t bytes = strlen(text_at(fixture, i));
        longest = bytes > longest ? bytes : longest;
    }
    struct tokenizer_encoder *encoder = tokenizer_encoder_make(fixture->tokenizer, &region);
    tokenizer_encoder_reserve(encoder, longest);
    size_t reserved = region.bytes_total;
    char *large = test_calloc(64, longest);
    memset(large, 'a', 64 * longest);
    process_seal();
    enum status statuses[2] = {OK, OK};
    for (size_t i = 0; i < fixture->text_count && statuses[0] == OK; i++) {
        const char *text = text_at(fixture, i);
        statuses[0] = tokenizer_encode(encoder, text, strlen(text), &SPECIAL, &list, &fault);
    }
    statuses[1] = tokenizer_encode(encoder, large, 64 * longest, &SPECIAL, &list, &fault);
    process_unseal();
    assert_int_equal(statuses[0], OK);
    assert_int_equal(statuses[1], STATUS_FIT);
    assert_int_equal(region.bytes_total, reserved);
    test_free(large);
    region_finish(&region);
}

static void patterns_are_not_machine_code_without_executable_memory(void **state) {
    (void)state;
    if (!is_interpreted) {
        skip();
    }
    assert_false(has_generated_code());
}

int main(int argc, char **argv) {
    static const struct CMUnitTest TESTS[] = {
        cmocka_unit_test(ids_equal_the_reference),
        cmocka_unit_test(decoded_texts_equal_the_reference),
        cmocka_unit_test(random_ids_decode_as_the_reference_does),
        cmocka_unit_test(scalar_values_equal_the_reference),
        cmocka_unit_test(divided_documents_have_the_same_ids),
        cmocka_unit_test(reserved_encoder_allocates_nothing_after_the_seal),
        cmocka_unit_test(patterns_are_not_machine_code_without_executable_memory),
    };
    assert_true(argc == 2 || (argc == 3 && strcmp(argv[2], "interpreted") == 0));
    folder = argv[1];
    is_interpreted = argc == 3;
    if (is_interpreted && !refuse_executable_memory()) {
        return SKIPPED;
    }
    return cmocka_run_group_tests(TESTS, open_fixture, close_fixture);
}
