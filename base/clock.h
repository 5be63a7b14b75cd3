/* clock: the only place that reads time. */
#ifndef SKEP_BASE_CLOCK_H
#define SKEP_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_monotonic_ns(void); /* never jumps; for durations */
double clock_unix_s(void);        /* for what is written down */

#endif
