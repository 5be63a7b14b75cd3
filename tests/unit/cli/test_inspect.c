/* test_inspect: the command's document holds the published numbers, and bad usage is exit 2. */
#include "base/file.h"
#include "base/json.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/cli/reports/reports.h"
#include "tests/unit/cli/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OUTPUT_BYTES = 4 << 20 };

static int run(const char *const *words, char *output) {
    return capture(&COMMAND_INSPECT, words, output, OUTPUT_BYTES);
}

static int64_t number(const struct json_node *object, const char *key) {
    int64_t value = -1;
    struct fault fault;
    assert_int_equal(json_get_i64(object, key, &value, NULL, &fault), OK);
    return value;
}

static struct json_node member(const struct json_node *object, const char *key) {
    struct json_node node;
    assert_true(json_find(object, key, &node));
    return node;
}

static void the_document_of_llama_405b_holds_its_numbers(void **state) {
    (void)state;
    char *output = malloc(OUTPUT_BYTES);
    const char *const words[] = {"inspect", CONFIGS "/llama-3.1-405b.json", "--json", NULL};
    struct json_document document;
    struct fault fault;
    assert_int_equal(run(words, output), 0);
    assert_int_equal(json_parse(output, strlen(output), OUTPUT_BYTES, "output", &document, &fault),
                     OK);
    assert_int_equal(number(&document.root, "format"), 1);
    struct json_node parameters = member(&document.root, "parameters");
    assert_int_equal(number(&parameters, "total"), 405853388800);
    struct json_node bytes = member(&document.root, "parameter_bytes");
    assert_int_equal(number(&bytes, "bf16"), 2 * 405853388800);
    struct json_node flops = member(&document.root, "flops_per_token");
    assert_int_equal(number(&flops, "products"), 2 * (405853388800 - 2101346304 - 253L * 16384));
    struct json_node tensors = member(&document.root, "tensors");
    assert_int_equal(json_child_count(&tensors), 1137);
    struct json_node units = member(&document.root, "units");
    assert_int_equal(json_child_count(&units), 128);
    json_finish(&document);
    free(output);
}

/* The parts that ranks hold lie one behind the other in each parameter, and are all of the unit. */
static void expect_parts_once(const struct json_node *unit) {
    struct json_node holds = member(unit, "holds");
    char name[NAME_BYTES] = "";
    int64_t next = 0;
    int64_t sum = 0;
    for (size_t rank = 0; rank < json_child_count(&holds); rank++) {
        struct json_node parts = json_element(&holds, rank);
        for (size_t i = 0; i < json_child_count(&parts); i++) {
            struct json_node part = json_element(&parts, i);
            const char *of = NULL;
            struct fault fault;
            assert_int_equal(json_get_text(&part, "name", &of, NULL, &fault), OK);
            next = strcmp(of, name) == 0 ? next : 0;
            snprintf(name, sizeof name, "%s", of);
            assert_int_equal(number(&part, "first"), next);
            assert_true(number(&part, "count") > 0);
            next += number(&part, "count");
            sum += number(&part, "count");
        }
    }
    assert_int_equal(sum, number(unit, "parameters"));
}

static void shards_of_every_unit_cover_it_once(void **state) {
    (void)state;
    char *output = malloc(OUTPUT_BYTES);
    const char *const words[] = {"inspect", CONFIGS "/smollm2-135m.json", "--json", "--shards", "7",
                                 NULL};
    struct json_document document;
    struct fault fault;
    assert_int_equal(run(words, output), 0);
    assert_int_equal(json_parse(output, strlen(output), OUTPUT_BYTES, "output", &document, &fault),
                     OK);
    struct json_node units = member(&document.root, "units");
    int64_t parameters = 0;
    for (size_t u = 0; u < json_child_count(&units); u++) {
        struct json_node unit = json_element(&units, u);
        struct json_node shards = member(&unit, "shards");
        assert_int_equal(json_child_count(&shards), 7);
        int64_t covered = 0;
        for (size_t rank = 0; rank < 7; rank++) {
            struct json_node range = json_element(&shards, rank);
            struct json_node begin_node = json_element(&range, 0);
            struct json_node end_node = json_element(&range, 1);
            int64_t begin;
            int64_t end;
            assert_int_equal(json_as_i64(&begin_node, &begin, &fault), OK);
            assert_int_equal(json_as_i64(&end_node, &end, &fault), OK);
            assert_true(begin == covered && end >= begin && begin % GRANULE_ELEMENTS == 0);
            covered = end;
        }
        expect_parts_once(&unit);
        assert_int_equal(covered, number(&unit, "elements"));
        parameters += number(&unit, "parameters");
        assert_int_equal(covered - number(&unit, "parameters"), number(&unit, "padding"));
    }
    assert_int_equal(parameters, 134515008);
    json_finish(&document);
    free(output);
}

