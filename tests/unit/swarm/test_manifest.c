/* test_manifest: a manifest against the text, signature and hash that Python's hashlib and
 * OpenSSL's Ed25519 make of the same fields, and all that must not be taken for one. */
#include "runtime/swarm/ledger/manifest.h"

#include "base/hex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char GOLDEN[] =
    "format: 1\n"
    "name: \"heather\"\n"
    "protocol: 2\n"
    "created: 1795276800\n"
    "tracker: tcp://203.0.113.7:7700\n"
    "operator: pghubrnnw2hskysk4wzbj2twpjxmstmctu6xwxq22g5g6prbhauf6knmxlqudpg"
    "k6czc4guu2ngqxrzwdzjg2c76clejpff4smrjm3ox2i3d5oak\n"
    "genesis: 0000000000000000000000000000000000000000000000000000000000000007\n"
    "files:\n"
    "  - key: data.train\n"
    "    name: \"a \\\"b\\\".u16\"\n"
    "    bytes: 1048577\n"
    "    format: u16\n"
    "    root: abababababababababababababababababababababababababababababababab\n"
    "  - key: data.validation\n"
    "    name: \"held-out.txt\"\n"
    "    bytes: 12\n"
    "    format: bytes\n"
    "    root: cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd\n"
    "run: |2\n"
    "  seed: 3\n"
    "  swarm.name: \"heather\"\n"
    "config: |2-\n"
    "  {\n"
    "  \t\"model_type\": \"llama\",\n"
    "\n"
    "    \"hidden_size\": 8\n"
    "  }\n"
    "signature: a26cec159ac1ccc261ed42ef5dddba2b755d3239290fb235b20db4c7d395413a"
    "06c959df1500b9619201ef73dcec91e78c932fa94631b7269ebf724c2f874b05\n";
static const char GOLDEN_HASH[] =
    "e8e3afa7ec1d399e72b52164a51efb3cdfb2dcc9d2e03f99410189a3c8c48189";
static const char RUN_TEXT[] = "seed: 3\nswarm.name: \"heather\"\n";
static const char CONFIG_TEXT[] = "{\n\t\"model_type\": \"llama\",\n\n  \"hidden_size\": 8\n}";

enum { UNTOUCHED = 77 };

static char written[MANIFEST_BYTES_MAX + 1];
static char config[MANIFEST_BYTES_MAX + 1];
static struct key_pairs keys;
static struct manifest_file files[MANIFEST_FILES_MAX + 1];

/* Secrets 0, 1, 2 .. 63, of the operator. */
static int make_keys(void **state) {
    uint8_t secrets[2 * KEY_BYTES];
    (void)state;
    for (int i = 0; i < 2 * KEY_BYTES; i++) {
        secrets[i] = (uint8_t)i;
    }
    keys_from_secrets(secrets, &keys);
    return 0;
}

static struct manifest example(void) {
    struct manifest manifest = {
        .name = "heather",
        .created = 1795276800,
        .join = {.address = "tcp://203.0.113.7:7700", .operator_keys = keys.public_keys},
        .genesis_root = {.bytes = {[31] = 7}},
        .run_text = RUN_TEXT,
        .config_text = CONFIG_TEXT,
        .files = files,
        .file_count = 2};
    files[0] = (struct manifest_file){MANIFEST_TRAINING_FILE, "a \"b\".u16", 1048577, "u16", {{0}}};
    files[1] = (struct manifest_file){MANIFEST_VALIDATION_FILE, "held-out.txt", 12, "bytes", {{0}}};
    memset(&files[0].root, 0xab, HASH_BYTES);
    memset(&files[1].root, 0xcd, HASH_BYTES);
    return manifest;
}

static enum status write_it(const struct manifest *manifest, struct text *text, struct hash *hash,
                            struct fault *fault) {
    *text = text_over(written, sizeof written);
    return manifest_write(manifest, &keys, text, hash, fault);
}

/* The golden text with `from` replaced, signed again. */
static size_t altered(const char *from, const char *to, char out[static 8192]) {
    const char *at = strstr(GOLDEN, from);
    uint8_t signature[SIGNATURE_BYTES];
    struct text text = text_over(out, 8192);
    assert_non_null(at);
    text_add(&text, "%.*s%s%s", (int)(at - GOLDEN), GOLDEN, to, at + strlen(from));
    char *line = strstr(out, "signature: ");
    text.length = (size_t)(line - out);
    keys_sign(&keys, "skep manifest", out, text.length, signature);
    text_add(&text, "signature: ");
    hex_add(&text, signature, sizeof signature);
    text_add(&text, "\n");
    assert_false(text.truncated);
    return text.length;
}

static enum status read_untouched(const char *text, size_t length,
                                  const struct public_keys *expected, struct fault *fault) {
    struct region region = {0};
    struct manifest manifest = {.file_count = UNTOUCHED};
    enum status status = manifest_read(text, length, "it", expected, &region, &manifest, fault);
    assert_true(status == OK || manifest.file_count == UNTOUCHED);
    region_finish(&region);
    return status;
}

