/* `skep snapshot`: exit codes, and documents that are parsed and compared with what was saved. */
#include "tests/unit/checkpoint/run_fixture.h"

#include "base/file.h"
#include "base/json.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/cli/cli.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OUTPUT_BYTES = 1 << 16, WORDS_MAX = 8 };

static char output[OUTPUT_BYTES];

/* The command with these words; its standard output is kept, its standard error dropped. */
static int run_words(const char *const *words) {
    char *argv[WORDS_MAX + 2] = {(char[]){"snapshot"}};
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = strdup(words[argc - 1]);
    }
    FILE *sink = tmpfile();
    assert_non_null(sink);
    fflush(stdout);
    int kept_out = dup(STDOUT_FILENO);
    int kept_error = dup(STDERR_FILENO);
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(fileno(sink), STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    int code = command_run(&COMMAND_SNAPSHOT, argc, argv);
    fflush(stdout);
    dup2(kept_out, STDOUT_FILENO);
    dup2(kept_error, STDERR_FILENO);
    close(kept_out);
    close(kept_error);
    close(nowhere);
    rewind(sink);
    output[fread(output, 1, sizeof output - 1, sink)] = '\0';
    fclose(sink);
    for (int i = 1; i < argc; i++) {
        free(argv[i]);
    }
    return code;
}

#define RUN(...) run_words((const char *const[]){__VA_ARGS__, NULL})

static struct json_document parsed(void) {
    struct json_document document;
    struct fault fault;
    if (json_parse(output, strlen(output), sizeof output, "output", &document, &fault) != OK) {
        fail_msg("%s: %s in %s", fault.subject, fault.reason, output);
    }
    return document;
}

static int64_t number(const struct json_node *object, const char *key) {
    struct fault fault;
    int64_t value = 0;
    bool present = false;
    assert_int_equal(json_get_i64(object, key, &value, &present, &fault), OK);
    assert_true(present);
    return value;
}

static const char *words_of(const struct json_node *object, const char *key) {
    struct fault fault;
    const char *value = NULL;
    bool present = false;
    assert_int_equal(json_get_text(object, key, &value, &present, &fault), OK);
    assert_true(present);
    return value;
}

static struct json_node element(const struct json_document *document, size_t index, size_t count) {
    struct json_node list;
    struct fault fault;
    bool present = false;
    assert_int_equal(json_get_array(&document->root, "snapshots", &list, &present, &fault), OK);
    assert_true(present);
    assert_int_equal(json_child_count(&list), count);
    return json_element(&list, index);
}

static bool is_good(const struct json_node *object) {
    struct fault fault;
    bool value = false;
    assert_int_equal(json_get_bool(object, "good", &value, NULL, &fault), OK);
    return value;
}

static struct run_fixture *saved(void) {
    struct run_fixture *run = run_start(3);
    struct snapshot_writer writer;
    run_fixture_open(run, &writer);
    for (int64_t step = 1; step <= 2; step++) {
        const struct snapshot_state state = {.step = step, .seed = 5};
        assert_int_equal(snapshot_save(&writer, &state, &run->staging, &run->fault), OK);
    }
    return run;
}

static void damage(const struct run_fixture *run, int64_t step) {
    static char folder[PATH_BYTES];
    static char path[PATH_BYTES];
    snapshot_path(run->folder, SNAPSHOT_COMPLETE, step, folder);
    path_join(folder, "weights.safetensors", path, sizeof path);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 700), 1);
    close(fd);
}

