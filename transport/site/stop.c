/* stop: see stop.h. */
#include "transport/site/stop.h"

#include "base/clock.h"
#include "base/text.h"
#include "transport/site/launch.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

/* When a job reaches its time limit, Slurm sends SIGTERM twice within milliseconds: to the job and
 * to its step. */
static const int64_t SAME_REQUEST_NS = 250 * 1000000LL;

/* Signals received: [1] forwarded by the parent, [0] others. One request may arrive both ways. */
static _Atomic int signal_counts[2];
static _Atomic int64_t requested_ns;

static void on_signal(int signal_number, siginfo_t *signal, void *context) {
    (void)context;
    int64_t now = clock_monotonic_ns();
    int64_t first = 0;
    bool is_repeated = atomic_fetch_add(&signal_counts[launch_is_forwarded(signal)], 1) > 0;
    bool is_later = !atomic_compare_exchange_strong(&requested_ns, &first, now);
    if (is_repeated && is_later && now - first > SAME_REQUEST_NS) {
        _exit(128 + signal_number);
    }
}

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};

static void set_handler(const struct sigaction *action) {
    for (size_t i = 0; i < ARRAY_COUNT(SIGNALS); i++) {
        sigaction(SIGNALS[i], action, NULL);
    }
}

static void change_signal_mask(int how) {
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < ARRAY_COUNT(SIGNALS); i++) {
        sigaddset(&signals, SIGNALS[i]);
    }
    sigprocmask(how, &signals, NULL);
}

static void exit_at_once(int signal_number) {
    (void)signal_number;
    _exit(0);
}

void exit_on_stop_signals(void) {
    struct sigaction action = {.sa_handler = exit_at_once};
    sigemptyset(&action.sa_mask);
    set_handler(&action);
}

void block_stop_signals(void) {
    change_signal_mask(SIG_BLOCK);
}

void watch_stop_signals(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    set_handler(&action);
    change_signal_mask(SIG_UNBLOCK);
}

void stop_request(void) {
    int64_t first = 0;
    (void)atomic_compare_exchange_strong(&requested_ns, &first, clock_monotonic_ns());
}

bool stop_requested(void) {
    return atomic_load(&requested_ns) != 0;
}

int64_t stop_requested_ns(void) {
    return atomic_load(&requested_ns);
}
