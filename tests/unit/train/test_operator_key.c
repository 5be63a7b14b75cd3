/* test_operator_key: the file of an operator's key, with and without its secrets. */
#include "transport/identity/operator_key.h"

#include "scratch.h"
#include "transport/identity/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static void a_missing_file_becomes_an_identity_that_can_sign(void **state) {
    (void)state;
    struct operator_key made, read;
    struct fault fault;
    bool is_created = false;
    assert_int_equal(operator_key_read_or_create("operator.key", &made, &is_created, &fault), OK);
    assert_true(is_created && made.has_secrets);
    struct stat info;
    assert_int_equal(stat("operator.key", &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(operator_key_read_or_create("operator.key", &read, &is_created, &fault), OK);
    assert_false(is_created);
    assert_memory_equal(&read.keys, &made.keys, sizeof made.keys);
}

static void the_public_string_is_enough_but_cannot_sign(void **state) {
    (void)state;
    struct key_pairs keys;
    char text[KEYS_TEXT_BYTES + 1];
    struct fault fault;
    static const char *const ENDS[] = {"", "\n"};
    keys_generate(&keys);
    for (size_t i = 0; i < ARRAY_COUNT(ENDS); i++) {
        struct operator_key read;
        public_keys_write(&keys.public_keys, text);
        scratch_write_text("public", strcat(text, ENDS[i]));
        assert_int_equal(operator_key_read("public", &read, &fault), OK);
        assert_false(read.has_secrets);
        assert_memory_equal(&read.keys.public_keys, &keys.public_keys, sizeof keys.public_keys);
    }
}

static void a_file_that_is_neither_is_refused(void **state) {
    (void)state;
    struct operator_key read;
    struct fault fault;
    struct key_pairs keys;
    char text[KEYS_TEXT_BYTES + 8];
    keys_generate(&keys);
    public_keys_write(&keys.public_keys, text);
    text[40] = text[40] == 'a' ? 'b' : 'a';
    scratch_write_text("mistyped", text);
    assert_int_equal(operator_key_read("mistyped", &read, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "mistyped character"));
    public_keys_write(&keys.public_keys, text);
    scratch_write_text("longer", strcat(text, "\nxx\n"));
    assert_int_equal(operator_key_read("longer", &read, &fault), STATUS_INPUT);
    scratch_write_text("short", "p");
    assert_int_equal(operator_key_read("short", &read, &fault), STATUS_INPUT);
    scratch_write_text("empty", "");
    assert_int_equal(operator_key_read("empty", &read, &fault), STATUS_INPUT);
    assert_int_equal(operator_key_read("nothing", &read, &fault), STATUS_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_file_becomes_an_identity_that_can_sign),
        cmocka_unit_test(the_public_string_is_enough_but_cannot_sign),
        cmocka_unit_test(a_file_that_is_neither_is_refused),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