static void writing_gives_the_known_text_signature_and_hash(void **state) {
    (void)state;
    struct manifest manifest = example();
    struct text text;
    struct hash hash;
    struct fault fault;
    char hex[HASH_HEX_BYTES];
    assert_int_equal(write_it(&manifest, &text, &hash, &fault), OK);
    assert_string_equal(written, GOLDEN);
    assert_int_equal(text.length, sizeof GOLDEN - 1);
    assert_string_equal(hash_hex(&hash, hex), GOLDEN_HASH);
}

static void reading_gives_every_field(void **state) {
    (void)state;
    struct region region = {0};
    struct manifest manifest;
    struct fault fault;
    char hex[HASH_HEX_BYTES];
    assert_int_equal(manifest_read(GOLDEN, sizeof GOLDEN - 1, "it", &keys.public_keys, &region,
                                   &manifest, &fault),
                     OK);
    assert_string_equal(manifest.name, "heather");
    assert_int_equal(manifest.protocol, 2);
    assert_int_equal(manifest.created, 1795276800);
    assert_string_equal(manifest.join.address, "tcp://203.0.113.7:7700");
    assert_memory_equal(&manifest.join.operator_keys, &keys.public_keys, sizeof keys.public_keys);
    assert_int_equal(manifest.genesis_root.bytes[31], 7);
    assert_string_equal(manifest.run_text, RUN_TEXT);
    assert_string_equal(manifest.config_text, CONFIG_TEXT);
    assert_int_equal(manifest.file_count, 2);
    assert_int_equal(manifest.files[0].kind, MANIFEST_TRAINING_FILE);
    assert_string_equal(manifest.files[0].name, "a \"b\".u16");
    assert_int_equal(manifest.files[0].bytes, 1048577);
    assert_string_equal(manifest.files[0].format, "u16");
    assert_int_equal(manifest.files[0].root.bytes[0], 0xab);
    assert_int_equal(manifest.files[1].kind, MANIFEST_VALIDATION_FILE);
    assert_int_equal(manifest.files[1].root.bytes[31], 0xcd);
    assert_string_equal(hash_hex(&manifest.hash, hex), GOLDEN_HASH);
    region_finish(&region);
}

static void any_text_of_a_config_comes_back_as_it_was(void **state) {
    (void)state;
    static const char *const TEXTS[] = {"{}",
                                        "{}\n",
                                        "{}\n\n\n",
                                        "\n\n{}",
                                        "  {\n {}\n}\n",
                                        "{\t}\r\n{}\n",
                                        "{\n  \n   \n}",
                                        "\"\xc3\xa9\xe2\x80\xa8\"",
                                        "# not a comment\n- a\n",
                                        "---\n...\n",
                                        "\"\\u00e9\"\n"};
    for (size_t i = 0; i < ARRAY_COUNT(TEXTS); i++) {
        struct region region = {0};
        struct manifest manifest = example();
        struct manifest again;
        struct text text;
        struct hash hash;
        struct fault fault;
        manifest.config_text = TEXTS[i];
        assert_int_equal(write_it(&manifest, &text, &hash, &fault), OK);
        assert_int_equal(manifest_read(written, text.length, "it", NULL, &region, &again, &fault),
                         OK);
        assert_string_equal(again.config_text, TEXTS[i]);
        assert_string_equal(again.run_text, RUN_TEXT);
        assert_true(hash_equal(&again.hash, &hash));
        region_finish(&region);
    }
}

static void a_change_of_any_byte_is_refused(void **state) {
    (void)state;
    static char text[sizeof GOLDEN];
    struct fault fault;
    for (size_t i = 0; i + 1 < sizeof GOLDEN; i++) {
        memcpy(text, GOLDEN, sizeof GOLDEN);
        text[i] = (char)(text[i] ^ 1);
        if (read_untouched(text, sizeof GOLDEN - 1, NULL, &fault) != STATUS_INPUT) {
            fail_msg("byte %zu, '%c', can be changed", i, GOLDEN[i]);
        }
    }
    for (size_t length = 0; length + 1 < sizeof GOLDEN; length++) {
        assert_int_equal(read_untouched(GOLDEN, length, NULL, &fault), STATUS_INPUT);
    }
}

