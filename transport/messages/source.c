#include "transport/messages/source.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

enum {
    MAPPED_BYTES = 12,    /* length of the prefix of an IPv4 address in IPv6 form */
    NETWORK_V4_BYTES = 3, /* length of an IPv4 network: /24 */
    NETWORK_V6_BYTES = 8, /* length of an IPv6 network: /64 */
};

static const uint8_t MAPPED[MAPPED_BYTES] = {[10] = 0xff, [11] = 0xff};

static struct source source_of_v4(const struct in_addr *address) {
    struct source source;
    memcpy(source.bytes, MAPPED, MAPPED_BYTES);
    memcpy(source.bytes + MAPPED_BYTES, address, sizeof *address);
    return source;
}

static struct source source_of_v6(const struct in6_addr *address) {
    struct source source = {{0}};
    const bool is_mapped = memcmp(address->s6_addr, MAPPED, MAPPED_BYTES) == 0;
    memcpy(source.bytes, address->s6_addr, is_mapped ? sizeof source.bytes : NETWORK_V6_BYTES);
    return source;
}

bool source_of_socket(int fd, struct source *source) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t bytes = sizeof address;
    if (getpeername(fd, &address.any, &bytes) != 0 ||
        (address.any.sa_family != AF_INET && address.any.sa_family != AF_INET6)) {
        return false;
    }
    *source = address.any.sa_family == AF_INET ? source_of_v4(&address.v4.sin_addr)
                                               : source_of_v6(&address.v6.sin6_addr);
    return true;
}

bool source_of_text(const char *ip, struct source *source) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, ip, &v4) == 1) {
        *source = source_of_v4(&v4);
        return true;
    }
    if (inet_pton(AF_INET6, ip, &v6) == 1) {
        *source = source_of_v6(&v6);
        return true;
    }
    return false;
}

bool source_is_v4(const struct source *source) {
    return memcmp(source->bytes, MAPPED, MAPPED_BYTES) == 0;
}

bool source_is_same_host(const struct source *a, const struct source *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool source_is_same_network(const struct source *a, const struct source *b) {
    const size_t bytes =
        source_is_v4(a) ? MAPPED_BYTES + NETWORK_V4_BYTES : (size_t)NETWORK_V6_BYTES;
    return source_is_v4(a) == source_is_v4(b) && memcmp(a->bytes, b->bytes, bytes) == 0;
}
