/* test_allow_list: which keys may join, what is rejected with its position, and edits that leave
 * the rest of the file alone. */
#include "runtime/swarm/tracker/allow_list.h"

#include "base/file.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { KEYS = 6, EDITORS = 6, TEXT_BYTES = 4096 };

static struct allow_list roster;
static struct public_keys keys[KEYS];
static char letters[KEYS][KEYS_TEXT_BYTES];
static char folder[64], path[128];
static struct fault fault;

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/skep-roster-XXXXXX");
    assert_non_null(mkdtemp(folder));
    struct text text = text_over(path, sizeof path);
    text_add(&text, "%s/roster.yaml", folder);
    for (uint8_t i = 0; i < KEYS; i++) {
        uint8_t secrets[2 * KEY_BYTES] = {[1] = (uint8_t)(i + 1), [KEY_BYTES] = (uint8_t)(i + 1)};
        struct key_pairs pairs;
        keys_from_secrets(secrets, &pairs);
        keys[i] = pairs.public_keys;
        public_keys_write(&keys[i], letters[i]);
    }
    memset(&roster, 0, sizeof roster);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    struct text text = text_over(command, sizeof command);
    text_add(&text, "rm -r %s", folder);
    return system(command);
}

/* The file's text; K0 .. K5 in the form become keys. */
static const char *with_keys(const char *form) {
    static char buffer[TEXT_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    for (const char *at = form; *at != '\0'; at++) {
        if (at[0] == 'K' && at[1] >= '0' && at[1] < '0' + KEYS) {
            text_add(&text, "%s", letters[at[1] - '0']);
            at++;
        } else {
            text_add_bytes(&text, at, 1);
        }
    }
    assert_false(text.truncated);
    return buffer;
}

static void write_file(const char *form) {
    const char *text = with_keys(form);
    int fd;
    assert_int_equal(file_open_write(path, &fd, &fault), OK);
    assert_int_equal(file_write_at(fd, path, text, strlen(text), 0, &fault), OK);
    close(fd);
}

static void expect_file(const char *form) {
    static char found[TEXT_BYTES];
    size_t length;
    assert_int_equal(file_read_text(path, found, sizeof found, &length, &fault), OK);
    assert_string_equal(found, with_keys(form));
}

static void no_file_lets_nobody_in(void **state) {
    (void)state;
    roster.is_open = true;
    roster.count = 3;
    assert_int_equal(allow_list_read(path, &roster, &fault), OK);
    assert_int_equal(roster.count, 0);
    assert_false(allow_list_permits(&roster, &keys[0]));
    assert_false(allow_list_is_stale(path, &roster));
}

static void both_keys_of_a_row_must_match(void **state) {
    (void)state;
    write_file("members:\n  - key: K0\n    name: ada\n  - {key: \"K1\"}\n");
    assert_true(allow_list_is_stale(path, &roster));
    assert_int_equal(allow_list_read(path, &roster, &fault), OK);
    assert_int_equal(roster.count, 2);
    assert_string_equal(roster.rows[0].name, "ada");
    assert_string_equal(roster.rows[1].name, "");
    assert_true(allow_list_permits(&roster, &keys[0]));
    assert_true(allow_list_permits(&roster, &keys[1]));
    struct public_keys mixed = keys[0];
    memcpy(mixed.sign, keys[1].sign, KEY_BYTES);
    assert_false(allow_list_permits(&roster, &mixed));
    assert_false(allow_list_permits(&roster, &keys[2]));
}

static void an_open_roster_lets_everybody_in(void **state) {
    (void)state;
    write_file("open: true\n");
    assert_int_equal(allow_list_read(path, &roster, &fault), OK);
    assert_true(allow_list_permits(&roster, &keys[3]));
    assert_null(allow_list_find(&roster, &keys[3]));
}

static void an_open_roster_keeps_three_names(void **state) {
    (void)state;
    write_file("open: true\n");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(allow_list_add(path, letters[i], NULL, &fault), OK);
    }
    assert_int_equal(allow_list_remove(path, letters[3], &fault), OK);
    assert_int_equal(allow_list_remove(path, letters[2], &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "has only three members, the fewest"));
    assert_int_equal(allow_list_read(path, &roster, &fault), OK);
    assert_int_equal(roster.count, 3);
}

