/* messages_socket: ZeroMQ sockets with their options, and the monitors that report the state of
 * their connections. */
#include "transport/messages/messages_state.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    /* idle time before TCP keepalive probes; swarm heartbeats detect a lost network much earlier */
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_INTERVAL_S = 5, /* time between two TCP keepalive probes */
    KEEPALIVE_COUNT = 3,      /* unanswered TCP keepalive probes before the connection is closed */
    /* timeout of unacknowledged data; long, because a stopped peer may resume */
    UNACKED_TIMEOUT_MS = 60000,
    LISTEN_BACKLOG = 256,      /* connections that the kernel queues before they are accepted */
    CURVE_OVERHEAD_BYTES = 33, /* bytes that CURVE adds: "\x07MESSAGE", nonce, flags, MAC */
    /* Reconnecting is left to messages_dial. ZeroMQ would reconnect with the old queue after a lost
     * connection, and would stop dialing after a rejected key. */
    NO_RECONNECT_MS =
        3600 * 1000, /* a reconnection interval of ZeroMQ that never ends in practice */
};

static bool set_option(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_basic_options(void *socket, const struct messenger *messenger) {
    const struct key_pairs *keys = messenger->options.keys;
    const int64_t bytes_max = FRAME_BYTES_MAX + CURVE_OVERHEAD_BYTES;
    const int queued = (int)messenger->options.queued_frames;
    return set_option(socket, ZMQ_SNDHWM, queued) && set_option(socket, ZMQ_RCVHWM, queued) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max) == 0 &&
           set_option(socket, ZMQ_HANDSHAKE_IVL, MESSENGER_HANDSHAKE_MS) &&
           set_option(socket, ZMQ_LINGER, 0) && set_option(socket, ZMQ_IPV6, 1) &&
           set_option(socket, ZMQ_TCP_KEEPALIVE, 1) &&
           set_option(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S) &&
           set_option(socket, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_S) &&
           set_option(socket, ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT) &&
           set_option(socket, ZMQ_TCP_MAXRT, UNACKED_TIMEOUT_MS) &&
           zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->public_keys.curve, KEY_BYTES) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->curve_secret, KEY_BYTES) == 0;
}

/* Opens a monitor of a socket, and returns its receiving end. Its queue is unlimited, because a
 * full one would block ZeroMQ's I/O thread. An event takes a few hundred bytes, and a connection
 * causes few events. */
static void *open_monitor(struct messenger *messenger, void *socket, int events) {
    char name[64];
    snprintf(name, sizeof name, "inproc://monitor-%u", messenger->monitor_serial++);
    if (zmq_socket_monitor(socket, name, events) != 0) {
        return NULL;
    }
    void *monitor = zmq_socket(messenger->zmq_context, ZMQ_PAIR);
    if (monitor != NULL &&
        (!set_option(monitor, ZMQ_RCVHWM, 0) || !set_option(monitor, ZMQ_LINGER, 0) ||
         zmq_connect(monitor, name) != 0)) {
        (void)zmq_socket_monitor(socket, NULL, 0);
        (void)zmq_close(monitor);
        return NULL;
    }
    return monitor;
}

bool socket_next_event(void *monitor, struct socket_monitor_event *event) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    const bool got = zmq_msg_recv(&part, monitor, ZMQ_DONTWAIT) >= 0;
    if (got) {
        ASSERT(zmq_msg_size(&part) == sizeof event->kind + sizeof event->value);
        const uint8_t *bytes = zmq_msg_data(&part);
        memcpy(&event->kind, bytes, sizeof event->kind);
        memcpy(&event->value, bytes + sizeof event->kind, sizeof event->value);
    }
    while (got && zmq_msg_more(&part)) { /* skip the part with the address */
        (void)zmq_msg_recv(&part, monitor, ZMQ_DONTWAIT);
    }
    zmq_msg_close(&part);
    return got;
}

static enum status set_bind_fault(const char *address, struct fault *fault) {
    char reason[160];
    const int error = zmq_errno();
    const bool is_unavailable = error == EADDRINUSE || error == EMFILE || error == EACCES;
    snprintf(reason, sizeof reason, "cannot listen: %s",
             error == ENODEV || error == EADDRNOTAVAIL ? "not a local address of this machine"
                                                       : zmq_strerror(error));
    return fault_set(
        fault, is_unavailable ? STATUS_FAILED : STATUS_INPUT, address,
        error == EADDRINUSE ? "stop the process that uses the port, or choose another port" : NULL,
        "%s", reason);
}

