#include "transport/messages/reach.h"

#include "transport/identity/host_number.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* What either end of ZMTP 3 says first: FF, eight bytes of padding, 7F. */
enum { OPENING_BYTES = 10, OPENING_FIRST = 0xff, OPENING_LAST = 0x7f };

bool connect_probe_start(const char *address, struct connect_probe *reach) {
    union numeric_address to;
    socklen_t length = numeric_address_parse(address, &to);
    reach->fd = -1;
    if (length == 0) {
        return false;
    }
    int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    reach->fd = fd;
    reach->failed = connect(fd, &to.any, length) != 0 && errno != EINPROGRESS;
    return true;
}

/* Whether the connection stands, is still being made, or failed. */
static enum connect_probe_state connected(int fd) {
    union numeric_address peer;
    socklen_t length = sizeof peer;
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure != 0) {
        return CONNECT_PROBE_FAILED;
    }
    return getpeername(fd, &peer.any, &length) == 0 ? CONNECT_PROBE_OK : CONNECT_PROBE_PENDING;
}

/* ZeroMQ speaks before it is spoken to. */
static enum connect_probe_state greeted(int fd) {
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

enum connect_probe_state connect_probe_poll(struct connect_probe *reach) {
    ASSERT(reach->fd >= 0);
    enum connect_probe_state state = reach->failed ? CONNECT_PROBE_FAILED : connected(reach->fd);
    if (state == CONNECT_PROBE_OK) {
        state = greeted(reach->fd);
    }
    if (state != CONNECT_PROBE_PENDING) {
        connect_probe_end(reach);
    }
    return state;
}

void connect_probe_end(struct connect_probe *reach) {
    if (reach->fd >= 0) {
        close(reach->fd);
    }
    reach->fd = -1;
}