static const char TWO_NAMES[] = "members:\n  - key: K0\n  - key: K1\nopen: true\n";

/* A list that is being edited may be incomplete. */
static void a_tracker_needs_three_names_in_an_open_roster(void **state) {
    (void)state;
    write_file(TWO_NAMES);
    assert_int_equal(allow_list_read(path, &roster, &fault), OK);
    memset(&roster, 0, sizeof roster);
    assert_int_equal(allow_list_read_complete(path, &roster, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.subject, "roster.yaml:4:"));
    assert_non_null(strstr(fault.reason, "has only 2 members: an open swarm needs at least 3"));
    assert_non_null(strstr(fault.remedy, "skep roster add KEY"));
    assert_int_equal(roster.count, 0);
    assert_int_equal(allow_list_add(path, letters[2], NULL, &fault), OK);
    assert_int_equal(allow_list_read_complete(path, &roster, &fault), OK);
    assert_int_equal(roster.count, 3);
}

/* The list that was in force remains in force. */
static void a_running_tracker_keeps_a_complete_list(void **state) {
    struct region region = {0};
    struct allow_list_watch *watch = NULL;
    (void)state;
    write_file(TWO_NAMES);
    assert_int_equal(allow_list_watch_open(path, NULL, &region, &watch, &fault), STATUS_INPUT);
    write_file("members:\n  - key: K0\n");
    assert_int_equal(allow_list_watch_open(path, NULL, &region, &watch, &fault), OK);
    assert_int_equal(allow_list_add(path, letters[1], NULL, &fault), OK);
    assert_true(allow_list_watch_poll(watch, 1000));
    unlink(path);
    write_file(TWO_NAMES);
    assert_false(allow_list_watch_poll(watch, 2000));
    assert_false(allow_list_watch_permits(watch, &keys[2]));
    assert_true(allow_list_watch_permits(watch, &keys[1]));
    assert_false(allow_list_watch_poll(watch, 3000)); /* reported once */
    assert_int_equal(allow_list_add(path, letters[3], NULL, &fault), OK);
    assert_true(allow_list_watch_poll(watch, 4000));
    assert_true(allow_list_watch_permits(watch, &keys[2]));
    region_finish(&region);
}

static void what_is_wrong_is_refused_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *form, *place, *reason;
    } ROWS[] = {
        {"members:\n  - key: K0\n  - key: K0\n", ":3:", "earlier row"},
        {"members:\n  - key: pabc\n", ":2:", "members[0].key"},
        {"members:\n  - name: ada\n", ":2:", "has no key"},
        {"members:\n  - key: K0\n    name: \"a b\"\n", ":3:", "members[0].name"},
        {"members:\n  - key: K0\n    role: seed\n", ":3:", "role"},
        {"members: K0\n", ":1:", "not a list"},
        {"members:\n  - K0\n", ":2:", ""},
        {"open: perhaps\n", ":1:", "open"},
        {"opne: true\n", ":1:", "opne"},
    };
    write_file("members:\n  - key: K4\n");
    assert_int_equal(allow_list_read(path, &roster, &fault), OK);
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        write_file(ROWS[i].form);
        assert_int_equal(allow_list_read(path, &roster, &fault), STATUS_INPUT);
        assert_non_null(strstr(fault.subject, ROWS[i].place));
        assert_non_null(strstr(fault.reason, ROWS[i].reason));
        assert_true(allow_list_permits(&roster, &keys[4]));
        assert_false(allow_list_is_stale(path, &roster));
    }
}

static void adding_keeps_what_people_wrote(void **state) {
    (void)state;
    write_file("# ours\nopen: false # not yet\nmembers:\n    # the lab\n    - name: ada # Ada\n"
               "      key: K0\n    - key: K1\n# the end\n");
    assert_int_equal(allow_list_add(path, letters[2], "eve", &fault), OK);
    expect_file("# ours\nopen: false # not yet\nmembers:\n    # the lab\n    - name: ada # Ada\n"
                "      key: K0\n    - key: K1\n    - key: K2\n      name: \"eve\"\n# the end\n");
    assert_int_equal(allow_list_remove(path, "ada", &fault), OK);
    expect_file("# ours\nopen: false # not yet\nmembers:\n    # the lab\n"
                "    - key: K1\n    - key: K2\n      name: \"eve\"\n# the end\n");
    assert_int_equal(allow_list_remove(path, letters[1], &fault), OK);
    assert_int_equal(allow_list_remove(path, "eve", &fault), OK);
    expect_file("# ours\nopen: false # not yet\nmembers:\n    # the lab\n# the end\n");
    assert_int_equal(allow_list_read(path, &roster, &fault), OK);
    assert_int_equal(roster.count, 0);
}

