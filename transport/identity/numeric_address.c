/* numeric_address: see numeric_address.h. */
#include "transport/identity/numeric_address.h"

#include "base/text.h"
#include "transport/identity/address.h"

#include <arpa/inet.h>
#include <string.h>

static const char SCHEME[] = "tcp://";

socklen_t numeric_address_parse(const char *address, union numeric_address *number) {
    char host[MESSAGE_ADDRESS_BYTES];
    int64_t port = 0;
    const char *at = address + sizeof SCHEME - 1;
    if (strncmp(address, SCHEME, sizeof SCHEME - 1) != 0) {
        return 0;
    }
    bool has_brackets = *at == '[';
    const char *end = has_brackets ? strchr(at, ']') : strchr(at, ':');
    at += has_brackets;
    if (end == NULL || (size_t)(end - at) >= sizeof host || end[has_brackets] != ':' ||
        !text_parse_i64(end + has_brackets + 1, &port) || port < 1 || port > UINT16_MAX) {
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
