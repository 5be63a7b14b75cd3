/* test_keys: strings, signatures and the identity's file. The values come from an implementation
 * of RFC 4648, RFC 7748 and RFC 8032 in plain Python, checked with their vectors. */
#include "transport/identity/keys.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "transport/identity/base32.h"
#include "transport/identity/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char CURVE_HEX[] = "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f";
static const char SIGN_HEX[] = "29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd7";
static const char PUBLIC_TEXT[] = "pghubrnnw2hskysk4wzbj2twpjxmstmctu6xwxq22g5g6prbhauf6knmxlqudpg"
                                  "k6czc4guu2ngqxrzwdzjg2c76clejpff4smrjm3ox2i3d5oak";
static const char SECRET_TEXT[] = "seaacaqdaqcqmbyibefawdanbyhraeiscmkbkfqxdamrugy4dupb6ibbeirsijj"
                                  "ge4ucskrlfqws4lzqgezdgnbvgy3tqoj2hm6d2pr7beo3gbbz";
static const char SIGNED[] = "a slice's hash", CONTEXT[] = "skep tests";
static const char SIGNATURE_HEX[] =
    "abde82f229f6fb9602c8db4f29b30857a0f54dc8da7782ae6d52d096ee574bcd"
    "dc0356bebbec3b1e4e7017e5c80b9ce981f736d7e398ec531a331d477d863c0b";

/* Secrets 0, 1, 2 .. 63. */
static struct key_pairs known(void) {
    uint8_t secrets[2 * KEY_BYTES];
    struct key_pairs keys;
    for (int i = 0; i < 2 * KEY_BYTES; i++) {
        secrets[i] = (uint8_t)i;
    }
    keys_from_secrets(secrets, &keys);
    return keys;
}

static void assert_bytes(const uint8_t *bytes, size_t count, const char *hex) {
    char found[2 * SIGNATURE_BYTES + 1];
    struct text text = text_over(found, sizeof found);
    for (size_t i = 0; i < count; i++) {
        text_add(&text, "%02x", bytes[i]);
    }
    assert_string_equal(found, hex);
}

static void base32_is_that_of_its_rfc(void **state) {
    (void)state;
    char text[17];
    uint8_t bytes[10];
    base32_write((const uint8_t *)"fooba", 5, text);
    assert_string_equal(text, "mzxw6ytb");
    base32_write((const uint8_t *)"\0\0\0\0\0\xff\xff\xff\xff\xff", 10, text);
    assert_string_equal(text, "aaaaaaaa77777777");
    assert_true(base32_read(text, bytes, 10));
    assert_memory_equal(bytes, "\0\0\0\0\0\xff\xff\xff\xff\xff", 10);
    static const char *const REFUSED[] = {"mzxw6yt", "mzxw6yt1", "MZXW6YTB",
                                          "mzxw6yt=", "mzxw 6yt"};
    for (size_t i = 0; i < ARRAY_COUNT(REFUSED); i++) {
        assert_false(base32_read(REFUSED[i], bytes, 5));
    }
    assert_int_equal(bytes[0], 0);
}

static void public_keys_follow_from_the_secrets(void **state) {
    (void)state;
    const struct key_pairs keys = known();
    assert_bytes(keys.public_keys.curve, KEY_BYTES, CURVE_HEX);
    assert_bytes(keys.public_keys.sign, KEY_BYTES, SIGN_HEX);
}

static void strings_are_the_known_ones_and_read_back(void **state) {
    (void)state;
    char text[KEYS_TEXT_BYTES];
    struct key_pairs keys = known();
    struct key_pairs read;
    assert_string_equal(public_keys_write(&keys.public_keys, text), PUBLIC_TEXT);
    assert_string_equal(secret_keys_write(&keys, text), SECRET_TEXT);
    assert_null(secret_keys_read(SECRET_TEXT, &read));
    assert_memory_equal(&read, &keys, sizeof keys);
    struct public_keys others;
    assert_null(public_keys_read(PUBLIC_TEXT, &others));
    assert_memory_equal(&others, &keys.public_keys, sizeof others);
}

