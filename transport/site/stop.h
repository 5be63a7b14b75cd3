/* stop: the wish to end, as SIGINT, SIGTERM or SIGHUP bring it. */
#ifndef SKEP_TRANSPORT_SITE_STOP_H
#define SKEP_TRANSPORT_SITE_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* stop_exit_immediately: until stop_watch each of the three signals ends the process with exit code
 * 0. The first thing of a command that saves, which has nothing to save yet and has changed
 * nothing. */
void stop_exit_immediately(void);

/* stop_block_signals: until stop_watch the three signals wait, in this process and in those it
 * starts. */
void stop_block_signals(void);

/* stop_watch: from now on the first of the three signals is noted; a second one ends the process at
 * once with 128 + its number. The same wish are those within a quarter of a second, and one that
 * our launcher passes on besides one that came directly (launch_is_forwarded). */
void stop_watch(void);

/* stop_request: as if one had come, unless one has: another rank of the site was asked. */
void stop_request(void);

/* stop_requested: has one come? */
bool stop_requested(void);

/* stop_requested_ns: when, by clock_monotonic_ns; meaningless before stop_requested. */
int64_t stop_requested_ns(void);

#endif
