/* address: see address.h. */
#include "transport/identity/address.h"

#include "base/text.h"
#include "transport/identity/numeric_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PORT_MAX = 65535,    /* highest TCP port number */
    PORT_DIGITS_MAX = 5, /* decimal digits of PORT_MAX */
    DISCARD_PORT = 9,    /* UDP port of the discard service */
    PAIR_ATTEMPTS = 64,  /* attempts to find two consecutive free port numbers */
};

static const char SCHEME[] = "tcp://";
static const char NAME_LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   ".-_";
static const char IPV6_LETTERS[] = "0123456789abcdefABCDEF:.";

/* An address that RFC 5737 reserves for documentation. No network uses it, so packets to it
 * would take the default route to the internet. */
static const char OUTSIDE[] = "192.0.2.1";
static const char LOOPBACK[] = "127.0.0.1";

static const char *port_error(const char *port) {
    size_t digits = strspn(port, "0123456789");
    long value = 0;
    if (digits == 0 || port[digits] != '\0') {
        return "has no port number at its end";
    }
    for (size_t i = 0; i < digits && i < PORT_DIGITS_MAX; i++) {
        value = 10 * value + (port[i] - '0');
    }
    return digits <= PORT_DIGITS_MAX && value >= 1 && value <= PORT_MAX
               ? NULL
               : "has a port number outside 1 to 65535";
}

const char *address_error(const char *text) {
    const size_t scheme = sizeof SCHEME - 1;
    if (strnlen(text, MESSAGE_ADDRESS_BYTES) == MESSAGE_ADDRESS_BYTES) {
        return "is longer than 127 characters";
    }
    if (strncmp(text, SCHEME, scheme) != 0) {
        return "does not begin with tcp://";
    }
    bool has_brackets = text[scheme] == '[';
    const char *host = text + scheme + has_brackets;
    size_t length = strspn(host, has_brackets ? IPV6_LETTERS : NAME_LETTERS);
    const char *end = host + length;
    if (length == 0 || (has_brackets && *end != ']') ||
        (!has_brackets && *end != ':' && *end != '\0')) {
        return "needs a host name, an IPv4 address or an IPv6 address in brackets";
    }
    end += has_brackets;
    return *end == ':' ? port_error(end + 1) : "has no :PORT after its host";
}

bool address_next_port(const char *address, char next[static MESSAGE_ADDRESS_BYTES]) {
    const char *colon = strrchr(address, ':');
    int64_t port = 0;
    struct text text = text_over(next, MESSAGE_ADDRESS_BYTES);
    if (colon == NULL || !text_parse_i64(colon + 1, &port) || port < 1 || port >= PORT_MAX) {
        return false;
    }
    text_add(&text, "%.*s:%d", (int)(colon - address), address, (int)port + 1);
    return !text.truncated;
}

/* Returns the first address of `family` in the list, or NULL. */
static const struct addrinfo *find_address_of_family(const struct addrinfo *list, int family) {
    while (list != NULL && list->ai_family != family) {
        list = list->ai_next;
    }
    return list;
}

static enum status look_up_host(const char *address, const char *name, struct addrinfo **list,
                                struct fault *fault) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int failure = getaddrinfo(name, NULL, &hints, list);
    if (failure == 0) {
        return OK;
    }
    return fault_set(fault, failure == EAI_AGAIN ? STATUS_FAILED : STATUS_INPUT, address,
                     failure == EAI_AGAIN ? "check the network, or use an IP address"
                                          : "check the spelling, or use an IP address",
                     "%s \"%.80s\": %s", failure == EAI_AGAIN ? "cannot resolve" : "unknown host",
                     name, gai_strerror(failure));
}

static void write_numeric_address(const struct addrinfo *at, const char *port,
                                  char found[static MESSAGE_ADDRESS_BYTES]) {
    char number[INET6_ADDRSTRLEN];
    struct text text = text_over(found, MESSAGE_ADDRESS_BYTES);
    bool is_v4 = at->ai_family == AF_INET;
    if (is_v4) {
        struct sockaddr_in v4;
        memcpy(&v4, at->ai_addr, sizeof v4);
        inet_ntop(AF_INET, &v4.sin_addr, number, sizeof number);
    } else {
        struct sockaddr_in6 v6;
        memcpy(&v6, at->ai_addr, sizeof v6);
        inet_ntop(AF_INET6, &v6.sin6_addr, number, sizeof number);
    }
    text_add(&text, is_v4 ? "%s%s%s" : "%s[%s]%s", SCHEME, number, port);
}

enum status resolve_host(const char *address, char found[static MESSAGE_ADDRESS_BYTES],
                         struct fault *fault) {
    union numeric_address number;
    char name[MESSAGE_ADDRESS_BYTES];
    struct addrinfo *list = NULL;
    if (numeric_address_parse(address, &number) > 0) {
        memmove(found, address, strlen(address) + 1);
        return OK;
    }
    const char *host = address + sizeof SCHEME - 1;
    size_t length = strcspn(host, ":");
    ASSERT(length < sizeof name);
    memcpy(name, host, length);
    name[length] = '\0';
    TRY(look_up_host(address, name, &list, fault));
    const struct addrinfo *v4 = find_address_of_family(list, AF_INET);
    write_numeric_address(v4 != NULL ? v4 : list, host + length, found);
    freeaddrinfo(list);
    return OK;
}

static bool read_local_address(int fd, struct sockaddr_in *end) {
    socklen_t length = sizeof *end;
    return getsockname(fd, (struct sockaddr *)end, &length) == 0;
}

const char *local_address(char text[static LOCAL_ADDRESS_BYTES]) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(DISCARD_PORT)};
    struct sockaddr_in end;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    /* Connecting a UDP socket sends nothing. It only selects a route. */
    inet_pton(AF_INET, OUTSIDE, &to.sin_addr);
    memcpy(text, LOOPBACK, sizeof LOOPBACK);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
        read_local_address(fd, &end)) {
        inet_ntop(AF_INET, &end.sin_addr, text, LOCAL_ADDRESS_BYTES);
    }
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

/* Binds a socket to a port, 0 for any. Returns the port, or 0 if it is in use. */
static uint16_t bind_port(int fd, uint16_t port) {
    struct sockaddr_in any = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    return fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof any) == 0 &&
                   read_local_address(fd, &any)
               ? ntohs(any.sin_port)
               : 0;
}

static uint16_t find_free_pair(void) {
    int fds[2] = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                  socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const uint16_t port = bind_port(fds[0], 0);
    const bool is_pair = port > 0 && port < PORT_MAX && bind_port(fds[1], (uint16_t)(port + 1)) > 0;
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    return is_pair ? port : 0;
}

uint16_t local_free_port(void) {
    uint16_t port = 0;
    for (int i = 0; i < PAIR_ATTEMPTS && port == 0; i++) {
        port = find_free_pair();
    }
    return port;
}