static void what_is_wrong_is_named_when_the_signature_is_right(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *place, *reason;
    } ROWS[] = {
        {"format: 1", "format: 2", "it",
         "the swarm's format has version 2; this skep supports up to 1"},
        {"protocol: 2\n", "protocol: 9\nnews: x\n", "it",
         "the swarm's protocol has version 9; this skep supports up to 2"},
        {"protocol: 2\n", "protocol: 1\n", "it",
         "uses protocol 1; Skep 0.1.0 was the last version that could read it"},
        {"created:", "creatd:", "it:4:1", "creatd is not a known key"},
        {"created: 1795276800\n", "", "it:1:1", "does not have the required key created"},
        {"    bytes: 12\n", "", "it:14:5", "files[1] does not have the required key bytes"},
        {"created: 1", "name: x\ncreated: 1", "it:4:1",
         "the key name appears twice, first on line 2"},
        {"created: 1", "created: -1", "it:4:1",
         "created is \"-1795276800\", not a whole number from 0 to 9007199254740992"},
        {"heather\"\np", "../x\"\np", "it:2:1",
         "name has a character other than letters, digits, '-', '_' and '.'"},
        {"tcp://203", "udp://203", "it:5:1", "tracker does not begin with tcp://"},
        {"operator: p", "operator: q", "it:6:1", "operator is not a Skep key"},
        {"operator: p", "operatr: p", "it:6:1", "operatr is not a known key"},
        {"00007\n", "0007\n", "it:7:1", "genesis is not a hash of 64 hexadecimal digits"},
        {"bytes: 12", "bytes: 0", "it:16:5",
         "files[1].bytes is \"0\", not a whole number from 1 to 9007199254740992"},
        {"held-out", "held/out", "it:14:5", "files[1] has an invalid file name"},
        {"held-out", "held\\u001bout", "it:14:5", "files[1] has an invalid file name"},
        {"format: bytes", "format: Bytes", "it:14:5",
         "files[1] has a format with characters other than a-z 0-9 -"},
        {"data.train", "data.test", "it:9:5", "files[0].key must be data.train or data.validation"},
        {"data.train", "data.validation", "it:9:5",
         "files[0] is out of order: list data.train files before data.validation files"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        char text[8192];
        struct fault fault;
        size_t length = altered(ROWS[i].from, ROWS[i].to, text);
        assert_int_equal(read_untouched(text, length, &keys.public_keys, &fault), STATUS_INPUT);
        assert_string_equal(fault.reason, ROWS[i].reason);
        assert_string_equal(fault.subject, ROWS[i].place);
    }
}

static void a_manifest_of_another_operator_is_refused_though_whole(void **state) {
    (void)state;
    struct key_pairs other;
    struct fault fault;
    keys_generate(&other);
    assert_int_equal(read_untouched(GOLDEN, sizeof GOLDEN - 1, &other.public_keys, &fault),
                     STATUS_INPUT);
    assert_string_equal(fault.subject, "it:6:1");
    assert_non_null(strstr(fault.reason, "is not the operator's key of the join string, p"));
    assert_int_equal(read_untouched(GOLDEN, sizeof GOLDEN - 1, &keys.public_keys, &fault), OK);
}

static void what_is_too_long_is_neither_written_nor_read(void **state) {
    (void)state;
    struct manifest manifest = example();
    struct text text;
    struct hash hash;
    struct fault fault;
    memset(config, ' ', MANIFEST_BYTES_MAX);
    config[0] = '{';
    config[MANIFEST_BYTES_MAX - 1] = '}';
    manifest.config_text = config;
    assert_int_equal(write_it(&manifest, &text, &hash, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "config.json of 1048576 bytes"));
    assert_int_equal(read_untouched(config, MANIFEST_BYTES_MAX + 1, NULL, &fault), STATUS_INPUT);
    config[MANIFEST_BYTES_MAX - 2000] = '\0';
    assert_int_equal(write_it(&manifest, &text, &hash, &fault), OK);
}

static void as_many_files_as_promised_are_written_and_read(void **state) {
    (void)state;
    struct manifest manifest = example();
    struct text text;
    struct hash hash;
    struct fault fault;
    for (int i = 2; i <= MANIFEST_FILES_MAX; i++) {
        files[i] = files[1];
    }
    manifest.file_count = MANIFEST_FILES_MAX;
    assert_int_equal(write_it(&manifest, &text, &hash, &fault), OK);
    manifest.file_count = MANIFEST_FILES_MAX + 1;
    assert_int_equal(write_it(&manifest, &text, &hash, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "513 files; a manifest lists at most 512");
}

static void names_are_those_that_files_can_have(void **state) {
    (void)state;
    static const char *const RIGHT[] = {"a", "Heather-2_b.c", "9"};
    static const char *const WRONG[] = {"",
                                        ".",
                                        "..",
                                        ".a",
                                        "-a",
                                        "a/b",
                                        "a b",
                                        "\xc3\xa9",
                                        "1234567890123456789012345678901234567890123456789012345678"
                                        "901234"};
    for (size_t i = 0; i < ARRAY_COUNT(RIGHT); i++) {
        assert_null(swarm_name_error(RIGHT[i]));
    }
    for (size_t i = 0; i < ARRAY_COUNT(WRONG); i++) {
        assert_non_null(swarm_name_error(WRONG[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writing_gives_the_known_text_signature_and_hash),
        cmocka_unit_test(reading_gives_every_field),
        cmocka_unit_test(any_text_of_a_config_comes_back_as_it_was),
        cmocka_unit_test(a_change_of_any_byte_is_refused),
        cmocka_unit_test(what_is_wrong_is_named_when_the_signature_is_right),
        cmocka_unit_test(a_manifest_of_another_operator_is_refused_though_whole),
        cmocka_unit_test(what_is_too_long_is_neither_written_nor_read),
        cmocka_unit_test(as_many_files_as_promised_are_written_and_read),
        cmocka_unit_test(names_are_those_that_files_can_have),
    };
    return cmocka_run_group_tests(tests, make_keys, NULL);
}
