/* Tests of base/hash: BLAKE2b-256 against digests of another implementation (Python's hashlib). */
#include "base/check.h"
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LONG_BYTES = 100000 };

static const char EMPTY[] = "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8";
static const char ABC[] = "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319";
static const char LONG[] = "916cfaa800ee55811e82095babeb88ea29c9ef8a36e8d7e20c7b772c344c9e1c";

static unsigned char bytes[LONG_BYTES]; /* i % 251 */

static int fill_bytes(void **state) {
    (void)state;
    for (int i = 0; i < LONG_BYTES; i++) {
        bytes[i] = (unsigned char)(i % 251);
    }
    return 0;
}

static void assert_hex(struct hash hash, const char *wanted) {
    char hex[HASH_HEX_BYTES];
    assert_string_equal(hash_hex(&hash, hex), wanted);
}

static void hash_of_gives_the_known_digests(void **state) {
    (void)state;
    assert_hex(hash_of("", 0), EMPTY);
    assert_hex(hash_of("abc", 3), ABC);
    assert_hex(hash_of(bytes, LONG_BYTES), LONG);
}

static void pieces_of_any_size_give_the_same_digest(void **state) {
    (void)state;
    static const size_t PIECES[] = {1, 63, 64, 127, 128, 129, 4096, LONG_BYTES};
    for (size_t p = 0; p < ARRAY_COUNT(PIECES); p++) {
        struct hash_state hashing;
        hash_begin(&hashing);
        for (size_t at = 0; at < LONG_BYTES; at += PIECES[p]) {
            size_t left = LONG_BYTES - at;
            hash_add(&hashing, bytes + at, left < PIECES[p] ? left : PIECES[p]);
        }
        assert_hex(hash_end(&hashing), LONG);
    }
}

static void equal_looks_at_every_byte(void **state) {
    (void)state;
    const struct hash one = hash_of("abc", 3);
    for (int i = 0; i < HASH_BYTES; i++) {
        struct hash other = one;
        assert_true(hash_equal(&one, &other));
        other.bytes[i] ^= 0x80;
        assert_false(hash_equal(&one, &other));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_of_gives_the_known_digests),
        cmocka_unit_test(pieces_of_any_size_give_the_same_digest),
        cmocka_unit_test(equal_looks_at_every_byte),
    };
    return cmocka_run_group_tests(tests, fill_bytes, NULL);
}
