/* Tests of base/yaml: what is read, what is refused, and where the refusal points. */
#include "base/limits.h"
#include "base/text.h"
#include "base/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char SAMPLE[] = "# a comment\n"
                             "name: two words\n"
                             "memory:\n"
                             "  device:\n"
                             "    capacity: 11.5 GiB   # of twelve\n"
                             "    declared:\n"
                             "      - name: \"CUDA: context\"\n"
                             "        bytes: 300MB\n"
                             "      - {name: 'cuBLAS', bytes: 4096}\n"
                             "speeds.f32: 12.7e12\n"
                             "betas: [0.9, 0.95]\n"
                             "unified: true\n"
                             "empty:\n";

static struct region region;
static struct fault fault;

static int finish_region(void **state) {
    (void)state;
    region_finish(&region);
    return 0;
}

static struct yaml_document open_text(const char *text) {
    struct yaml_document document;
    memset(&fault, 0, sizeof fault);
    enum status status = yaml_open(text, strlen(text), "f.yaml", &region, &document, &fault);
    if (status != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return document;
}

static void nodes_carry_paths_texts_and_places_in_file_order(void **state) {
    (void)state;
    static const struct {
        const char *path, *text;
        enum yaml_kind kind;
        int line, column;
    } WANTED[] = {
        {"name", "two words", YAML_SCALAR, 2, 1},
        {"memory", "", YAML_MAP, 3, 1},
        {"memory.device", "", YAML_MAP, 4, 3},
        {"memory.device.capacity", "11.5 GiB", YAML_SCALAR, 5, 5},
        {"memory.device.declared", "", YAML_LIST, 6, 5},
        {"memory.device.declared[0]", "", YAML_MAP, 7, 9},
        {"memory.device.declared[0].name", "CUDA: context", YAML_SCALAR, 7, 9},
        {"memory.device.declared[0].bytes", "300MB", YAML_SCALAR, 8, 9},
        {"memory.device.declared[1]", "", YAML_MAP, 9, 9},
        {"memory.device.declared[1].name", "cuBLAS", YAML_SCALAR, 9, 10},
        {"memory.device.declared[1].bytes", "4096", YAML_SCALAR, 9, 26},
        {"speeds.f32", "12.7e12", YAML_SCALAR, 10, 1},
        {"betas", "", YAML_LIST, 11, 1},
        {"betas[0]", "0.9", YAML_SCALAR, 11, 9},
        {"betas[1]", "0.95", YAML_SCALAR, 11, 14},
        {"unified", "true", YAML_SCALAR, 12, 1},
        {"empty", "", YAML_SCALAR, 13, 1},
    };
    struct yaml_document document = open_text(SAMPLE);
    assert_int_equal(document.node_count, ARRAY_COUNT(WANTED));
    const struct yaml_node *node = document.first;
    for (size_t i = 0; i < ARRAY_COUNT(WANTED); i++, node = node->next) {
        assert_non_null(node);
        assert_string_equal(node->path, WANTED[i].path);
        assert_string_equal(node->text, WANTED[i].text);
        assert_int_equal(node->kind, WANTED[i].kind);
        assert_int_equal(node->line, WANTED[i].line);
        assert_int_equal(node->column, WANTED[i].column);
        assert_ptr_equal(yaml_find(&document, WANTED[i].path), node);
    }
    assert_null(node);
    assert_null(yaml_find(&document, "memory.host"));
}

static void children_and_siblings_lead_through_a_list(void **state) {
    (void)state;
    struct yaml_document document = open_text(SAMPLE);
    const struct yaml_node *list = yaml_find(&document, "memory.device.declared");
    assert_int_equal(list->child_count, 2);
    assert_string_equal(list->child->child->text, "CUDA: context");
    assert_string_equal(list->child->sibling->child->text, "cuBLAS");
    assert_null(list->child->sibling->sibling);
    assert_ptr_equal(list->child->parent, list);
    assert_ptr_equal(document.root->child, document.first);
    assert_int_equal(document.root->child_count, 6);
}

static void open_copies_what_it_keeps(void **state) {
    (void)state;
    char text[] = "key: value\n";
    char place[] = "p.yaml";
    struct yaml_document document;
    assert_int_equal(yaml_open(text, strlen(text), place, &region, &document, &fault), OK);
    memset(text, 'x', sizeof text - 1);
    memset(place, 'x', sizeof place - 1);
    assert_string_equal(document.first->path, "key");
    assert_string_equal(document.first->text, "value");
    assert_string_equal(document.source_name, "p.yaml");
}

static void open_refuses_what_is_outside_the_subset(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *reason;
    } CASES[] = {
        {"", "f.yaml:1:1", "empty"},
        {"# only a comment\n", "f.yaml:1:1", "empty"},
        {"just text\n", "f.yaml:1:1", "map of keys"},
        {"- 1\n- 2\n", "f.yaml:1:1", "map of keys"},
        {"a: 1\nb: &x 2\n", "f.yaml:2:7", "anchors"},
        {"a: 1\nb: *x\n", "f.yaml:2", "anchors"},
        {"a: !!int 1\n", "f.yaml:1:10", "tags"},
        {"a: !mine {b: 1}\n", "f.yaml:1", "tags"},
        {"a: 1\n<<: {b: 1}\n", "f.yaml:2:1", "merge"},
        {"a: 1\nb: 2\na: 3\n", "f.yaml:3:1", "the key a appears twice, first on line 1"},
        {"a:\n  b: 1\na.b: 2\n", "f.yaml:3:1", "the key a.b appears twice, first on line 2"},
        {"a.b: 2\na: {b: 1}\n", "f.yaml:2:5", "the key a.b appears twice, first on line 1"},
        {"a: 1\n---\nb: 2\n", "f.yaml:2:1", "more than one document"},
        {"%YAML 1.2\n---\na: 1\n", "f.yaml:", "directives"},
        {"{a: 1}: 2\n", "f.yaml:1:1", "plain name"},
        {"? [a, b]\n: 2\n", "f.yaml:1:3", "plain name"},
        {"a: {b: {c: {d: {e: {f: {g: {h: {i: 1}}}}}}}}\n", "f.yaml:1", "deeply"},
        {"a: \"x\\0y\"\n", "f.yaml:1:5", "NUL"},
        {"a: x\x01y\n", "f.yaml:1:5", "control character"},
        {"a: \"x\nb: 1\nc: 2\n", "f.yaml:1:4", "\" opens a value here, and nothing closes it"},
        {"a: 1\nb: 'x # y\nc: 2\n", "f.yaml:2:4", "' opens a value here, and nothing closes it"},
        {"a: 1 # it's [fine\nb: {c: 1\nd: 2\n", "f.yaml:2:4",
         "{ opens a value here, and nothing closes it"},
        {"a: [1, \"]\", 2\nb: 1\n", "f.yaml:1:4", "[ opens a value here, and nothing closes it"},
        {"a: [{b: 1}, {c: 2]\n", "f.yaml:1:13", "{ opens a value here, and nothing closes it"},
        {"a: it's\nb: ]\n", "f.yaml:2:4", "closing bracket"},
        {"ab: 1\nc: \xff\n", "f.yaml:2:4", "malformed UTF-8"},
        {"a: \xed\xa0\x80\n", "f.yaml:1:4", "malformed UTF-8"},
        {"a: \xc0\xaf\n", "f.yaml:1:4", "malformed UTF-8"},
        {"a: 1\n b: 2\n", "f.yaml:1:4", "multiline plain key"},
        {"a: [1, 2\nb: 3\n", "f.yaml:", ""},
        {"a: \"no end\n", "f.yaml:", ""},
        {"\tb: 1\n", "f.yaml:1", ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct yaml_document document = {.source_name = "untouched"};
        memset(&fault, 0, sizeof fault);
        enum status status =
            yaml_open(CASES[i].text, strlen(CASES[i].text), "f.yaml", &region, &document, &fault);
        if (status != STATUS_INPUT || strstr(fault.reason, CASES[i].reason) == NULL ||
            fault.reason[0] == '\0' ||
            strncmp(fault.subject, CASES[i].place, strlen(CASES[i].place)) != 0) {
            fail_msg("case %zu: status %d, \"%s: %s\"", i, status, fault.subject, fault.reason);
        }
        assert_string_equal(document.source_name, "untouched");
    }
}

static void open_keeps_utf8_text_whole(void **state) {
    (void)state;
    struct yaml_document document = open_text("name: Zürich 北京 \xf0\x9f\x90\x9d\n");
    assert_string_equal(document.first->text, "Zürich 北京 \xf0\x9f\x90\x9d");
}

static void open_bounds_bytes_nodes_and_key_length(void **state) {
    (void)state;
    struct yaml_document document;
    size_t capacity = YAML_BYTES_MAX + 2;
    char *buffer = malloc(capacity);
    memset(buffer, ' ', capacity);
    memcpy(buffer, "a: 1\n", 5);
    assert_int_equal(yaml_open(buffer, YAML_BYTES_MAX + 1, "f", &region, &document, &fault),
                     STATUS_INPUT);
    struct text text = text_over(buffer, capacity);
    for (int i = 0; i <= YAML_NODES_MAX; i++) {
        text_add(&text, "k%d: 1\n", i);
    }
    assert_int_equal(yaml_open(buffer, text.length, "f", &region, &document, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "too many"));
    text = text_over(buffer, capacity);
    for (int i = 0; i < NAME_BYTES; i++) {
        text_add(&text, "k");
    }
    text_add(&text, ": 1\n");
    assert_int_equal(yaml_open(buffer, text.length, "f", &region, &document, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "too long"));
    free(buffer);
}

static void expect_known_names_the_nearest_key(void **state) {
    (void)state;
    static const char *const NAMES[] = {"name",           "memory.device.capacity",
                                        "betas",          "memory.device.declared[].name",
                                        "batch.tokens",   "memory.device.declared[].bytes",
                                        "strategy.over.*"};
    static const struct {
        const char *text, *place, *reason, *remedy;
    } CASES[] = {
        {"nme: x\n", "f.yaml:1:1", "nme is not", "did you mean name?"},
        {"name: x\nmemry:\n  device: {}\n", "f.yaml:2:1", "memry is not", "did you mean memory?"},
        {"memory:\n  device: {capasity: 1}\n", "f.yaml:2:12", "memory.device.capasity is not",
         "did you mean memory.device.capacity?"},
        {"memory: {device: {declared: [{byte: 1}]}}\n", "f.yaml:1:31",
         "memory.device.declared[0].byte is not", "memory.device.declared[].bytes?"},
        {"tokens: 3\n", "f.yaml:1:1", "tokens is not", "did you mean batch.tokens?"},
        {"zzzzqqqq: 3\n", "f.yaml:1:1", "zzzzqqqq is not", ""},
        {"batch: 3\n", "f.yaml:1:1", "batch is a map of keys", ""},
        {"memory: [1]\n", "f.yaml:1:1", "memory is a map of keys", ""},
        {"name: {a: 1}\n", "f.yaml:1:8", "name.a is not", ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct yaml_document document = open_text(CASES[i].text);
        enum status status = yaml_reject_unknown_keys(&document, NAMES, ARRAY_COUNT(NAMES), &fault);
        if (status != STATUS_INPUT || strcmp(fault.subject, CASES[i].place) != 0 ||
            strncmp(fault.reason, CASES[i].reason, strlen(CASES[i].reason)) != 0 ||
            strstr(fault.remedy, CASES[i].remedy) == NULL) {
            fail_msg("case %zu: \"%s: %s; %s\"", i, fault.subject, fault.reason, fault.remedy);
        }
    }
    struct yaml_document good =
        open_text("memory:\n  device:\n    declared: [{name: a, bytes: 1}]\nbatch:\n"
                  "strategy: {over: {h.0: {zero: 3}, x: [1]}}\nbetas: [1, 2]\n");
    assert_int_equal(yaml_reject_unknown_keys(&good, NAMES, ARRAY_COUNT(NAMES), &fault), OK);
}

static void typed_readings_take_whole_values_only(void **state) {
    (void)state;
    struct yaml_document document =
        open_text("i: 12\nf: 1.5e3\nb: false\ns: 11.5 GiB\nt: text\nbad: 12x\nn:\nm: {a: 1}\n"
                  "q: \"\"\nnan: nan\nhex: 0x10\n");
    const struct yaml_range range = {0, 100000};
    int64_t integer = -1;
    double number = -1;
    bool flag = true;
    uint64_t bytes = 7;
    const char *text = "before";
    assert_int_equal(yaml_read_i64(&document, yaml_find(&document, "i"), range, &integer, &fault),
                     OK);
    assert_int_equal(integer, 12);
    assert_int_equal(yaml_read_f64(&document, yaml_find(&document, "f"), range, &number, &fault),
                     OK);
    assert_true(number == 1500.0);
    assert_int_equal(yaml_read_bool(&document, yaml_find(&document, "b"), &flag, &fault), OK);
    assert_false(flag);
    assert_int_equal(yaml_read_bytes(&document, yaml_find(&document, "s"), &bytes, &fault), OK);
    assert_int_equal(bytes, 12348030976);
    assert_int_equal(yaml_read_text(&document, yaml_find(&document, "t"), &text, &fault), OK);
    assert_string_equal(text, "text");
    static const char *const NEITHER[] = {"bad", "n", "m", "q", "nan"};
    for (size_t i = 0; i < ARRAY_COUNT(NEITHER); i++) {
        const struct yaml_node *node = yaml_find(&document, NEITHER[i]);
        assert_int_equal(yaml_read_i64(&document, node, range, &integer, &fault), STATUS_INPUT);
        assert_int_equal(yaml_read_f64(&document, node, range, &number, &fault), STATUS_INPUT);
        assert_int_equal(yaml_read_bool(&document, node, &flag, &fault), STATUS_INPUT);
        assert_int_equal(yaml_read_bytes(&document, node, &bytes, &fault), STATUS_INPUT);
    }
    assert_int_equal(yaml_read_text(&document, yaml_find(&document, "q"), &text, &fault),
                     STATUS_INPUT);
    assert_int_equal(integer, 12);
    assert_true(number == 1500.0);
    assert_int_equal(bytes, 12348030976);
}

static void typed_readings_say_what_they_wanted(void **state) {
    (void)state;
    struct yaml_document document = open_text("a:\n  threads: 900\n");
    int64_t value = 0;
    const struct yaml_range range = {1, 256};
    assert_int_equal(
        yaml_read_i64(&document, yaml_find(&document, "a.threads"), range, &value, &fault),
        STATUS_INPUT);
    assert_string_equal(fault.subject, "f.yaml:2:3");
    assert_string_equal(fault.reason, "a.threads is \"900\", not a whole number from 1 to 256");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nodes_carry_paths_texts_and_places_in_file_order, finish_region),
        cmocka_unit_test_teardown(children_and_siblings_lead_through_a_list, finish_region),
        cmocka_unit_test_teardown(open_copies_what_it_keeps, finish_region),
        cmocka_unit_test_teardown(open_refuses_what_is_outside_the_subset, finish_region),
        cmocka_unit_test_teardown(open_keeps_utf8_text_whole, finish_region),
        cmocka_unit_test_teardown(open_bounds_bytes_nodes_and_key_length, finish_region),
        cmocka_unit_test_teardown(expect_known_names_the_nearest_key, finish_region),
        cmocka_unit_test_teardown(typed_readings_take_whole_values_only, finish_region),
        cmocka_unit_test_teardown(typed_readings_say_what_they_wanted, finish_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
