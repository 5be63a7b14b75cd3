/* connect_probe: test without blocking whether the process with a key can be reached at an address.
 * The probe completes a CURVE handshake, in which the process proves its key, and sends no frame.
 * The process must admit the messenger's own key. */
#ifndef SKEP_TRANSPORT_MESSAGES_CONNECT_PROBE_H
#define SKEP_TRANSPORT_MESSAGES_CONNECT_PROBE_H

#include "transport/messages/messages.h"

enum connect_probe_state {
    CONNECT_PROBE_PENDING, /* no result yet */
    CONNECT_PROBE_OK,      /* the process with the key has answered */
    CONNECT_PROBE_FAILED,  /* no process there has this key and admits ours */
};

struct connect_probe {
    void *socket, *monitor; /* NULL: no probe is running */
};

/* connect_probe_start: start to connect to a numeric address (numeric_address_parse), as the
 * process with the messenger's key. At most options.probes_max probes run at the same time.
 * errors  false: the address contains a host name, or no socket is available */
MUST_CHECK bool connect_probe_start(struct messenger *messenger,
                                    const uint8_t curve[static KEY_BYTES], const char *address,
                                    struct connect_probe *probe);

/* connect_probe_poll: the result so far. Any result other than PENDING ends the probe.
 * limits  a probe is running */
enum connect_probe_state connect_probe_poll(struct connect_probe *probe);

/* connect_probe_end: abandon the probe. Does nothing if none is running. Call it before
 * messenger_close. */
void connect_probe_end(struct connect_probe *probe);

#endif
