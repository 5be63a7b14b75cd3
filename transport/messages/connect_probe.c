/* connect_probe: see connect_probe.h. */
#include "transport/messages/connect_probe.h"

#include "transport/identity/numeric_address.h"
#include "transport/messages/messages_state.h"

bool connect_probe_start(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                         const char *address, struct connect_probe *probe) {
    union numeric_address number;
    *probe = (struct connect_probe){.socket = NULL};
    return numeric_address_parse(address, &number) > 0 &&
           socket_dial(messenger, curve, address, &probe->socket, &probe->monitor);
}

static enum connect_probe_state state_after_event(uint16_t kind) {
    switch (kind) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        return CONNECT_PROBE_OK;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
    case ZMQ_EVENT_DISCONNECTED:
    case ZMQ_EVENT_CLOSED:
    case ZMQ_EVENT_CONNECT_RETRIED:
        return CONNECT_PROBE_FAILED;
    default:
        return CONNECT_PROBE_PENDING;
    }
}

enum connect_probe_state connect_probe_poll(struct connect_probe *probe) {
    ASSERT(probe->socket != NULL);
    struct socket_monitor_event event;
    enum connect_probe_state state = CONNECT_PROBE_PENDING;
    while (state == CONNECT_PROBE_PENDING && socket_next_event(probe->monitor, &event)) {
        state = state_after_event(event.kind);
    }
    if (state != CONNECT_PROBE_PENDING) {
        connect_probe_end(probe);
    }
    return state;
}

void connect_probe_end(struct connect_probe *probe) {
    socket_close(probe->socket, probe->monitor, 0);
    *probe = (struct connect_probe){.socket = NULL};
}
