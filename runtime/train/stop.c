#include "runtime/train/stop.h"

#include "base/clock.h"
#include "transport/launch.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

/* Signals seen that came from our own launcher, and others: one wish may arrive both ways. */
static _Atomic int seen[2];
static _Atomic int64_t asked_ns;

static void note(int signal_number, siginfo_t *signal, void *context) {
    (void)context;
    if (atomic_fetch_add(&seen[launch_is_forwarded(signal)], 1) > 0) {
        _exit(128 + signal_number);
    }
    int64_t never = 0;
    (void)atomic_compare_exchange_strong(&asked_ns, &never, clock_monotonic_ns());
}

void stop_watch(void) {
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        sigaction(SIGNALS[i], &action, NULL);
    }
}

bool stop_asked(void) {
    return atomic_load(&asked_ns) != 0;
}

int64_t stop_asked_ns(void) {
    return atomic_load(&asked_ns);
}
