/* Tests of base/file: whole reads and writes, what is refused, atomic publication, paths. */
#include "base/check.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATH_MAX_HERE = 512 };

static char folder[PATH_MAX_HERE];
static char path[PATH_MAX_HERE];
static struct fault fault;

static const char *in_folder(const char *name) {
    path_join(folder, name, path, sizeof path);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/skep-file-XXXXXX", parent != NULL ? parent : "/tmp");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    char command[PATH_MAX_HERE + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void put(const char *name, const char *text) {
    int fd;
    const char *at = in_folder(name);
    assert_int_equal(file_open_write(at, &fd, &fault), OK);
    assert_int_equal(file_write_at(fd, at, text, strlen(text), 0, &fault), OK);
    assert_int_equal(file_close_synced(fd, at, &fault), OK);
}

static void assert_holds(const char *name, const char *text) {
    char buffer[64];
    size_t length = 0;
    assert_int_equal(file_read_text(in_folder(name), buffer, sizeof buffer, &length, &fault), OK);
    assert_string_equal(buffer, text);
    assert_int_equal(length, strlen(text));
}

static void written_ranges_are_read_back_at_their_offsets(void **state) {
    (void)state;
    int fd;
    int64_t bytes = 0;
    char buffer[4];
    const char *at = in_folder("a");
    assert_int_equal(file_open_write(at, &fd, &fault), OK);
    assert_int_equal(file_write_at(fd, at, "WORLD", 5, 6, &fault), OK);
    assert_int_equal(file_write_at(fd, at, "hello ", 6, 0, &fault), OK);
    assert_int_equal(file_close_synced(fd, at, &fault), OK);
    assert_holds("a", "hello WORLD");
    assert_int_equal(file_open_read(in_folder("a"), &fd, &bytes, &fault), OK);
    assert_int_equal(bytes, 11);
    assert_int_equal(file_read_at(fd, at, buffer, 4, 4, &fault), OK);
    assert_memory_equal(buffer, "o WO", 4);
    close(fd);
}

static void open_write_empties_what_was_there(void **state) {
    (void)state;
    put("a", "a long text");
    put("a", "short");
    assert_holds("a", "short");
    struct stat info;
    assert_int_equal(stat(in_folder("a"), &info), 0);
    assert_int_equal(info.st_mode & 0600, 0600);
}

