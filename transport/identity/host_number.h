/* host_number: the number behind an address's host. Who is dialled is named by a number only:
 * ZeroMQ would look a name up on the one thread that moves everybody's bytes, and a name server
 * that does not answer would keep them all waiting. */
#ifndef SKEP_TRANSPORT_IDENTITY_HOST_NUMBER_H
#define SKEP_TRANSPORT_IDENTITY_HOST_NUMBER_H

#include "base/fault.h"
#include "transport/identity/address.h"

#include <netinet/in.h>

union numeric_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* numeric_address_parse: how long *number is, of "tcp://HOST:PORT" with an IPv4 address or an IPv6
 * address in brackets; 0 of a name. Looks at no network. */
MUST_CHECK socklen_t numeric_address_parse(const char *address, union numeric_address *number);

/* resolve_host: the same address with a number for its host's name, as this machine's name
 * servers have it now; an IPv4 address if there is one, as more machines reach it.
 * limits  an address that address_error lets pass; before the seal; waits for name servers
 * errors  STATUS_INPUT at the address: nobody knows the name; STATUS_FAILED: no name server
 *         answers. `found` is then untouched */
MUST_CHECK enum status resolve_host(const char *address, char found[static MESSAGE_ADDRESS_BYTES],
                                    struct fault *fault);

#endif