static void a_file_of_any_style_can_be_added_to(void **state) {
    (void)state;
    static const char *const FORMS[] = {"members: [{key: K0}]",
                                        "members: [{key: K0}]\nopen: false\n",
                                        "{members: [{key: K0}]}\n",
                                        "members:\n- key: K0",
                                        "members:\n  -\n    key: K0\n",
                                        "members:\n  - {key: K0,\n     name: \"\\x61da\"}\n",
                                        "members:\n  - key: >-\n      K0\n    name: ada\n"};
    for (size_t i = 0; i < ARRAY_COUNT(FORMS); i++) {
        write_file(FORMS[i]);
        assert_int_equal(allow_list_add(path, letters[1], "", &fault), OK);
        assert_int_equal(allow_list_add(path, letters[2], NULL, &fault), OK);
        assert_int_equal(allow_list_remove(path, letters[1], &fault), OK);
        assert_int_equal(allow_list_read(path, &roster, &fault), OK);
        assert_int_equal(roster.count, 2);
        assert_true(allow_list_permits(&roster, &keys[0]) && allow_list_permits(&roster, &keys[2]));
    }
}

static void a_file_is_made_by_the_first_key(void **state) {
    (void)state;
    assert_int_equal(allow_list_add(path, letters[0], "ada", &fault), OK);
    assert_int_equal(allow_list_read(path, &roster, &fault), OK);
    assert_int_equal(roster.count, 1);
    assert_string_equal(roster.rows[0].name, "ada");
}

static void wrong_edits_change_nothing(void **state) {
    (void)state;
    static const char FORM[] = "open: false\nmembers:\n  - key: K0\n    name: ada\n";
    write_file(FORM);
    assert_int_equal(allow_list_add(path, letters[0], "eve", &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.subject, ":3:"));
    assert_int_equal(allow_list_add(path, letters[1], "ada", &fault), STATUS_INPUT);
    assert_int_equal(allow_list_add(path, letters[1], "a b", &fault), STATUS_INPUT);
    assert_int_equal(allow_list_add(path, "pabc", NULL, &fault), STATUS_INPUT);
    assert_int_equal(allow_list_remove(path, letters[1], &fault), STATUS_INPUT);
    assert_int_equal(allow_list_remove(path, "eve", &fault), STATUS_INPUT);
    assert_int_equal(allow_list_remove(path, "", &fault), STATUS_INPUT);
    expect_file(FORM);
    write_file("members: 5\n");
    assert_int_equal(allow_list_add(path, letters[1], NULL, &fault), STATUS_INPUT);
    expect_file("members: 5\n");
}

static void editors_at_once_all_get_their_row(void **state) {
    (void)state;
    pid_t children[EDITORS];
    for (int i = 0; i < EDITORS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            _exit(allow_list_add(path, letters[i], NULL, &fault) == OK ? 0 : 1);
        }
    }
    for (int i = 0; i < EDITORS; i++) {
        int ended = -1;
        assert_int_equal(waitpid(children[i], &ended, 0), children[i]);
        assert_int_equal(ended, 0);
    }
    assert_int_equal(allow_list_read(path, &roster, &fault), OK);
    assert_int_equal(roster.count, EDITORS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_file_lets_nobody_in, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(both_keys_of_a_row_must_match, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(an_open_roster_keeps_three_names, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_tracker_needs_three_names_in_an_open_roster, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_running_tracker_keeps_a_complete_list, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(an_open_roster_lets_everybody_in, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_refused_with_its_line, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(adding_keeps_what_people_wrote, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_file_of_any_style_can_be_added_to, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_file_is_made_by_the_first_key, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(wrong_edits_change_nothing, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(editors_at_once_all_get_their_row, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
