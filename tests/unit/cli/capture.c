#include "tests/unit/cli/capture.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

int capture(const struct command *command, const char *const *words, char *output,
            size_t capacity) {
    char path[] = "/tmp/skep-capture-XXXXXX";
    char *argv[CAPTURE_WORDS_MAX] = {NULL};
    int argc = 0;
    size_t length;
    struct fault fault;
    for (; words[argc] != NULL; argc++) {
        assert_true(argc + 1 < CAPTURE_WORDS_MAX);
        argv[argc] = (char *)(uintptr_t)words[argc];
    }
    int file = mkstemp(path);
    assert_true(file >= 0);
    fflush(stdout);
    int saved_out = dup(STDOUT_FILENO);
    int saved_error = dup(STDERR_FILENO);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    int code = command_run(command, argc, argv);
    fflush(stdout);
    dup2(saved_out, STDOUT_FILENO);
    dup2(saved_error, STDERR_FILENO);
    close(saved_out);
    close(saved_error);
    close(file);
    assert_int_equal(file_read_text(path, output, capacity, &length, &fault), OK);
    unlink(path);
    return code;
}
