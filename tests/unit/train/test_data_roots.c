/* Tests of train/data_roots: roots against those of test_merkle's Python tree, and each way in
 * which local files can be other ones than the swarm's. */
#include "runtime/data/data_match.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_BYTES = 1048577 };

/* Of byte i being i % 251, as in test_merkle. */
static const char LONG_ROOT[] = "9adc5216273d1b15491e7aeb1a40b272f65525f166527389f60b7ad96880bfc4";
static const char ONE_ROOT[] = "df1257d9b71ef6261213b4bc0018cab2d1c67b79bd639c9bc4c2c7919aba14ba";

static uint8_t bytes[LONG_BYTES];
static struct fault fault;

static int write_files(void **state) {
    int failed = scratch_open(state);
    for (int i = 0; i < LONG_BYTES; i++) {
        bytes[i] = (uint8_t)(i % 251);
    }
    if (failed == 0) {
        scratch_write("long.txt", bytes, LONG_BYTES);
        scratch_write("one.bytes", bytes, 1);
        scratch_write("four.u16", bytes, 4);
        scratch_write("elsewhere/renamed.txt", bytes, LONG_BYTES);
        bytes[LONG_BYTES - 1]++;
        scratch_write("changed/long.txt", bytes, LONG_BYTES);
        scratch_write("shorter/long.txt", bytes, LONG_BYTES - 1);
        scratch_write("other/four.u32", bytes, 4);
    }
    return failed;
}

/* A run with these files; NULL ends a list. */
static struct settings run_of(const char **train, const char **validation) {
    struct settings settings = {.run_file = "run.yaml", .train_files = {.paths = train}};
    while (train[settings.train_files.count] != NULL) {
        settings.train_files.count++;
    }
    settings.validation_files.paths = validation;
    while (validation[settings.validation_files.count] != NULL) {
        settings.validation_files.count++;
    }
    return settings;
}

static struct manifest manifest_of(const struct settings *settings, struct region *region) {
    struct manifest manifest = {.name = "heather"};
    if (data_match_hash_files(settings, region, &manifest.files, &manifest.file_count, &fault) !=
        OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return manifest;
}

static void files_have_their_known_roots_in_order(void **state) {
    (void)state;
    struct region region = {0};
    char hex[HASH_HEX_BYTES];
    const char *train[] = {"one.bytes", "l*.txt", NULL};
    const char *validation[] = {"four.u16", NULL};
    struct settings settings = run_of(train, validation);
    struct manifest manifest = manifest_of(&settings, &region);
    assert_int_equal(manifest.file_count, 3);
    assert_string_equal(manifest.files[0].name, "one.bytes");
    assert_string_equal(hash_hex(&manifest.files[0].root, hex), ONE_ROOT);
    assert_int_equal(manifest.files[0].kind, MANIFEST_TRAINING_FILE);
    assert_string_equal(manifest.files[1].name, "long.txt");
    assert_int_equal(manifest.files[1].bytes, LONG_BYTES);
    assert_string_equal(manifest.files[1].format, "bytes");
    assert_string_equal(hash_hex(&manifest.files[1].root, hex), LONG_ROOT);
    assert_int_equal(manifest.files[2].kind, MANIFEST_VALIDATION_FILE);
    assert_string_equal(manifest.files[2].format, "u16");
    region_finish(&region);
}

static void the_same_bytes_are_taken_under_any_name(void **state) {
    (void)state;
    struct region region = {0};
    const char *theirs[] = {"long.txt", "one.bytes", NULL};
    const char *mine[] = {"elsewhere/renamed.txt", "one.bytes", NULL};
    const char *held_out[] = {"four.u16", NULL};
    const char *none[] = {NULL};
    struct settings tracker = run_of(theirs, held_out);
    struct manifest manifest = manifest_of(&tracker, &region);
    struct settings member = run_of(mine, held_out);
    assert_int_equal(data_match_check(&member, &manifest, &fault), OK);
    member = run_of(mine, none); /* does not evaluate */
    assert_int_equal(data_match_check(&member, &manifest, &fault), OK);
    region_finish(&region);
}

static void the_first_field_that_differs_is_named(void **state) {
    (void)state;
    static const struct {
        const char *train[3], *place, *reason;
    } ROWS[] = {
        {{"long.txt"}, "data.train", "found 1 file; the manifest of swarm heather has 2"},
        {{"four.u16", "long.txt"},
         "four.u16",
         "does not match file 1 of the swarm's data.train, long.txt: 4 bytes, but the manifest has "
         "1048577"},
        {{"shorter/long.txt", "four.u16"},
         "shorter/long.txt",
         "does not match file 1 of the swarm's data.train, long.txt: 1048576 bytes, but the "
         "manifest has 1048577"},
        {{"long.txt", "other/four.u32"},
         "other/four.u32",
         "does not match file 2 of the swarm's data.train, four.u16: format u32, but the manifest "
         "has u16"},
        {{"changed/long.txt", "other/four.u32"},
         "other/four.u32",
         "does not match file 2 of the swarm's data.train, four.u16: format u32, but the manifest "
         "has u16"},
        {{"changed/long.txt", "four.u16"},
         "changed/long.txt",
         "does not match file 1 of the swarm's data.train, long.txt: its content differs from that "
         "of the operator's file"},
    };
    struct region region = {0};
    const char *theirs[] = {"long.txt", "four.u16", NULL};
    const char *none[] = {NULL};
    struct settings tracker = run_of(theirs, none);
    struct manifest manifest = manifest_of(&tracker, &region);
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        const char *mine[] = {ROWS[i].train[0], ROWS[i].train[1], NULL};
        struct settings member = run_of(mine, none);
        assert_int_equal(data_match_check(&member, &manifest, &fault), STATUS_INPUT);
        assert_string_equal(fault.subject, ROWS[i].place);
        assert_ptr_equal(strstr(fault.reason, ROWS[i].reason), fault.reason);
    }
    assert_non_null(strstr(fault.remedy, "in the order of the swarm's manifest"));
    region_finish(&region);
}

