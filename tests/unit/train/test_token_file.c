/* Tests of train/token_file: every form is told by magic, suffix or key, and damage is named. */
#include "runtime/data/token_file.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct fault fault;

static struct token_file opened(const char *path, const char *format) {
    struct token_file file;
    memset(&fault, 0, sizeof fault);
    if (token_file_open(path, format, &file, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return file;
}

static void refused(const char *path, const char *format, const char *why) {
    struct token_file file = {.fd = 77};
    memset(&fault, 0, sizeof fault);
    enum status status = token_file_open(path, format, &file, &fault);
    assert_int_equal(status, STATUS_INPUT);
    assert_int_equal(fault_exit_code(status), 2);
    assert_int_equal(file.fd, 77);
    if (strstr(fault.reason, why) == NULL) {
        fail_msg("%s: \"%s\" does not say \"%s\"", path, fault.reason, why);
    }
}

static void magic_suffix_and_key_tell_the_form_in_this_order(void **state) {
    (void)state;
    static const struct {
        const char *path, *format;
        uint32_t magic, version;
        int width;
        enum token_format wanted;
    } ROWS[] = {
        {"a.bin", NULL, 20240520, 1, 2, TOKENS_LLMC_U16},
        {"b.bin", NULL, 20240801, 7, 4, TOKENS_LLMC_U32},
        {"c.bin", NULL, 20240801, 1, 4, TOKENS_LLMC_U32},
        {"magic-before-suffix.u32", "bytes", 20240520, 1, 2, TOKENS_LLMC_U16},
        {"d.u16", NULL, 0, 0, 2, TOKENS_U16},
        {"e.u32", NULL, 0, 0, 4, TOKENS_U32},
        {"f.bytes", NULL, 0, 0, 1, TOKENS_BYTES},
        {"g.txt", NULL, 0, 0, 1, TOKENS_BYTES},
        {"suffix-before-key.u16", "u32", 0, 0, 2, TOKENS_U16},
        {"h.bin", "u16", 0, 0, 2, TOKENS_U16},
        {"i.bin", "u32", 0, 0, 4, TOKENS_U32},
        {"no-suffix", "bytes", 0, 0, 1, TOKENS_BYTES},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        scratch_write_tokens(ROWS[i].path, &(struct scratch_tokens){.first = 5,
                                                                    .count = 12,
                                                                    .modulus = 251,
                                                                    .width = ROWS[i].width,
                                                                    .magic = ROWS[i].magic,
                                                                    .version = ROWS[i].version});
        struct token_file file = opened(ROWS[i].path, ROWS[i].format);
        assert_int_equal(file.format, ROWS[i].wanted);
        assert_int_equal(token_file_width(&file), ROWS[i].width);
        assert_int_equal(file.token_count, 12);
        assert_int_equal(file.data_offset, ROWS[i].magic != 0 ? 1024 : 0);
        uint8_t raw[3 * 4];
        assert_int_equal(token_file_read(&file, 9, 3, raw, &fault), OK);
        for (int64_t t = 0; t < 3; t++) {
            assert_int_equal(token_at(raw, t, ROWS[i].width), 14 + t);
        }
        token_file_close(&file);
        assert_int_equal(file.fd, -1);
    }
}

static void tokens_are_little_endian_and_unsigned(void **state) {
    (void)state;
    static const uint8_t RAW[] = {0xFF, 0xEE, 0xDD, 0xCC, 0x01, 0x00, 0x00, 0x80};
    assert_int_equal(token_at(RAW, 1, 1), 0xEE);
    assert_int_equal(token_at(RAW, 1, 2), 0xCCDD);
    assert_int_equal(token_at(RAW, 0, 4), 0xCCDDEEFF);
    assert_int_equal(token_at(RAW, 1, 4), 0x80000001);
}

static void what_cannot_be_told_or_is_damaged_is_refused(void **state) {
    (void)state;
    scratch_write("bare.bin", "abcdefgh", 8);
    refused("bare.bin", NULL, "cannot determine the token format: no llm.c header");
    assert_non_null(strstr(fault.remedy, "data.format"));
    assert_string_equal(fault.subject, "bare.bin");
    refused("bare.bin", "u8", "is not one of the token formats");
    refused("missing.u16", NULL, "cannot open");
    scratch_write("empty.u16", "", 0);
    refused("empty.u16", NULL, "no tokens");
    scratch_write("odd.u16", "abc", 3);
    refused("odd.u16", NULL, "contain a whole number of tokens");
    scratch_write("odd.u32", "abcdef", 6);
    refused("odd.u32", NULL, "contain a whole number of tokens");
    refused(".", NULL, "regular file");
}

static void headers_that_do_not_match_the_file_are_refused(void **state) {
    (void)state;
    struct scratch_tokens tokens = {
        .count = 100, .modulus = 50, .width = 2, .magic = 20240520, .version = 1};
    scratch_write_tokens("cut.bin", &tokens);
    assert_int_equal(truncate("cut.bin", 1024 + 2 * 99), 0);
    refused("cut.bin", NULL, "states 100 tokens, which need 1224 bytes; the file has 1222");
    scratch_write_tokens("long.bin", &tokens);
    assert_int_equal(truncate("long.bin", 1024 + 2 * 101), 0);
    refused("long.bin", NULL, "states 100 tokens");
    tokens.version = 2;
    scratch_write_tokens("version.bin", &tokens);
    refused("version.bin", NULL, "version is not 1");
    tokens.version = 1;
    tokens.magic = 20240522; /* llm.c's multiple-choice files hold no text */
    scratch_write_tokens("magic.bin", &tokens);
    refused("magic.bin", NULL, "cannot determine the token format");
    tokens.magic = 20240520;
    tokens.count = 0;
    scratch_write_tokens("none.bin", &tokens);
    refused("none.bin", NULL, "no tokens");
    scratch_write_tokens("head.bin", &tokens);
    assert_int_equal(truncate("head.bin", 1000), 0);
    refused("head.bin", NULL, "cannot determine the token format");
}

static void a_file_that_shrinks_while_open_is_an_error(void **state) {
    (void)state;
    uint8_t raw[16];
    scratch_write("shrinks.bytes", "0123456789abcdef", 16);
    struct token_file file = opened("shrinks.bytes", NULL);
    assert_int_equal(truncate("shrinks.bytes", 8), 0);
    assert_int_equal(token_file_read(&file, 4, 8, raw, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "truncated"));
    token_file_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(magic_suffix_and_key_tell_the_form_in_this_order),
        cmocka_unit_test(tokens_are_little_endian_and_unsigned),
        cmocka_unit_test(what_cannot_be_told_or_is_damaged_is_refused),
        cmocka_unit_test(headers_that_do_not_match_the_file_are_refused),
        cmocka_unit_test(a_file_that_shrinks_while_open_is_an_error),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
