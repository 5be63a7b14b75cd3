#include "base/clock.h"

#include <time.h>

static struct timespec now(clockid_t id) {
    struct timespec at;
    clock_gettime(id, &at);
    return at;
}

int64_t clock_monotonic_ns(void) {
    struct timespec at = now(CLOCK_MONOTONIC);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

double clock_unix_s(void) {
    struct timespec at = now(CLOCK_REALTIME);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}
