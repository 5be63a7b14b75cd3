#include "runtime/train/stop.h"

#include "base/clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static _Atomic int signals_seen;
static _Atomic int64_t asked_ns;

static void note(int signal_number) {
    if (atomic_fetch_add(&signals_seen, 1) > 0) {
        _exit(128 + signal_number);
    }
    atomic_store(&asked_ns, clock_monotonic_ns());
}

void stop_watch(void) {
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        sigaction(SIGNALS[i], &action, NULL);
    }
}

bool stop_asked(void) {
    return atomic_load(&signals_seen) > 0;
}

int64_t stop_asked_ns(void) {
    return atomic_load(&asked_ns);
}
