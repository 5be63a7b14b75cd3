/* messages_socket: ZeroMQ's sockets with their options, and the monitors that say what becomes of
 * their connections. */
#include "transport/messages/messages_state.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    KEEPALIVE_IDLE_S = 15, /* a partition without FIN: the peer's own beats notice it far before */
    KEEPALIVE_STEP_S = 5,
    KEEPALIVE_COUNT = 3,
    UNANSWERED_MS = 60000, /* bytes that nobody confirms: a stopped process may well come back */
    BACKLOG = 256,
    CURVE_BYTES = 33, /* what CURVE adds: "\x07MESSAGE", nonce, flags, MAC */
    /* ZeroMQ's own way to connect again is too eager in one case (a queue survives) and gives up in
     * another (a refused key), so that it is put off for ever: messages_dial does it. */
    NEVER_MS = 3600 * 1000,
};

static bool set(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_basics(void *socket, const struct messenger *messenger) {
    const struct key_pairs *keys = messenger->options.keys;
    const int64_t bytes_max = FRAME_BYTES_MAX + CURVE_BYTES;
    const int queued = (int)messenger->options.queued_frames;
    return set(socket, ZMQ_SNDHWM, queued) && set(socket, ZMQ_RCVHWM, queued) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max) == 0 &&
           set(socket, ZMQ_HANDSHAKE_IVL, MESSENGER_HANDSHAKE) && set(socket, ZMQ_LINGER, 0) &&
           set(socket, ZMQ_IPV6, 1) && set(socket, ZMQ_TCP_KEEPALIVE, 1) &&
           set(socket, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S) &&
           set(socket, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_STEP_S) &&
           set(socket, ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT) &&
           set(socket, ZMQ_TCP_MAXRT, UNANSWERED_MS) &&
           zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->public_keys.curve, KEY_BYTES) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->curve_secret, KEY_BYTES) == 0;
}

/* The end of a monitor that we read. A full queue would block ZeroMQ's thread, so it has no mark:
 * events are some hundred bytes each, and come once or twice a connection. */
static void *monitor_of(struct messenger *messenger, void *socket, int events) {
    char name[64];
    snprintf(name, sizeof name, "inproc://monitor-%u", messenger->dial_serial++);
    if (zmq_socket_monitor(socket, name, events) != 0) {
        return NULL;
    }
    void *monitor = zmq_socket(messenger->context, ZMQ_PAIR);
    if (monitor != NULL && (!set(monitor, ZMQ_RCVHWM, 0) || !set(monitor, ZMQ_LINGER, 0) ||
                            zmq_connect(monitor, name) != 0)) {
        (void)zmq_socket_monitor(socket, NULL, 0);
        (void)zmq_close(monitor);
        return NULL;
    }
    return monitor;
}

bool socket_event(void *monitor, struct socket_monitor_event *event) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    const bool got = zmq_msg_recv(&part, monitor, ZMQ_DONTWAIT) >= 0;
    if (got) {
        ASSERT(zmq_msg_size(&part) == sizeof event->kind + sizeof event->value);
        const uint8_t *bytes = zmq_msg_data(&part);
        memcpy(&event->kind, bytes, sizeof event->kind);
        memcpy(&event->value, bytes + sizeof event->kind, sizeof event->value);
    }
    while (got && zmq_msg_more(&part)) { /* the address, which says nothing that is not known */
        (void)zmq_msg_recv(&part, monitor, ZMQ_DONTWAIT);
    }
    zmq_msg_close(&part);
    return got;
}

static enum status fault_of_address(const char *address, struct fault *fault) {
    char reason[160];
    const int error = zmq_errno();
    const bool is_taken = error == EADDRINUSE || error == EMFILE || error == EACCES;
    snprintf(reason, sizeof reason, "cannot listen: %s",
             error == ENODEV ? "no address of this machine" : zmq_strerror(error));
    return fault_set(fault, is_taken ? STATUS_FAILED : STATUS_INPUT, address,
                     error == EADDRINUSE ? "stop what listens there, or choose another port" : NULL,
                     "%s", reason);
}

static uint16_t port_of(void *socket) {
    char address[MESSAGE_ADDRESS_BYTES];
    size_t bytes = sizeof address;
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address, &bytes) != 0) {
        return 0;
    }
    const char *colon = strrchr(address, ':');
    int64_t port = 0;
    return colon != NULL && text_parse_i64(colon + 1, &port) ? (uint16_t)port : 0;
}

