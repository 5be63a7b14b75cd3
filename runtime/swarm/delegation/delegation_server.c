#include "runtime/swarm/delegation/delegation_server.h"

#include "base/text.h"
#include "transport/identity/address.h"
#include "transport/identity/numeric_address.h"
#include "transport/messages/accept_policy.h"
#include "transport/messages/listener_filter.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_MAX = 64, /* maximum connections served in one call of delegation_server_serve */
    BACKLOG = 256,    /* maximum connections that the kernel queues until they are accepted */
    /* The kernel drops a connection whose peer has not received the frame after this time. */
    DELIVERY_MS = 5000,
};

/* The delegation port of a tracker. */
struct delegation_server {
    int fd;       /* listening socket */
    size_t count; /* size of the frame in bytes; 0: none yet */
    /* frame with the delegation, sent to each connection */
    uint8_t frame[DELEGATION_FRAME_BYTES_MAX];
    struct accept_policy policy; /* counts the connections of each host */
    uint32_t filter_version; /* policy.blocked_version when the kernel's filter was last updated */
};

uint64_t delegation_server_bytes(void) {
    return sizeof(struct delegation_server);
}

static enum status set_listen_fault(const char *address, int error, struct fault *fault) {
    return fault_set(
        fault, STATUS_FAILED, address,
        "choose a port number whose next one is free too: the tracker serves its delegation there",
        "cannot listen on this address: %s", strerror(error));
}

/* Copies an address to `out`. The host * becomes [::], the IPv6 address of all interfaces, which
 * accepts IPv4 connections too. */
static void replace_wildcard(const char *address, char out[static MESSAGE_ADDRESS_BYTES]) {
    static const char ANYWHERE[] = "tcp://*:";
    const size_t length = sizeof ANYWHERE - 1;
    struct text text = text_over(out, MESSAGE_ADDRESS_BYTES);
    const bool is_anywhere = strncmp(address, ANYWHERE, length) == 0;
    text_add(&text, "%s%s", is_anywhere ? "tcp://[::]:" : "", address + (is_anywhere ? length : 0));
}

static bool listen_on(int fd, const union numeric_address *number, socklen_t length) {
    const int on = 1, off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return bind(fd, &number->any, length) == 0 && listen(fd, BACKLOG) == 0;
}

/* On a machine without IPv6, replaces an IPv6 address by the IPv4 address of all interfaces. */
static void use_v4_if_needed(union numeric_address *number, socklen_t *length) {
    const int fd = socket(number->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        close(fd);
    } else if (number->any.sa_family == AF_INET6) {
        const in_port_t port = number->v6.sin6_port;
        memset(number, 0, sizeof *number);
        number->v4.sin_family = AF_INET;
        number->v4.sin_port = port;
        *length = sizeof number->v4;
    }
}

static enum status open_listener(const char *listen, int *fd, struct fault *fault) {
    char next[MESSAGE_ADDRESS_BYTES], numeric[MESSAGE_ADDRESS_BYTES], bound[MESSAGE_ADDRESS_BYTES];
    union numeric_address number;
    if (!address_next_port(listen, next)) {
        return fault_set(
            fault, STATUS_INPUT, listen, "choose a port below 65535",
            "is the last port number, but the tracker serves its delegation from the next one");
    }
    replace_wildcard(next, numeric);
    TRY(resolve_host(numeric, bound, fault));
    socklen_t length = numeric_address_parse(bound, &number);
    if (length == 0) {
        return fault_set(fault, STATUS_INPUT, next, "listen on an IP address",
                         "has no IP address to listen on");
    }
    use_v4_if_needed(&number, &length);
    *fd = socket(number.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0 || !listen_on(*fd, &number, length)) {
        const int error = errno;
        if (*fd >= 0) {
            close(*fd);
        }
        return set_listen_fault(next, error, fault);
    }
    return OK;
}

enum status delegation_server_open(const char *listen, struct region *region,
                                   struct delegation_server **server, struct fault *fault) {
    int fd = -1;
    TRY(open_listener(listen, &fd, fault));
    struct delegation_server *opened = region_alloc(region, 1, sizeof *opened);
    opened->fd = fd;
    *server = opened;
    return OK;
}

void delegation_server_close(struct delegation_server *server) {
    close(server->fd);
}

void delegation_server_set_delegation(struct delegation_server *server,
                                      const struct known_delegation *known) {
    server->count = delegation_write(&known->swarm, &known->delegation, server->frame);
}

static void send_frame_to(struct delegation_server *server, int fd, int64_t now_ms) {
    struct source host;
    const unsigned timeout_ms = DELIVERY_MS;
    if (source_of_socket(fd, &host) &&
        accept_policy_count_connection(&server->policy, &host, now_ms)) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
        (void)send(fd, server->frame, server->count, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    close(fd);
}

static void update_listener_filter(struct delegation_server *server) {
    struct source hosts[ACCEPT_BLOCKED_MAX];
    if (server->filter_version != server->policy.blocked_version) {
        server->filter_version = server->policy.blocked_version;
        listener_filter_set_hosts(server->fd, hosts,
                                  accept_policy_list_blocked(&server->policy, hosts));
    }
}

void delegation_server_serve(struct delegation_server *server, int64_t now_ms) {
    int fd = 0;
    accept_policy_unblock_hosts(&server->policy, now_ms);
    for (int i = 0; i < ACCEPTS_MAX && fd >= 0; i++) {
        fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            send_frame_to(server, fd, now_ms);
        }
    }
    update_listener_filter(server);
}
