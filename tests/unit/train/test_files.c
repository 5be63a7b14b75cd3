/* Tests of train/files and train/list: lists, patterns, and names that only look like patterns. */
#include "base/limits.h"
#include "base/text.h"
#include "runtime/settings/comma_list.h"
#include "runtime/settings/path_list.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct region region;
static struct fault fault;

static int open_files(void **state) {
    int failed = scratch_open(state);
    static const char *const PATHS[] = {"d/b.u16",  "d/a.u16",     "d/c.txt",    "odd[1].u16",
                                        "odd1.u16", "c,d/e,f.u16", "e[1]/f.u16", "e1/g.u16"};
    for (size_t i = 0; failed == 0 && i < ARRAY_COUNT(PATHS); i++) {
        scratch_write_text(PATHS[i], "x");
    }
    return failed;
}

enum { WANTED_MAX = 3 };

/* Until NULL. */
static struct path_list paths_of(const char *const *paths) {
    static const char *copies[WANTED_MAX];
    struct path_list list = {.paths = copies};
    while (list.count < WANTED_MAX && paths[list.count] != NULL) {
        copies[list.count] = paths[list.count];
        list.count++;
    }
    return list;
}

static void expands_to(const char *const wanted_paths[WANTED_MAX], const char *joined) {
    struct path_list wanted = paths_of(wanted_paths);
    struct path_list list;
    char got[256];
    struct text text = text_over(got, sizeof got);
    if (path_list_expand(&wanted, &region, &list, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    for (int i = 0; i < list.count; i++) {
        text_add(&text, "%s%s", i > 0 ? " " : "", list.paths[i]);
    }
    assert_string_equal(got, joined);
    region_finish(&region);
}

static void lists_keep_their_order_and_matches_are_sorted(void **state) {
    (void)state;
    expands_to((const char *[WANTED_MAX]){NULL}, "");
    expands_to((const char *[WANTED_MAX]){"d/c.txt", "d/*.u16"}, "d/c.txt d/a.u16 d/b.u16");
    expands_to((const char *[WANTED_MAX]){"d/*.u16", "d/a.u16"}, "d/a.u16 d/b.u16 d/a.u16");
    expands_to((const char *[WANTED_MAX]){"d/[ac].*"}, "d/a.u16 d/c.txt");
}

static void a_missing_file_stays_for_its_reader_to_name(void **state) {
    (void)state;
    expands_to((const char *[WANTED_MAX]){"missing.u16"}, "missing.u16");
}

static void a_comma_is_part_of_a_name(void **state) {
    (void)state;
    expands_to((const char *[WANTED_MAX]){"c,d/e,f.u16", "c,?/*"}, "c,d/e,f.u16 c,d/e,f.u16");
}

static void a_file_whose_name_has_brackets_is_itself(void **state) {
    (void)state;
    expands_to((const char *[WANTED_MAX]){"odd[1].u16"}, "odd[1].u16");
    expands_to((const char *[WANTED_MAX]){"odd[12].u16"}, "odd1.u16");
}

static void a_folder_whose_name_has_brackets_is_itself(void **state) {
    (void)state;
    expands_to((const char *[WANTED_MAX]){"e[1]/*.u16"}, "e[1]/f.u16");
    expands_to((const char *[WANTED_MAX]){"e[1]/f.u16"}, "e[1]/f.u16");
    expands_to((const char *[WANTED_MAX]){"e\\[1]/f.u16"}, "e[1]/f.u16");
    expands_to((const char *[WANTED_MAX]){"[d]/a.u16"}, "d/a.u16");
}

static enum status refuses(const char *second) {
    struct path_list list = {.count = 77};
    struct path_list wanted = paths_of((const char *[WANTED_MAX]){"d/a.u16", second});
    enum status status = path_list_expand(&wanted, &region, &list, &fault);
    assert_int_equal(list.count, 77);
    return status;
}

static void a_pattern_without_a_match_is_refused(void **state) {
    (void)state;
    assert_int_equal(refuses("d/*.u32"), STATUS_INPUT);
    assert_string_equal(fault.subject, "d/*.u32");
    char path[PATH_BYTES + 1];
    memset(path, 'a', PATH_BYTES);
    path[PATH_BYTES] = '\0';
    assert_int_equal(refuses(path), STATUS_INPUT);
    assert_int_equal(refuses(""), STATUS_INPUT);
}

static void list_items_lose_the_spaces_around_them(void **state) {
    (void)state;
    static const char *const WANTED[] = {"a b", "", "c"};
    const char *at = "  a b , ,c,  ";
    struct comma_item item;
    assert_int_equal(comma_list_count(at), 3);
    for (size_t i = 0; i < ARRAY_COUNT(WANTED); i++) {
        assert_true(comma_list_next(&at, &item));
        assert_int_equal(item.length, strlen(WANTED[i]));
        assert_memory_equal(item.text, WANTED[i], item.length);
    }
    assert_false(comma_list_next(&at, &item));
    assert_int_equal(comma_list_count(""), 0);
    assert_int_equal(comma_list_count("a,"), 1);
    assert_int_equal(comma_list_count("a,,b"), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_keep_their_order_and_matches_are_sorted),
        cmocka_unit_test(a_missing_file_stays_for_its_reader_to_name),
        cmocka_unit_test(a_comma_is_part_of_a_name),
        cmocka_unit_test(a_file_whose_name_has_brackets_is_itself),
        cmocka_unit_test(a_folder_whose_name_has_brackets_is_itself),
        cmocka_unit_test(a_pattern_without_a_match_is_refused),
        cmocka_unit_test(list_items_lose_the_spaces_around_them),
    };
    return cmocka_run_group_tests(tests, open_files, scratch_close);
}
