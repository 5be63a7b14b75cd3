/* site_socket: addresses, the listening socket of rank 0, and connections to it. */
#ifndef SKEP_TRANSPORT_SITE_SITE_SOCKET_H
#define SKEP_TRANSPORT_SITE_SITE_SOCKET_H

#include "transport/site/site.h"

/* socket_listen: at place's address and port, or place->listener itself; never waits on accept.
 * errors  STATUS_INPUT when the address cannot be found, is not this machine's, or its port is
 *         taken; STATUS_FAILED when the system refuses a socket */
MUST_CHECK enum status socket_listen(const struct launch_info *place, int *listener,
                                     struct fault *fault);

/* socket_connect: to rank 0, trying every address of the name once within timeout_ms.
 * errors  STATUS_INPUT when the name is unknown, STATUS_FAILED when nobody answers (yet) */
MUST_CHECK enum status socket_connect(const struct launch_info *place, int timeout_ms, int *fd,
                                      struct fault *fault);

/* socket_loopback: a listening socket at 127.0.0.1 and a port that was free. */
MUST_CHECK enum status socket_loopback(int *listener, int *port, struct fault *fault);

/* socket_disable_delay: small messages are not held back to be joined with later ones. */
void socket_disable_delay(int fd);

#endif