static void files_are_found_by_name_and_size_here_or_in_the_cache(void **state) {
    (void)state;
    struct region region = {0};
    const char *theirs[] = {"long.txt", "four.u16", NULL};
    const char *held_out[] = {"one.bytes", NULL};
    const char *none[] = {NULL};
    char folder[512];
    struct settings tracker = run_of(theirs, held_out);
    struct manifest manifest = manifest_of(&tracker, &region);
    struct settings member = run_of(none, none);
    assert_non_null(getcwd(folder, sizeof folder));
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    scratch_write("skep/data/four.u16", bytes, 4);
    scratch_write("member/long.txt", bytes, LONG_BYTES);
    scratch_write("member/four.u16", bytes, 6);
    assert_int_equal(chdir("member"), 0);
    data_match_find_files(&manifest, &region, &member);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(member.train_files.count, 2);
    assert_string_equal(member.train_files.paths[0], "long.txt");
    assert_non_null(strstr(member.train_files.paths[1], "/skep/data/four.u16"));
    assert_int_equal(member.validation_files.count, 0);
    region_finish(&region);
}

static void data_that_are_nowhere_are_asked_for_by_name(void **state) {
    (void)state;
    struct region region = {0};
    const char *theirs[] = {"long.txt", NULL};
    const char *none[] = {NULL};
    struct settings tracker = run_of(theirs, none);
    struct manifest manifest = manifest_of(&tracker, &region);
    struct settings member = run_of(none, none);
    assert_int_equal(data_match_check(&member, &manifest, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "data.train");
    assert_string_equal(fault.reason, "the swarm's data files are missing: 1 file; the first is "
                                      "long.txt of 1.00 MiB");
    const struct manifest_file *files = NULL;
    int count = 77;
    assert_int_equal(data_match_hash_files(&member, &region, &files, &count, &fault), STATUS_INPUT);
    assert_int_equal(count, 77);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_have_their_known_roots_in_order),
        cmocka_unit_test(the_same_bytes_are_taken_under_any_name),
        cmocka_unit_test(the_first_field_that_differs_is_named),
        cmocka_unit_test(files_are_found_by_name_and_size_here_or_in_the_cache),
        cmocka_unit_test(data_that_are_nowhere_are_asked_for_by_name),
    };
    return cmocka_run_group_tests(tests, write_files, scratch_close);
}
