/* source: the host and the network that a connection comes from, which are the units in which
 * outsiders are counted.
 *
 *     host      one IPv4 address, or an IPv6 /64, of which a machine may use every address
 *     network   an IPv4 /24, or the same IPv6 /64 */
#ifndef SKEP_TRANSPORT_MESSAGES_SOURCE_H
#define SKEP_TRANSPORT_MESSAGES_SOURCE_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* A host: an IPv6 address whose last 64 bits are 0, or an IPv4 address as ::ffff:a.b.c.d. */
struct source {
    uint8_t bytes[16]; /* in network byte order */
};

/* source_of_socket: the host of the peer of a TCP connection. Returns false if the connection
 * has ended. source_of_text: the host of a numeric IP address. Returns false if the text is no
 * IP address. */
MUST_CHECK bool source_of_socket(int fd, struct source *source);
MUST_CHECK bool source_of_text(const char *ip, struct source *source);

bool source_is_v4(const struct source *source);
bool source_is_same_host(const struct source *a, const struct source *b);
bool source_is_same_network(const struct source *a, const struct source *b);

#endif
