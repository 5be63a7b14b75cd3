/* connect_probe: see connect_probe.h. */
#include "transport/messages/connect_probe.h"

#include "transport/identity/numeric_address.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* The bytes that both sides of a ZMTP 3 connection send first: FF, eight of padding, 7F. */
enum {
    OPENING_BYTES = 10,   /* number of these bytes */
    OPENING_FIRST = 0xff, /* value of the first byte */
    OPENING_LAST = 0x7f,  /* value of the last byte */
};

bool connect_probe_start(const char *address, struct connect_probe *probe) {
    union numeric_address to;
    socklen_t length = numeric_address_parse(address, &to);
    probe->fd = -1;
    if (length == 0) {
        return false;
    }
    int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    probe->fd = fd;
    probe->failed = connect(fd, &to.any, length) != 0 && errno != EINPROGRESS;
    return true;
}

/* State of the TCP connection: OK once it is established, PENDING until then. */
static enum connect_probe_state read_connection_state(int fd) {
    union numeric_address peer;
    socklen_t length = sizeof peer;
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure != 0) {
        return CONNECT_PROBE_FAILED;
    }
    return getpeername(fd, &peer.any, &length) == 0 ? CONNECT_PROBE_OK : CONNECT_PROBE_PENDING;
}

/* A ZeroMQ listener sends its opening at once, without waiting for ours. MSG_PEEK leaves a part
 * of the opening in the socket until all of it has arrived. */
static enum connect_probe_state read_opening_state(int fd) {
    unsigned char bytes[OPENING_BYTES];
    ssize_t count = recv(fd, bytes, sizeof bytes, MSG_PEEK);
    if (count < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? CONNECT_PROBE_PENDING
                                                                         : CONNECT_PROBE_FAILED;
    }
    if (count == 0 || bytes[0] != OPENING_FIRST) {
        return CONNECT_PROBE_FAILED;
    }
    if (count < OPENING_BYTES) {
        return CONNECT_PROBE_PENDING;
    }
    return bytes[OPENING_BYTES - 1] == OPENING_LAST ? CONNECT_PROBE_OK : CONNECT_PROBE_FAILED;
}

enum connect_probe_state connect_probe_poll(struct connect_probe *probe) {
    ASSERT(probe->fd >= 0);
    enum connect_probe_state state =
        probe->failed ? CONNECT_PROBE_FAILED : read_connection_state(probe->fd);
    if (state == CONNECT_PROBE_OK) {
        state = read_opening_state(probe->fd);
    }
    if (state != CONNECT_PROBE_PENDING) {
        connect_probe_end(probe);
    }
    return state;
}

void connect_probe_end(struct connect_probe *probe) {
    if (probe->fd >= 0) {
        close(probe->fd);
    }
    probe->fd = -1;
}