enum status socket_listener(struct messenger *messenger, struct fault *fault) {
    const char *address = messenger->options.listen;
    size_t fd_bytes = sizeof messenger->listener_fd;
    void *socket = zmq_socket(messenger->context, ZMQ_ROUTER);
    if (socket == NULL || !set_basics(socket, messenger) || !set(socket, ZMQ_CURVE_SERVER, 1) ||
        !set(socket, ZMQ_ROUTER_MANDATORY, 1) || !set(socket, ZMQ_BACKLOG, BACKLOG) ||
        zmq_getsockopt(socket, ZMQ_FD, &messenger->listener_fd, &fd_bytes) != 0 ||
        (messenger->listener_monitor =
             monitor_of(messenger, socket, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED)) == NULL) {
        messenger->listener = socket;
        return fault_set(fault, STATUS_FAILED, address, NULL, "no socket: %s",
                         zmq_strerror(zmq_errno()));
    }
    messenger->listener = socket;
    if (zmq_bind(socket, address) != 0) {
        return fault_of_address(address, fault);
    }
    messenger->port = port_of(socket);
    return OK;
}

/* What comes is a name and then bytes, which are none when a connection begins or ends. */
bool socket_has_input(void *stream) {
    bool is_name = true;
    bool any = false;
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (!any && zmq_msg_recv(&part, stream, ZMQ_DONTWAIT) >= 0) {
        any = !is_name && zmq_msg_size(&part) > 0;
        is_name = !zmq_msg_more(&part);
    }
    zmq_msg_close(&part);
    return any;
}

bool socket_dial(struct messenger *messenger, const uint8_t *curve, const char *address,
                 void **socket, void **monitor) {
    void *made = zmq_socket(messenger->context, curve == NULL ? ZMQ_STREAM : ZMQ_DEALER);
    if (made == NULL) {
        return false;
    }
    void *watch = NULL;
    if (!set_basics(made, messenger) ||
        (curve != NULL && zmq_setsockopt(made, ZMQ_CURVE_SERVERKEY, curve, KEY_BYTES) != 0) ||
        !set(made, ZMQ_RECONNECT_IVL, NEVER_MS) ||
        !set(made, ZMQ_CONNECT_TIMEOUT, MESSENGER_HANDSHAKE) ||
        (watch = monitor_of(messenger, made, ZMQ_EVENT_ALL)) == NULL ||
        zmq_connect(made, address) != 0) {
        socket_close(made, watch, 0);
        return false;
    }
    *socket = made;
    *monitor = watch;
    return true;
}

/* The monitor is stopped before its end here is closed: ZeroMQ's thread would wait for ever to
 * write into one that has no other end. */
void socket_close(void *socket, void *monitor, int linger_ms) {
    if (socket == NULL) {
        return;
    }
    if (monitor != NULL) {
        (void)zmq_socket_monitor(socket, NULL, 0);
        (void)zmq_close(monitor);
    }
    (void)set(socket, ZMQ_LINGER, linger_ms);
    (void)zmq_close(socket);
}

static bool host_is_one(const char *host, size_t letters, bool any_port) {
    const bool is_any = any_port && letters == 1 && host[0] == '*';
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

bool address_is_one(const char *address, bool any_port) {
    static const char SCHEME[] = "tcp://";
    const size_t letters = strnlen(address, MESSAGE_ADDRESS_BYTES);
    if (letters >= MESSAGE_ADDRESS_BYTES || strncmp(address, SCHEME, sizeof SCHEME - 1) != 0) {
        return false;
    }
    const char *host = address + sizeof SCHEME - 1;
    const char *colon = strrchr(host, ':');
    if (colon == NULL || !host_is_one(host, (size_t)(colon - host), any_port)) {
        return false;
    }
    const char *digits = colon + 1;
    if (any_port && (strcmp(digits, "*") == 0 || strcmp(digits, "0") == 0)) {
        return true;
    }
    int64_t port = 0;
    return digits[strspn(digits, "0123456789")] == '\0' && text_parse_i64(digits, &port) &&
           port >= 1 && port <= UINT16_MAX;
}
