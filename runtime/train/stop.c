#include "runtime/train/stop.h"

#include "base/clock.h"
#include "transport/launch.h"

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
