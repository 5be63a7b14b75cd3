#include "transport/reach.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What either end of ZMTP 3 says first: FF, eight bytes of padding, 7F. */
enum { HOST_BYTES = 64, OPENING_BYTES = 10, OPENING_FIRST = 0xff, OPENING_LAST = 0x7f };

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* How long the address is, or 0 when the text is none. */
static socklen_t parse(const char *text, union socket_address *address) {
    static const char SCHEME[] = "tcp://";
    char host[HOST_BYTES];
    int64_t port = 0;
    const char *at = text + sizeof SCHEME - 1;
    if (strncmp(text, SCHEME, sizeof SCHEME - 1) != 0) {
        return 0;
    }
    bool bracketed = *at == '[';
    const char *end = bracketed ? strchr(at, ']') : strchr(at, ':');
    at += bracketed;
    if (end == NULL || (size_t)(end - at) >= sizeof host || end[bracketed] != ':' ||
        !text_parse_i64(end + bracketed + 1, &port) || port < 1 || port > UINT16_MAX) {
        return 0;
    }
    memcpy(host, at, (size_t)(end - at));
    host[end - at] = '\0';
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons((uint16_t)port);
        return sizeof address->v4;
    }
    if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons((uint16_t)port);
        return sizeof address->v6;
    }
    return 0;
}

bool reach_begin(const char *address, struct reach *reach) {
    union socket_address to;
    socklen_t length = parse(address, &to);
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
    union socket_address peer;
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