static void every_mistyped_letter_is_noticed(void **state) {
    (void)state;
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz234567A1= ";
    char text[KEYS_TEXT_BYTES];
    struct public_keys keys;
    memset(&keys, 7, sizeof keys);
    for (int at = 0; at < KEYS_TEXT_LETTERS; at++) {
        for (const char *letter = LETTERS; *letter != '\0'; letter++) {
            memcpy(text, PUBLIC_TEXT, sizeof text);
            text[at] = *letter;
            if (*letter != PUBLIC_TEXT[at]) {
                assert_non_null(public_keys_read(text, &keys));
            }
        }
    }
    for (size_t i = 0; i < sizeof keys; i++) {
        assert_int_equal(((uint8_t *)&keys)[i], 7);
    }
}

static void a_string_of_another_kind_or_length_is_named(void **state) {
    (void)state;
    char text[KEYS_TEXT_BYTES + 1];
    struct public_keys keys;
    struct key_pairs pairs;
    assert_non_null(strstr(public_keys_read(SECRET_TEXT, &keys), "secret"));
    assert_non_null(strstr(secret_keys_read(PUBLIC_TEXT, &pairs), "public"));
    assert_non_null(strstr(public_keys_read("", &keys), "112"));
    memcpy(text, PUBLIC_TEXT, KEYS_TEXT_BYTES);
    text[KEYS_TEXT_LETTERS] = 'a';
    text[KEYS_TEXT_LETTERS + 1] = '\0';
    assert_non_null(strstr(public_keys_read(text, &keys), "112"));
    text[KEYS_TEXT_LETTERS - 1] = '\0';
    assert_non_null(strstr(public_keys_read(text, &keys), "112"));
}

static void a_signature_is_the_known_one(void **state) {
    (void)state;
    const struct key_pairs keys = known();
    uint8_t signature[SIGNATURE_BYTES];
    keys_sign(&keys, CONTEXT, SIGNED, sizeof SIGNED - 1, signature);
    assert_bytes(signature, SIGNATURE_BYTES, SIGNATURE_HEX);
    assert_true(keys_verify(keys.public_keys.sign, CONTEXT, SIGNED, sizeof SIGNED - 1, signature));
}

