/* Threads: what runs in one, on how much stack, and what signals reach it. */
#include "targets/os/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { STACK_BYTES = 320 * 1024 };

struct seen {
    size_t stack_bytes;
    sigset_t blocked;
    pthread_t thread;
};

static void *look(void *argument) {
    struct seen *seen = argument;
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstacksize(&attributes, &seen->stack_bytes);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
    seen->thread = pthread_self();
    return seen;
}

static void thread_has_the_stack_that_was_asked_for_and_takes_no_signal(void **state) {
    (void)state;
    struct seen seen;
    pthread_t thread;
    void *result;
    sigset_t before;
    sigset_t after;
    sigemptyset(&seen.blocked);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(thread_start(&thread, STACK_BYTES, look, &seen), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &seen);
    assert_false(pthread_equal(seen.thread, pthread_self()));
    assert_int_equal(seen.stack_bytes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        assert_int_equal(sigismember(&seen.blocked, SIGNALS[i]), 1);
        assert_int_equal(sigismember(&after, SIGNALS[i]), sigismember(&before, SIGNALS[i]));
    }
}

static void a_stack_that_cannot_be_is_reported(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_not_equal(thread_start(&thread, (size_t)1 << 60, look, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_has_the_stack_that_was_asked_for_and_takes_no_signal),
        cmocka_unit_test(a_stack_that_cannot_be_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
