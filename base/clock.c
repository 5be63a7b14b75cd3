#include "base/clock.h"

#include <time.h>

static struct timespec now(clockid_t id) {
    struct timespec at;
    clock_gettime(id, &at);
    return at;
}

int64_t clock_monotonic_ns(void) {
    struct timespec at = now(CLOCK_MONOTONIC);
    return (int64_t)at.tv_sec * NS_PER_SECOND + at.tv_nsec;
}

int64_t clock_monotonic_ms(void) {
    return clock_monotonic_ns() / NS_PER_MS;
}

double clock_unix_s(void) {
    struct timespec at = now(CLOCK_REALTIME);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

double clock_seconds_since(int64_t begin_ns) {
    return ns_to_seconds(clock_monotonic_ns() - begin_ns);
}
