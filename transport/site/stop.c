#include "transport/site/stop.h"

#include "base/clock.h"
#include "base/text.h"
#include "transport/site/launch.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

/* At a time limit Slurm sends SIGTERM twice within milliseconds: to the job and to its step. */
static const int64_t SAME_WISH_NS = 250 * 1000000LL;

/* Signals seen that came from our own launcher, and others: one wish may arrive both ways. */
static _Atomic int seen[2];
static _Atomic int64_t asked_ns;

static void note(int signal_number, siginfo_t *signal, void *context) {
    (void)context;
    int64_t now = clock_monotonic_ns();
    int64_t first = 0;
    bool again = atomic_fetch_add(&seen[launch_is_forwarded(signal)], 1) > 0;
    bool later = !atomic_compare_exchange_strong(&asked_ns, &first, now);
    if (again && later && now - first > SAME_WISH_NS) {
        _exit(128 + signal_number);
    }
}

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};

static void handle(const struct sigaction *action) {
    for (size_t i = 0; i < ARRAY_COUNT(SIGNALS); i++) {
        sigaction(SIGNALS[i], action, NULL);
    }
}

static void hold(int how) {
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < ARRAY_COUNT(SIGNALS); i++) {
        sigaddset(&held, SIGNALS[i]);
    }
    sigprocmask(how, &held, NULL);
}

static void leave(int signal_number) {
    (void)signal_number;
    _exit(0);
}

void stop_exit_immediately(void) {
    struct sigaction action = {.sa_handler = leave};
    sigemptyset(&action.sa_mask);
    handle(&action);
}

void stop_block_signals(void) {
    hold(SIG_BLOCK);
}

void stop_watch(void) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    handle(&action);
    hold(SIG_UNBLOCK);
}

void stop_request(void) {
    int64_t first = 0;
    (void)atomic_compare_exchange_strong(&asked_ns, &first, clock_monotonic_ns());
}

bool stop_requested(void) {
    return atomic_load(&asked_ns) != 0;
}

int64_t stop_requested_ns(void) {
    return atomic_load(&asked_ns);
}
