/* reach: whether somebody listens at an address, tried without waiting: a connection is made, and
 * it is looked at whether ZeroMQ answers on it. Nothing is said on it but the protocol's first ten
 * bytes, so it proves a way, not who is at its end. */
#ifndef SKEP_TRANSPORT_MESSAGES_REACH_H
#define SKEP_TRANSPORT_MESSAGES_REACH_H

#include "base/check.h"

#include <stdbool.h>

enum connect_probe_state {
    CONNECT_PROBE_PENDING, /* nothing has come back yet */
    CONNECT_PROBE_OK,      /* a ZeroMQ socket listens there */
    CONNECT_PROBE_FAILED,  /* refused, unreachable, or something else listens there */
};

struct connect_probe {
    int fd;      /* -1: no try is under way */
    bool failed; /* at once */
};

/* connect_probe_start: try an address that is a number (numeric_address_parse). Never waits,
 * allocates nothing.
 * errors  false: the host is a name, or no socket can be had; reach->fd is then -1 */
MUST_CHECK bool connect_probe_start(const char *address, struct connect_probe *reach);

/* connect_probe_poll: how it went so far. Unless it is still waiting, the try is over, its socket
 * closed.
 * limits  a try is under way */
enum connect_probe_state connect_probe_poll(struct connect_probe *reach);

/* connect_probe_end: give a try up. Harmless when none is under way. */
void connect_probe_end(struct connect_probe *reach);

#endif
