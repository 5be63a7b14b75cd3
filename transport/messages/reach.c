#include "transport/messages/reach.h"

#include "transport/identity/host_number.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* What either end of ZMTP 3 says first: FF, eight bytes of padding, 7F. */
enum { OPENING_BYTES = 10, OPENING_FIRST = 0xff, OPENING_LAST = 0x7f };

bool reach_begin(const char *address, struct reach *reach) {
    union host_number to;
    socklen_t length = host_number_of(address, &to);
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
static enum reach_state connected(int fd) {
    union host_number peer;
    socklen_t length = sizeof peer;
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure != 0) {
        return REACH_NOTHING;
    }
    return getpeername(fd, &peer.any, &length) == 0 ? REACH_FOUND : REACH_WAITING;
}

/* ZeroMQ speaks before it is spoken to. */
static enum reach_state greeted(int fd) {
    unsigned char bytes[OPENING_BYTES];
    ssize_t count = recv(fd, bytes, sizeof bytes, MSG_PEEK);
    if (count < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? REACH_WAITING
                                                                         : REACH_NOTHING;
    }
    if (count == 0 || bytes[0] != OPENING_FIRST) {
        return REACH_NOTHING;
    }
    if (count < OPENING_BYTES) {
        return REACH_WAITING;
    }
    return bytes[OPENING_BYTES - 1] == OPENING_LAST ? REACH_FOUND : REACH_NOTHING;
}

enum reach_state reach_look(struct reach *reach) {
    ASSERT(reach->fd >= 0);
    enum reach_state state = reach->failed ? REACH_NOTHING : connected(reach->fd);
    if (state == REACH_FOUND) {
        state = greeted(reach->fd);
    }
    if (state != REACH_WAITING) {
        reach_end(reach);
    }
    return state;
}

void reach_end(struct reach *reach) {
    if (reach->fd >= 0) {
        close(reach->fd);
    }
    reach->fd = -1;
}
