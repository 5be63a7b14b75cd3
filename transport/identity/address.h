/* address: network addresses as text, "tcp://HOST:PORT", where HOST is a host name, an IPv4 address
 * or an IPv6 address in brackets. Connections are only opened to numeric addresses: ZeroMQ would
 * resolve a host name on its one I/O thread, and a name server that does not respond would stop all
 * traffic. Host names are therefore resolved before the arena is sealed. */
#ifndef SKEP_TRANSPORT_IDENTITY_ADDRESS_H
#define SKEP_TRANSPORT_IDENTITY_ADDRESS_H

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    MESSAGE_ADDRESS_BYTES = 128, /* size of an address as text, with its NUL */
    LOCAL_ADDRESS_BYTES = 48,    /* size of an IP address as text, with its NUL */
};

/* address_error: NULL if `text` is a valid address with a port of 1 to 65535; else what is wrong
 * with it, as the rest of a sentence ("does not begin with tcp://"). Uses no network. */
MUST_CHECK const char *address_error(const char *text);

/* resolve_host: copy the address to `found` with its host name replaced by an IP address from this
 * machine's name servers. IPv4 is preferred, because more machines can reach it.
 * limits  address_error(address) == NULL; before the arena is sealed; blocks while name servers
 *         respond
 * errors  STATUS_INPUT: the name is unknown; STATUS_FAILED: no name server responds. `found` is
 *         then unchanged */
MUST_CHECK enum status resolve_host(const char *address, char found[static MESSAGE_ADDRESS_BYTES],
                                    struct fault *fault);

/* address_next_port: copy the address to `next` with its port number increased by 1. False: it has
 * no port below 65535 at its end, or the result is too long; `next` is then undefined. */
MUST_CHECK bool address_next_port(const char *address, char next[static MESSAGE_ADDRESS_BYTES]);

/* local_address: write the IPv4 address from which this machine would send packets to the internet,
 * or 127.0.0.1 if it has no route. Sends nothing. Behind NAT, other machines see a different
 * address. Returns `text`. */
const char *local_address(char text[static LOCAL_ADDRESS_BYTES]);

/* local_free_port: a TCP port number that is not in use now, and neither is the one after it; 0 if
 * none was found. */
uint16_t local_free_port(void);

#endif
