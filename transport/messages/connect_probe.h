/* connect_probe: test without blocking whether a ZeroMQ socket listens at an address. The probe
 * opens a TCP connection and waits for the ten bytes that open every ZeroMQ connection. It sends
 * nothing, so it proves that the address is reachable, but not which process listens there. */
#ifndef SKEP_TRANSPORT_MESSAGES_CONNECT_PROBE_H
#define SKEP_TRANSPORT_MESSAGES_CONNECT_PROBE_H

#include "base/check.h"

#include <stdbool.h>

enum connect_probe_state {
    CONNECT_PROBE_PENDING, /* no result yet */
    CONNECT_PROBE_OK,      /* a ZeroMQ socket listens there */
    CONNECT_PROBE_FAILED,  /* connection refused, address unreachable, or another protocol */
};

struct connect_probe {
    int fd;      /* -1: no probe is running */
    bool failed; /* connect() reported a failure immediately */
};

/* connect_probe_start: start to connect to a numeric address (numeric_address_parse). Does not
 * block and does not allocate.
 * errors  false: the address contains a host name, or no socket is available; probe->fd is then
 *         -1 */
MUST_CHECK bool connect_probe_start(const char *address, struct connect_probe *probe);

/* connect_probe_poll: the result so far. Any result other than PENDING ends the probe and closes
 * its socket.
 * limits  a probe is running */
enum connect_probe_state connect_probe_poll(struct connect_probe *probe);

/* connect_probe_end: abandon the probe. Does nothing if none is running. */
void connect_probe_end(struct connect_probe *probe);

#endif
