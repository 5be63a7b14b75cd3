#include "transport/identity/host_number.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

static const char SCHEME[] = "tcp://";

socklen_t numeric_address_parse(const char *address, union numeric_address *number) {
    char host[MESSAGE_ADDRESS_BYTES];
    int64_t port = 0;
    const char *at = address + sizeof SCHEME - 1;
    if (strncmp(address, SCHEME, sizeof SCHEME - 1) != 0) {
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
    memset(number, 0, sizeof *number);
    if (inet_pton(AF_INET, host, &number->v4.sin_addr) == 1) {
        number->v4.sin_family = AF_INET;
        number->v4.sin_port = htons((uint16_t)port);
        return sizeof number->v4;
    }
    if (inet_pton(AF_INET6, host, &number->v6.sin6_addr) == 1) {
        number->v6.sin6_family = AF_INET6;
        number->v6.sin6_port = htons((uint16_t)port);
        return sizeof number->v6;
    }
    return 0;
}

/* The first of a family; NULL: none. */
static const struct addrinfo *first_of(const struct addrinfo *list, int family) {
    while (list != NULL && list->ai_family != family) {
        list = list->ai_next;
    }
    return list;
}

static enum status look_up(const char *address, const char *name, struct addrinfo **list,
                           struct fault *fault) {
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int failure = getaddrinfo(name, NULL, &wanted, list);
    if (failure == 0) {
        return OK;
    }
    return fault_set(fault, failure == EAI_AGAIN ? STATUS_FAILED : STATUS_INPUT, address,
                     "give the number: tcp://203.0.113.5:7000", "cannot find \"%.80s\": %s", name,
                     gai_strerror(failure));
}

static void write_number(const struct addrinfo *at, const char *port,
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
    enum status status = look_up(address, name, &list, fault);
    if (status != OK) {
        return status;
    }
    const struct addrinfo *v4 = first_of(list, AF_INET);
    write_number(v4 != NULL ? v4 : list, host + length, found);
    freeaddrinfo(list);
    return OK;
}
