/* numeric_address: addresses whose host is an IP address, in the form that socket calls require. */
#ifndef SKEP_TRANSPORT_IDENTITY_NUMERIC_ADDRESS_H
#define SKEP_TRANSPORT_IDENTITY_NUMERIC_ADDRESS_H

#include "base/check.h"

#include <netinet/in.h>

union numeric_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* numeric_address_parse: parse an address whose host is an IP address. Returns the length of
 * *number, or 0 if the host is a name or the text is not an address. Uses no network. */
MUST_CHECK socklen_t numeric_address_parse(const char *address, union numeric_address *number);

#endif