static void a_signature_holds_for_its_bytes_key_and_context_only(void **state) {
    (void)state;
    const struct key_pairs keys = known();
    struct key_pairs other;
    uint8_t signature[SIGNATURE_BYTES];
    const uint8_t *key = keys.public_keys.sign;
    keys_generate(&other);
    keys_sign(&keys, CONTEXT, SIGNED, sizeof SIGNED - 1, signature);
    assert_false(keys_verify(key, "skep test", SIGNED, sizeof SIGNED - 1, signature));
    assert_false(keys_verify(key, CONTEXT, SIGNED, sizeof SIGNED, signature));
    assert_false(keys_verify(key, CONTEXT, SIGNED, 0, signature));
    /* What is moved from the bytes into the context is not signed either. */
    assert_false(keys_verify(key, "skep testsa", SIGNED + 1, sizeof SIGNED - 2, signature));
    assert_false(
        keys_verify(other.public_keys.sign, CONTEXT, SIGNED, sizeof SIGNED - 1, signature));
    for (int bit = 0; bit < 8 * SIGNATURE_BYTES; bit++) {
        signature[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(keys_verify(key, CONTEXT, SIGNED, sizeof SIGNED - 1, signature));
        signature[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    /* The point at infinity signs everything: a weak key. */
    const uint8_t weak[KEY_BYTES] = {1};
    uint8_t forged[SIGNATURE_BYTES] = {1};
    assert_false(keys_verify(weak, CONTEXT, SIGNED, sizeof SIGNED - 1, forged));
}

static void forgotten_secrets_are_zero(void **state) {
    (void)state;
    const uint8_t zero[KEY_BYTES] = {0};
    struct key_pairs keys = known();
    keys_wipe(&keys);
    assert_memory_equal(keys.curve_secret, zero, KEY_BYTES);
    assert_memory_equal(keys.sign_seed, zero, KEY_BYTES);
    assert_bytes(keys.public_keys.sign, KEY_BYTES, SIGN_HEX);
}

/* A folder of the test's own; `path` is a file in a folder that is not there yet. */
struct place {
    char folder[64];
    char path[128];
};

static struct place place_make(void) {
    struct place place = {.folder = "/tmp/skep-keys-XXXXXX"};
    assert_non_null(mkdtemp(place.folder));
    struct text text = text_over(place.path, sizeof place.path);
    text_add(&text, "%s/config/skep/identity", place.folder);
    return place;
}

static void place_remove(const struct place *place) {
    char command[256];
    struct text text = text_over(command, sizeof command);
    text_add(&text, "rm -r %s", place->folder);
    assert_int_equal(system(command), 0);
}

static void an_identity_is_made_once_and_only_for_its_owner(void **state) {
    (void)state;
    const struct place place = place_make();
    struct key_pairs first, second;
    struct fault fault;
    struct stat info;
    bool made = false;
    mode_t mask = umask(0377); /* takes even the owner's right to write */
    assert_int_equal(identity_load_or_create(place.path, &first, &made, &fault), OK);
    umask(mask);
    assert_true(made);
    assert_int_equal(stat(place.path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(info.st_nlink, 1);
    assert_int_equal(identity_load_or_create(place.path, &second, &made, &fault), OK);
    assert_false(made);
    assert_memory_equal(&first, &second, sizeof first);
    place_remove(&place);
}

static void refuse(const char *path, const char *word) {
    struct key_pairs keys;
    struct fault fault = {0};
    bool made = true;
    memset(&keys, 7, sizeof keys);
    assert_int_equal(identity_load_or_create(path, &keys, &made, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, word));
    assert_string_equal(fault.subject, path);
    assert_true(made && keys.sign_seed[0] == 7 && keys.public_keys.curve[0] == 7);
}

static void a_file_that_others_can_reach_is_refused(void **state) {
    (void)state;
    const struct place place = place_make();
    struct key_pairs keys;
    struct fault fault;
    bool made;
    assert_int_equal(identity_load_or_create(place.path, &keys, &made, &fault), OK);
    static const mode_t MODES[] = {0640, 0604, 0660, 0601, 0644};
    for (size_t i = 0; i < ARRAY_COUNT(MODES); i++) {
        assert_int_equal(chmod(place.path, MODES[i]), 0);
        refuse(place.path, "other users");
    }
    assert_int_equal(chmod(place.path, 0400), 0);
    assert_int_equal(identity_load(place.path, &keys, &fault), OK);
    place_remove(&place);
}

static void write_file(const char *path, const char *bytes, size_t count) {
    struct fault fault;
    int fd;
    assert_int_equal(file_open_write(path, &fd, &fault), OK);
    assert_int_equal(file_write_at(fd, path, bytes, count, 0, &fault), OK);
    close(fd);
}

static void every_damaged_byte_is_refused_and_left_alone(void **state) {
    (void)state;
    const struct place place = place_make();
    char whole[256], line[256];
    size_t length, left;
    struct key_pairs keys;
    struct fault fault;
    bool made;
    assert_int_equal(identity_load_or_create(place.path, &keys, &made, &fault), OK);
    assert_int_equal(file_read_text(place.path, whole, sizeof whole, &length, &fault), OK);
    for (size_t at = 0; at < length; at++) {
        memcpy(line, whole, length);
        line[at] ^= 1;
        write_file(place.path, line, length);
        refuse(place.path, "damaged");
    }
    for (size_t cut = 0; cut < length; cut++) {
        write_file(place.path, whole, cut);
        refuse(place.path, "damaged");
    }
    assert_int_equal(file_read_text(place.path, line, sizeof line, &left, &fault), OK);
    assert_int_equal(left, length - 1);
    place_remove(&place);
}

static void what_is_no_file_is_refused(void **state) {
    (void)state;
    const struct place place = place_make();
    refuse(place.folder, "not a regular file");
    assert_int_equal(symlink("nowhere", strcat(strcpy((char[128]){0}, place.folder), "/link")), 0);
    refuse(strcat(strcpy((char[128]){0}, place.folder), "/link"), "cannot open");
    place_remove(&place);
}

enum { MAKERS = 8 };

/* One of several processes that make the same identity at once: its signing key into the pipe. */
static void make_in_child(const char *path, int go, int out) {
    struct key_pairs keys;
    struct fault fault;
    bool made = false;
    char byte;
    bool right = read(go, &byte, 1) == 0 &&
                 identity_load_or_create(path, &keys, &made, &fault) == OK &&
                 write(out, &made, sizeof made) == sizeof made &&
                 write(out, keys.public_keys.sign, KEY_BYTES) == KEY_BYTES;
    _exit(right ? 0 : 1);
}

static void processes_that_make_one_at_once_agree(void **state) {
    (void)state;
    const struct place place = place_make();
    int go[2], outs[MAKERS], makers = 0;
    uint8_t first[KEY_BYTES], key[KEY_BYTES];
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < MAKERS; i++) {
        int out[2];
        assert_int_equal(pipe(out), 0);
        if (fork() == 0) {
            close(go[1]);
            make_in_child(place.path, go[0], out[1]);
        }
        close(out[1]);
        outs[i] = out[0];
    }
    close(go[0]);
    close(go[1]); /* all of them begin */
    for (int i = 0; i < MAKERS; i++) {
        bool made;
        assert_int_equal(read(outs[i], &made, sizeof made), sizeof made);
        assert_int_equal(read(outs[i], i == 0 ? first : key, KEY_BYTES), KEY_BYTES);
        assert_true(i == 0 || memcmp(first, key, KEY_BYTES) == 0);
        makers += made;
        close(outs[i]);
    }
    for (int i = 0, ended; i < MAKERS; i++) {
        assert_true(wait(&ended) > 0 && ended == 0);
    }
    assert_int_equal(makers, 1);
    place_remove(&place);
}

static void the_path_follows_the_environment(void **state) {
    (void)state;
    char path[PATH_BYTES] = "untouched";
    struct fault fault;
    static const struct {
        const char *given, *config, *home, *path;
    } ROWS[] = {
        {"here", "/c", "/h", "here"},
        {NULL, "/c", "/h", "/c/skep/identity"},
        {NULL, "/c", NULL, "/c/skep/identity"},
        {NULL, NULL, "/h", "/h/.config/skep/identity"},
        {NULL, "", "/h", "/h/.config/skep/identity"},
        {NULL, "relative", "/h", "/h/.config/skep/identity"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        ROWS[i].config ? setenv("XDG_CONFIG_HOME", ROWS[i].config, 1) : unsetenv("XDG_CONFIG_HOME");
        ROWS[i].home ? setenv("HOME", ROWS[i].home, 1) : unsetenv("HOME");
        assert_int_equal(identity_path(ROWS[i].given, path, &fault), OK);
        assert_string_equal(path, ROWS[i].path);
    }
    unsetenv("HOME");
    unsetenv("XDG_CONFIG_HOME");
    assert_int_equal(identity_path(NULL, path, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.remedy, "--identity"));
    assert_string_equal(path, ROWS[ARRAY_COUNT(ROWS) - 1].path);
    assert_int_equal(identity_path("", path, &fault), STATUS_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base32_is_that_of_its_rfc),
        cmocka_unit_test(public_keys_follow_from_the_secrets),
        cmocka_unit_test(strings_are_the_known_ones_and_read_back),
        cmocka_unit_test(every_mistyped_letter_is_noticed),
        cmocka_unit_test(a_string_of_another_kind_or_length_is_named),
        cmocka_unit_test(a_signature_is_the_known_one),
        cmocka_unit_test(a_signature_holds_for_its_bytes_key_and_context_only),
        cmocka_unit_test(forgotten_secrets_are_zero),
        cmocka_unit_test(an_identity_is_made_once_and_only_for_its_owner),
        cmocka_unit_test(a_file_that_others_can_reach_is_refused),
        cmocka_unit_test(every_damaged_byte_is_refused_and_left_alone),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(processes_that_make_one_at_once_agree),
        cmocka_unit_test(the_path_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