static void the_text_names_count_units_and_tensors(void **state) {
    (void)state;
    char *output = malloc(OUTPUT_BYTES);
    const char *const words[] = {"inspect", CONFIGS "/gpt2.json", "--shards", "2", NULL};
    assert_int_equal(run(words, output), 0);
    assert_non_null(strstr(output, "124,439,808"));
    assert_non_null(strstr(output, "head tied to the embedding"));
    assert_non_null(strstr(output, "layers.0..11"));
    assert_non_null(strstr(output, "3543936..7087872"));
    assert_non_null(strstr(output, "transformer.h.{0..11}.attn.c_attn.weight"));
    assert_non_null(strstr(output, "Skep trains without dropout"));
    free(output);
}

struct misuse {
    const char *words[CAPTURE_WORDS_MAX];
    const char *shown;
};

static void bad_usage_and_bad_input_are_exit_2(void **state) {
    (void)state;
    static const struct misuse ROWS[] = {
        {{"inspect"}, "skep: inspect: MODEL is missing; see `skep help inspect`"},
        {{"inspect", "a", "b"}, "skep: inspect: one argument too many: \"b\""},
        {{"inspect", "a", "b=c"}, "skep: inspect: one argument too many: \"b=c\""},
        {{"inspect", "--frob", "a"}, "skep: inspect: unknown option: \"--frob\""},
        {{"inspect", "--jsn", "a"}, "did you mean --json?"},
        {{"inspect", "a", "--shards"}, "skep: inspect: --shards needs a value"},
        {{"inspect", "a", "--shards", "0"}, "a whole number of at least 1"},
        {{"inspect", "a", "--shards", "4097"}, "at most 4096"},
        {{"inspect", "a", "--shards", "2x"}, "\"2x\" is not a whole number"},
        {{"inspect", "/no/such"}, "skep: /no/such: no such file or folder"},
        {{"inspect", "no-such-org/no-such-model"}, "hf download no-such-org/no-such-model"},
    };
    char *output = malloc(OUTPUT_BYTES);
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        assert_int_equal(run(ROWS[i].words, output), 2);
        if (strstr(output, ROWS[i].shown) == NULL) {
            fail_msg("wanted %s, got %s", ROWS[i].shown, output);
        }
    }
    free(output);
}

static void a_model_path_is_escaped(void **state) {
    (void)state;
    char *output = malloc(OUTPUT_BYTES);
    char folder[] = "/tmp/skep \"quoted\" \\ XXXXXX";
    char path[256];
    struct fault fault;
    int fd;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(file_open_write(path, &fd, &fault), OK);
    close(fd);
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(file_open_write(path, &fd, &fault), OK);
    assert_int_equal(file_write_at(fd, path, "{\"model_type\":\"gpt2\"}", 21, 0, &fault), OK);
    close(fd);
    const char *const words[] = {"inspect", folder, "--json", NULL};
    struct json_document document;
    assert_int_equal(run(words, output), 0);
    assert_int_equal(json_parse(output, strlen(output), OUTPUT_BYTES, "output", &document, &fault),
                     OK);
    const char *text = NULL;
    assert_int_equal(json_get_text(&document.root, "model", &text, NULL, &fault), OK);
    assert_string_equal(text, folder);
    assert_int_equal(json_get_text(&document.root, "weights", &text, NULL, &fault), OK);
    assert_string_equal(text, "model.safetensors");
    json_finish(&document);
    assert_int_equal(folder_remove(folder, &fault), OK);
    free(output);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_of_llama_405b_holds_its_numbers),
        cmocka_unit_test(shards_of_every_unit_cover_it_once),
        cmocka_unit_test(the_text_names_count_units_and_tensors),
        cmocka_unit_test(bad_usage_and_bad_input_are_exit_2),
        cmocka_unit_test(a_model_path_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