static void list_and_verify_tell_good_from_damaged(void **state) {
    (void)state;
    struct run_fixture *run = saved();
    assert_int_equal(RUN("list", run->folder, "--json"), 0);
    struct json_document document = parsed();
    assert_int_equal(number(&document.root, "format"), 1);
    struct json_node first = element(&document, 0, 2);
    assert_int_equal(number(&first, "step"), 1);
    assert_int_equal(number(&first, "sequence"), 1);
    json_finish(&document);
    assert_int_equal(RUN("verify", run->folder), 0);
    assert_non_null(strstr(output, "step-000000002: step 2, saved "));

    damage(run, 2);
    assert_int_equal(RUN("list", run->folder), 0);
    assert_int_equal(RUN("verify", run->folder, "--json"), 2);
    document = parsed();
    struct json_node second = element(&document, 1, 2);
    first = element(&document, 0, 2);
    assert_true(is_good(&first));
    assert_false(is_good(&second));
    assert_non_null(strstr(words_of(&second, "place"), "step-000000002/weights.safetensors"));
    json_finish(&document);
    run_finish(run);
}

static void inspect_shows_the_newest_good_one_or_the_named_one(void **state) {
    (void)state;
    struct run_fixture *run = saved();
    static char one[PATH_BYTES];
    snapshot_path(run->folder, SNAPSHOT_COMPLETE, 1, one);
    assert_int_equal(RUN("inspect", run->folder, "--json"), 0);
    struct json_document document = parsed();
    assert_int_equal(number(&document.root, "step"), 2);
    assert_string_equal(words_of(&document.root, "seed"), "5");
    assert_string_equal(words_of(&document.root, "keys"), run->args.keys);
    json_finish(&document);
    assert_int_equal(RUN("inspect", one), 0);
    assert_non_null(strstr(output, "step      1\n"));
    damage(run, 2);
    assert_int_equal(RUN("inspect", run->folder), 0);
    assert_non_null(strstr(output, "step      1\n"));
    damage(run, 1);
    assert_int_equal(RUN("inspect", run->folder), 2);
    assert_int_equal(RUN("inspect", one), 2);
    run_finish(run);
}

static void export_writes_the_type_of_the_config_or_the_one_asked_for(void **state) {
    (void)state;
    struct run_fixture *run = saved();
    static char out[PATH_BYTES];
    static char path[PATH_BYTES];
    struct safetensors file;
    static const struct {
        const char *dtype;
        enum safetensors_dtype stored;
    } CASES[] = {{NULL, ST_BF16}, {"f32", ST_F32}};
    snprintf(out, sizeof out, "%s/step-000000002-model", run->folder);
    path_join(out, "model.safetensors", path, sizeof path);
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        int code = CASES[i].dtype == NULL
                       ? RUN("export", run->folder, "--json")
                       : RUN("export", run->folder, "-o", out, "--dtype", CASES[i].dtype, "--json");
        assert_int_equal(code, 0);
        struct json_document document = parsed();
        assert_int_equal(number(&document.root, "step"), 2);
        assert_string_equal(words_of(&document.root, "model"), out);
        json_finish(&document);
        assert_int_equal(safetensors_open(path, &run->region, &file, &run->fault), OK);
        assert_int_equal(file.header.count, RUN_TENSORS);
        assert_int_equal(file.header.entries[0].dtype, CASES[i].stored);
        safetensors_close(&file);
    }
    assert_int_equal(folder_remove(out, &run->fault), OK);
    run_finish(run);
}

static void bad_usage_and_missing_folders_are_exit_2(void **state) {
    (void)state;
    assert_int_equal(RUN("list", "/nowhere/at/all"), 2);
    assert_int_equal(RUN("burn", "/tmp"), 2);
    assert_int_equal(RUN("list"), 2);
    assert_int_equal(RUN("list", "/tmp", "--fast"), 2);
    struct run_fixture *run = saved();
    assert_int_equal(RUN("export", run->folder, "--dtype", "i32"), 2);
    run_finish(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_and_verify_tell_good_from_damaged),
        cmocka_unit_test(inspect_shows_the_newest_good_one_or_the_named_one),
        cmocka_unit_test(export_writes_the_type_of_the_config_or_the_one_asked_for),
        cmocka_unit_test(bad_usage_and_missing_folders_are_exit_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
