/* A tensor file is replaced under fire: at each file call of the write, the process is killed, a
 * write is torn, or the call fails. The file is then the old or the new one, bit for bit. */
#include "base/file.h"
#include "runtime/checkpoint/tensor_file.h"
#include "tests/unit/checkpoint/disk_double.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* After the rename, the folder is opened and synced. */
enum { ELEMENTS = 3000, CALLS_MAX = 40, CALLS_AFTER_RENAME = 2 };

static char folder[96];
static float values[ELEMENTS];
static struct region region;
static struct tensor_source source;
static struct tensor_file file;
static _Alignas(64) char staging_bytes[STAGING_BYTES_MIN];
static const struct staging STAGING = {.memory = staging_bytes, .bytes = sizeof staging_bytes};

static int open_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/skep-tensor-file-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    const struct tensor_spec tensor = {
        .name = "x", .dtype = DTYPE_F32, .rank = 1, .shape = {ELEMENTS}};
    struct tensor_spec tensors[] = {tensor};
    struct tensor_piece pieces[] = {piece_of_spec(&tensors[0], values)};
    const struct tensor_set set = {
        .tensors = tensors, .tensor_count = 1, .pieces = pieces, .piece_count = 1};
    tensor_sources_init(&set, &region, &source);
    tensor_file_plan("x.safetensors", &source, 1, &region, &file);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    region_finish(&region);
    return system(command);
}

static enum status write_version(int version) {
    struct fault fault;
    for (int i = 0; i < ELEMENTS; i++) {
        values[i] = (float)(version * ELEMENTS + i);
    }
    return tensor_file_write(&file, folder, &STAGING, &fault);
}

/* The version that the file contains completely; -1 if it is incomplete. */
static int version_found(void) {
    struct fault fault;
    memset(values, 0, sizeof values);
    if (tensor_file_read(&file, folder, &fault) != OK) {
        return -1;
    }
    const int version = (int)(values[0] / ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++) {
        if (values[i] != (float)(version * ELEMENTS + i)) {
            return -1;
        }
    }
    return version;
}

static bool has_unfinished_file(void) {
    char path[PATH_BYTES];
    path_join(folder, "x.safetensors.new", path, sizeof path);
    return file_exists(path);
}

static int count_calls(void) {
    disk_begin(DISK_PASS, 0, true);
    assert_int_equal(write_version(1), OK);
    return disk_end();
}

/* Writes version 2 over version 1 in another process, which ends at call `at`. */
static void write_and_die(enum disk_mode mode, int at) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        disk_begin(mode, at, true);
        _exit(write_version(2) == OK ? 0 : 1);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), DISK_KILLED);
}

static void a_killed_write_leaves_a_complete_file(void **state) {
    (void)state;
    const int calls = count_calls();
    assert_in_range(calls, 6, CALLS_MAX);
    for (int at = 1; at <= calls; at++) {
        for (enum disk_mode mode = DISK_KILL; mode <= DISK_TEAR; mode++) {
            assert_int_equal(write_version(1), OK);
            write_and_die(mode, at);
            const int version = version_found();
            if (version != (at <= calls - CALLS_AFTER_RENAME ? 1 : 2)) {
                fail_msg("killed at call %d of %d: version %d", at, calls, version);
            }
        }
    }
}

static void a_failed_write_leaves_the_file_and_no_other(void **state) {
    (void)state;
    const int calls = count_calls();
    for (int at = 1; at <= calls; at++) {
        assert_int_equal(write_version(1), OK);
        disk_begin(DISK_ERROR, at, true);
        const enum status status = write_version(2);
        disk_end();
        assert_int_not_equal(status, OK);
        const int version = version_found();
        if (version != (at <= calls - CALLS_AFTER_RENAME ? 1 : 2)) {
            fail_msg("failed at call %d of %d: version %d", at, calls, version);
        }
        assert_false(has_unfinished_file());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_write_leaves_a_complete_file),
        cmocka_unit_test(a_failed_write_leaves_the_file_and_no_other),
    };
    return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