static void read_at_refuses_a_truncated_file_by_name(void **state) {
    (void)state;
    int fd;
    int64_t bytes;
    char buffer[8];
    put("a", "12345");
    assert_int_equal(file_open_read(in_folder("a"), &fd, &bytes, &fault), OK);
    assert_int_equal(file_read_at(fd, "a", buffer, 8, 0, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "a");
    assert_non_null(
        strstr(fault.reason, "is truncated: 8 bytes are needed, and the last 3 are missing"));
    close(fd);
}

static void open_read_refuses_what_is_no_regular_file(void **state) {
    (void)state;
    int fd = -7;
    int64_t bytes = -7;
    assert_int_equal(file_open_read(in_folder("none"), &fd, &bytes, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, path);
    assert_non_null(strstr(fault.reason, "No such file"));
    assert_int_equal(file_open_read(folder, &fd, &bytes, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "not a regular file"));
    assert_int_equal(file_open_read("/dev/null", &fd, &bytes, &fault), STATUS_INPUT);
    assert_int_equal(fd, -7);
    assert_int_equal(bytes, -7);
}

static void read_text_wants_room_for_the_end(void **state) {
    (void)state;
    char buffer[6];
    size_t length = 99;
    put("a", "12345");
    assert_int_equal(file_read_text(in_folder("a"), buffer, 6, &length, &fault), OK);
    assert_int_equal(length, 5);
    length = 99;
    assert_int_equal(file_read_text(in_folder("a"), buffer, 5, &length, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "is 5 bytes long; the limit is 4"));
    assert_int_equal(length, 99);
}

static void publish_replaces_the_old_file_whole(void **state) {
    (void)state;
    char from[PATH_MAX_HERE];
    char to[PATH_MAX_HERE];
    put("new.part", "new");
    put("final", "old");
    path_join(folder, "new.part", from, sizeof from);
    path_join(folder, "final", to, sizeof to);
    assert_int_equal(file_publish(from, to, &fault), OK);
    assert_holds("final", "new");
    assert_false(file_exists(from));
    assert_int_equal(file_publish(from, to, &fault), STATUS_FAILED);
    assert_string_equal(fault.subject, to);
    assert_holds("final", "new");
}

static void replace_writes_the_new_bytes_and_removes_the_temporary_file_on_an_error(void **state) {
    (void)state;
    char temporary[PATH_MAX_HERE];
    char to[PATH_MAX_HERE];
    put("final", "old");
    path_join(folder, "final.new", temporary, sizeof temporary);
    path_join(folder, "final", to, sizeof to);
    assert_int_equal(file_replace(to, temporary, "new", 3, &fault), OK);
    assert_holds("final", "new");
    assert_false(file_exists(temporary));
    path_join(folder, "none/final", to, sizeof to);
    assert_int_equal(file_replace(to, temporary, "new", 3, &fault), STATUS_FAILED);
    assert_false(file_exists(temporary));
}

static void read_region_has_a_limit(void **state) {
    (void)state;
    struct region region = {0};
    char *text = NULL;
    size_t length = 99;
    put("a", "12345");
    assert_int_equal(file_read_into_region(in_folder("a"), 4, &region, &text, &length, &fault),
                     STATUS_INPUT);
    assert_null(text);
    assert_int_equal(length, 99);
    assert_int_equal(file_read_into_region(in_folder("a"), 5, &region, &text, &length, &fault), OK);
    assert_string_equal(text, "12345");
    assert_int_equal(length, 5);
    region_finish(&region);
}

static void make_folders_makes_all_and_stops_at_a_file(void **state) {
    (void)state;
    assert_int_equal(file_make_folders(in_folder("a/b/c"), &fault), OK);
    assert_true(file_is_folder(in_folder("a/b/c")));
    assert_int_equal(file_make_folders(in_folder("a/b/c"), &fault), OK);
    assert_int_equal(file_make_folders(in_folder("a/b/d/"), &fault), OK);
    assert_true(file_is_folder(in_folder("a/b/d")));
    put("a/file", "x");
    assert_int_equal(file_make_folders(in_folder("a/file"), &fault), STATUS_FAILED);
    assert_int_equal(file_make_folders(in_folder("a/file/b"), &fault), STATUS_FAILED);
}

static void join_and_folder_of_take_paths_apart_and_together(void **state) {
    (void)state;
    static const struct {
        const char *folder, *name, *joined;
    } JOINED[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"},
                  {"a", "/b", "/b"}, {"", "b", "b"},     {".", "b/c", "./b/c"}};
    static const struct {
        const char *path, *folder;
    } FOLDERS[] = {{"a/b", "a"}, {"/b", "/"}, {"b", "."}, {"a/b/c", "a/b"}, {"./b", "."}};
    char out[32];
    for (size_t i = 0; i < ARRAY_COUNT(JOINED); i++) {
        path_join(JOINED[i].folder, JOINED[i].name, out, sizeof out);
        assert_string_equal(out, JOINED[i].joined);
    }
    for (size_t i = 0; i < ARRAY_COUNT(FOLDERS); i++) {
        file_parent_folder(FOLDERS[i].path, out, sizeof out);
        assert_string_equal(out, FOLDERS[i].folder);
    }
}

static void a_lock_excludes_others_until_it_is_closed(void **state) {
    (void)state;
    char holder[FILE_HOLDER_BYTES], process[FILE_HOLDER_BYTES];
    int first = -1, second = -1;
    const char *at = in_folder("lock");
    snprintf(process, sizeof process, "%d", (int)getpid());
    put("lock", "a longer text of an earlier process");
    assert_int_equal(file_lock(at, &first, holder, &fault), OK);
    assert_true(first >= 0);
    assert_holds("lock", process);
    assert_int_equal(file_lock(at, &second, holder, &fault), OK);
    assert_int_equal(second, -1);
    assert_string_equal(holder, process);
    close(first);
    assert_int_equal(file_lock(at, &second, holder, &fault), OK);
    assert_true(second >= 0);
    close(second);
    assert_int_equal(file_lock(in_folder("absent/lock"), &first, holder, &fault), STATUS_FAILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(written_ranges_are_read_back_at_their_offsets, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(open_write_empties_what_was_there, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(read_at_refuses_a_truncated_file_by_name, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(open_read_refuses_what_is_no_regular_file, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(read_text_wants_room_for_the_end, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(publish_replaces_the_old_file_whole, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(
            replace_writes_the_new_bytes_and_removes_the_temporary_file_on_an_error, make_folder,
            remove_folder),
        cmocka_unit_test_setup_teardown(read_region_has_a_limit, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(make_folders_makes_all_and_stops_at_a_file, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_lock_excludes_others_until_it_is_closed, make_folder,
                                        remove_folder),
        cmocka_unit_test(join_and_folder_of_take_paths_apart_and_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
