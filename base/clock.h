/* clock: the only code that reads the time, and units of durations. */
#ifndef SKEP_BASE_CLOCK_H
#define SKEP_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_US     INT64_C(1000)
#define NS_PER_MS     INT64_C(1000000)
#define NS_PER_SECOND INT64_C(1000000000)

/* clock_monotonic_X: time for measuring durations; setting the system's clock has no effect. */
int64_t clock_monotonic_ns(void);
int64_t clock_monotonic_ms(void);

/* clock_unix_s: seconds since the start of 1970 (UTC), for files and logs. */
double clock_unix_s(void);

/* ns_to_seconds: a duration in seconds. */
static inline double ns_to_seconds(int64_t ns) {
    return (double)ns * 1e-9;
}

/* clock_seconds_since: seconds from `begin_ns`, an earlier clock_monotonic_ns(), to now. */
double clock_seconds_since(int64_t begin_ns);

#endif