static uint16_t bound_port(void *socket) {
    char address[MESSAGE_ADDRESS_BYTES];
    size_t bytes = sizeof address;
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address, &bytes) != 0) {
        return 0;
    }
    const char *colon = strrchr(address, ':');
    int64_t port = 0;
    return colon != NULL && text_parse_i64(colon + 1, &port) ? (uint16_t)port : 0;
}

enum status socket_open_listener(struct messenger *messenger, struct fault *fault) {
    const char *address = messenger->options.listen;
    struct listener *listener = &messenger->listener;
    size_t fd_bytes = sizeof listener->fd;
    void *socket = zmq_socket(messenger->zmq_context, ZMQ_ROUTER);
    if (socket == NULL || !set_basic_options(socket, messenger) ||
        !set_option(socket, ZMQ_CURVE_SERVER, 1) || !set_option(socket, ZMQ_ROUTER_MANDATORY, 1) ||
        !set_option(socket, ZMQ_BACKLOG, LISTEN_BACKLOG) ||
        zmq_getsockopt(socket, ZMQ_FD, &listener->fd, &fd_bytes) != 0 ||
        (listener->monitor = open_monitor(messenger, socket,
                                          ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED |
                                              ZMQ_EVENT_DISCONNECTED)) == NULL) {
        listener->socket = socket;
        return fault_set(fault, STATUS_FAILED, address, NULL, "cannot create a socket: %s",
                         zmq_strerror(zmq_errno()));
    }
    listener->socket = socket;
    if (zmq_bind(socket, address) != 0) {
        return set_bind_fault(address, fault);
    }
    listener->port = bound_port(socket);
    return OK;
}

bool socket_dial(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                 const char *address, void **socket, void **monitor) {
    void *made = zmq_socket(messenger->zmq_context, ZMQ_DEALER);
    if (made == NULL) {
        return false;
    }
    void *watch = NULL;
    if (!set_basic_options(made, messenger) ||
        zmq_setsockopt(made, ZMQ_CURVE_SERVERKEY, curve, KEY_BYTES) != 0 ||
        !set_option(made, ZMQ_RECONNECT_IVL, NO_RECONNECT_MS) ||
        !set_option(made, ZMQ_CONNECT_TIMEOUT, MESSENGER_HANDSHAKE_MS) ||
        (watch = open_monitor(messenger, made, ZMQ_EVENT_ALL)) == NULL ||
        zmq_connect(made, address) != 0) {
        socket_close(made, watch, 0);
        return false;
    }
    *socket = made;
    *monitor = watch;
    return true;
}

/* Stops the monitor before the receiving end of it is closed. Otherwise ZeroMQ's I/O thread
 * would block forever when it writes to the monitor. */
void socket_close(void *socket, void *monitor, int linger_ms) {
    if (socket == NULL) {
        return;
    }
    if (monitor != NULL) {
        (void)zmq_socket_monitor(socket, NULL, 0);
        (void)zmq_close(monitor);
    }
    (void)set_option(socket, ZMQ_LINGER, linger_ms);
    (void)zmq_close(socket);
}

void socket_close_listener(struct messenger *messenger, int linger_ms) {
    socket_close(messenger->listener.socket, messenger->listener.monitor, linger_ms);
}

static bool is_host(const char *host, size_t letters, bool may_be_any) {
    const bool is_any = may_be_any && letters == 1 && host[0] == '*';
    const bool in_brackets = letters > 2 && host[0] == '[' && host[letters - 1] == ']';
    const size_t edge = in_brackets ? 1 : 0;
    for (size_t i = edge; i + edge < letters && !is_any; i++) {
        const char letter = host[i];
        const bool is_plain =
            (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
            (letter >= 'A' && letter <= 'Z') || letter == '.' || letter == '-' || letter == '_';
        if (!is_plain && !(in_brackets && (letter == ':' || letter == '%'))) {
            return false;
        }
    }
    return letters > 0;
}

bool is_socket_address(const char *address, bool may_be_any) {
    static const char SCHEME[] = "tcp://";
    const size_t letters = strnlen(address, MESSAGE_ADDRESS_BYTES);
    if (letters >= MESSAGE_ADDRESS_BYTES || strncmp(address, SCHEME, sizeof SCHEME - 1) != 0) {
        return false;
    }
    const char *host = address + sizeof SCHEME - 1;
    const char *colon = strrchr(host, ':');
    if (colon == NULL || !is_host(host, (size_t)(colon - host), may_be_any)) {
        return false;
    }
    const char *digits = colon + 1;
    if (may_be_any && (strcmp(digits, "*") == 0 || strcmp(digits, "0") == 0)) {
        return true;
    }
    int64_t port = 0;
    return digits[strspn(digits, "0123456789")] == '\0' && text_parse_i64(digits, &port) &&
           port >= 1 && port <= UINT16_MAX;
}
