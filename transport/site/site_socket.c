/* site_socket: see site_socket.h. */
#include "transport/site/site_socket.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char FIX_ADDRESS[] = "set MASTER_ADDR to the machine of rank 0";
static const char FIX_PORT[] = "set MASTER_PORT to an unused port of rank 0's machine";

static enum status resolve_address(const struct launch_info *launch, struct addrinfo **found,
                                   struct fault *fault) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char port[16];
    struct text text = text_over(port, sizeof port);
    text_add(&text, "%d", launch->port);
    int failure = getaddrinfo(launch->address, port, &hints, found);
    if (failure != 0) {
        /* A name server that does not respond now may respond later. */
        enum status status = failure == EAI_AGAIN ? STATUS_FAILED : STATUS_INPUT;
        return fault_set(fault, status, launch->address, FIX_ADDRESS,
                         "cannot resolve this address of rank 0: %s", gai_strerror(failure));
    }
    return OK;
}

void socket_disable_delay(int fd) {
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, address, sizeof six);
        return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    }
    struct sockaddr_in four;
    memcpy(&four, address, sizeof four);
    return ntohl(four.sin_addr.s_addr) >> 24 == 127;
}

/* Some distributions resolve a machine's own name to a loopback address. Other machines cannot
 * reach it, so rank 0 then listens on all addresses. */
static void listen_on_all(const struct launch_info *launch, struct sockaddr *address) {
    if (launch->local_world == launch->world || !is_loopback(address)) {
        return;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, address, sizeof six);
        six.sin6_addr = in6addr_any;
        memcpy(address, &six, sizeof six);
    } else {
        struct sockaddr_in four;
        memcpy(&four, address, sizeof four);
        four.sin_addr.s_addr = htonl(INADDR_ANY);
        memcpy(address, &four, sizeof four);
    }
}

/* Open a socket that listens at `address`; -1 with errno on failure. */
static int listen_at(const struct sockaddr *address, socklen_t bytes) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, address, bytes) == 0 && listen(fd, SOMAXCONN) == 0) {
        return fd;
    }
    int failure = errno;
    close(fd);
    errno = failure;
    return -1;
}

static enum status adopt_listener(int fd, int *listener, struct fault *fault) {
    int listens = 0;
    socklen_t bytes = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || !listens ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return fault_set(fault, STATUS_INPUT, "SKEP_LISTENER", "start the ranks with --ranks",
                         "file descriptor %d is not a listening socket", fd);
    }
    *listener = fd;
    return OK;
}

static enum status set_listen_fault(const struct launch_info *launch, int failure,
                                    struct fault *fault) {
    if (failure == EADDRINUSE) {
        return fault_set(fault, STATUS_INPUT, "rank 0", FIX_PORT,
                         "port %d of %s is in use by another process", launch->port,
                         launch->address);
    }
    if (failure == EADDRNOTAVAIL) {
        return fault_set(fault, STATUS_INPUT, "rank 0", FIX_ADDRESS, "%s is not a local address",
                         launch->address);
    }
    return fault_set(fault, STATUS_FAILED, "rank 0", FIX_PORT, "cannot listen at %s, port %d: %s",
                     launch->address, launch->port, strerror(failure));
}

enum status socket_listen(const struct launch_info *launch, int *listener, struct fault *fault) {
    if (launch->listener > 0) {
        return adopt_listener(launch->listener, listener, fault);
    }
    struct addrinfo *found = NULL;
    TRY(resolve_address(launch, &found, fault));
    int fd = -1;
    int failure = 0;
    for (struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        listen_on_all(launch, at->ai_addr);
        fd = listen_at(at->ai_addr, at->ai_addrlen);
        failure = fd < 0 ? errno : 0;
    }
    freeaddrinfo(found);
    if (fd < 0) {
        return set_listen_fault(launch, failure, fault);
    }
    *listener = fd;
    return OK;
}

/* Waits until the socket is connected. Returns 0 or an errno. */
static int await_connected(int fd, int timeout_ms) {
    struct pollfd connected = {.fd = fd, .events = POLLOUT};
    int failure = 0;
    socklen_t bytes = sizeof failure;
    int ready = poll(&connected, 1, timeout_ms);
    if (ready == 0) {
        return ETIMEDOUT;
    }
    if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &bytes) != 0) {
        return errno;
    }
    return failure;
}

/* A connection to an unused port of the kernel's own range can connect a socket to itself, if the
 * kernel assigns that port to it. */
static bool is_connected_to_itself(int fd) {
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t bytes[2] = {sizeof own, sizeof peer};
    return getsockname(fd, (struct sockaddr *)&own, &bytes[0]) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &bytes[1]) == 0 && bytes[0] == bytes[1] &&
           memcmp(&own, &peer, bytes[0]) == 0;
}

static int connect_to(const struct addrinfo *to, int timeout_ms, int *failure) {
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        *failure = errno;
        return -1;
    }
    *failure = connect(fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    if (*failure == EINPROGRESS || *failure == EINTR) {
        *failure = await_connected(fd, timeout_ms);
    }
    if (*failure == 0 && is_connected_to_itself(fd)) {
        *failure = ECONNREFUSED;
    }
    if (*failure == 0 && fcntl(fd, F_SETFL, 0) == 0) {
        socket_disable_delay(fd);
        return fd;
    }
    close(fd);
    return -1;
}

enum status socket_connect(const struct launch_info *launch, int timeout_ms, int *fd,
                           struct fault *fault) {
    struct addrinfo *found = NULL;
    TRY(resolve_address(launch, &found, fault));
    int connected = -1;
    int failure = 0;
    for (struct addrinfo *at = found; at != NULL && connected < 0; at = at->ai_next) {
        connected = connect_to(at, timeout_ms, &failure);
    }
    freeaddrinfo(found);
    if (connected < 0) {
        return fault_set(fault, STATUS_FAILED, "rank 0",
                         "start rank 0, or correct MASTER_ADDR and MASTER_PORT",
                         "cannot be reached at %s, port %d: %s", launch->address, launch->port,
                         strerror(failure));
    }
    *fd = connected;
    return OK;
}

enum status socket_listen_on_loopback(int *listener, int *port, struct fault *fault) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    struct sockaddr general;
    _Static_assert(sizeof general == sizeof address,
                   "struct sockaddr_in is as large as struct sockaddr");
    memcpy(&general, &address, sizeof general);
    int fd = listen_at(&general, sizeof general);
    if (fd < 0 || getsockname(fd, &general, &bytes) != 0) {
        int failure = errno;
        if (fd >= 0) {
            close(fd);
        }
        return fault_set_errno(fault, STATUS_FAILED, "127.0.0.1", "cannot listen", failure);
    }
    memcpy(&address, &general, sizeof address);
    *listener = fd;
    *port = ntohs(address.sin_port);
    return OK;
}
