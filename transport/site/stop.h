/* stop: requests to stop the process, by SIGINT, SIGTERM or SIGHUP. */
#ifndef SKEP_TRANSPORT_SITE_STOP_H
#define SKEP_TRANSPORT_SITE_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* exit_on_stop_signals: until watch_stop_signals, each of the three signals ends the process with
 * exit code 0. A command that saves its state on a stop calls this first, while there is nothing to
 * save. */
void exit_on_stop_signals(void);

/* block_stop_signals: block the three signals until watch_stop_signals, in this process and in
 * those that it starts. */
void block_stop_signals(void);

/* watch_stop_signals: from now on, the first of the three signals is a stop request, and a second
 * one ends the process at once with exit code 128 + its number. Signals within a quarter of a
 * second count as one request, and so do a direct signal and its copy forwarded by the parent
 * (launch_is_forwarded). */
void watch_stop_signals(void);

/* stop_request: make a stop request without a signal, for example because another rank received
 * one. */
void stop_request(void);

/* stop_requested: whether there was a stop request. */
bool stop_requested(void);

/* stop_requested_ns: the time of the request on the monotonic clock.
 * limits  after stop_requested() is true */
int64_t stop_requested_ns(void);

#endif
