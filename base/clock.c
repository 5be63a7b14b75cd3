#include "base/clock.h"

#include <time.h>

static struct timespec read_clock(clockid_t id) {
    struct timespec time;
    clock_gettime(id, &time);
    return time;
}

int64_t clock_monotonic_ns(void) {
    struct timespec time = read_clock(CLOCK_MONOTONIC);
    return (int64_t)time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

int64_t clock_monotonic_ms(void) {
    return clock_monotonic_ns() / NS_PER_MS;
}

double clock_unix_s(void) {
    struct timespec time = read_clock(CLOCK_REALTIME);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double clock_seconds_since(int64_t begin_ns) {
    return ns_to_seconds(clock_monotonic_ns() - begin_ns);
}
