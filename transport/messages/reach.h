/* reach: whether somebody listens at an address, tried without waiting: a connection is made, and
 * it is looked at whether ZeroMQ answers on it. Nothing is said on it but the protocol's first ten
 * bytes, so it proves a way, not who is at its end. */
#ifndef SKEP_TRANSPORT_MESSAGES_REACH_H
#define SKEP_TRANSPORT_MESSAGES_REACH_H

#include "base/check.h"

#include <stdbool.h>

enum reach_state {
    REACH_WAITING, /* nothing has come back yet */
    REACH_FOUND,   /* a ZeroMQ socket listens there */
    REACH_NOTHING, /* refused, unreachable, or something else listens there */
};

struct reach {
    int fd;      /* -1: no try is under way */
    bool failed; /* at once */
};

/* reach_begin: try an address that is a number (host_number_of). Never waits, allocates nothing.
 * errors  false: the host is a name, or no socket can be had; reach->fd is then -1 */
MUST_CHECK bool reach_begin(const char *address, struct reach *reach);

/* reach_look: how it went so far. Unless it is still waiting, the try is over, its socket closed.
 * limits  a try is under way */
enum reach_state reach_look(struct reach *reach);

/* reach_end: give a try up. Harmless when none is under way. */
void reach_end(struct reach *reach);

#endif
