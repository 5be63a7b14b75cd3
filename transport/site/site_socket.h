/* site_socket: the listening socket of rank 0 and connections to it. */
#ifndef SKEP_TRANSPORT_SITE_SITE_SOCKET_H
#define SKEP_TRANSPORT_SITE_SITE_SOCKET_H

#include "transport/site/site.h"

/* socket_listen: listen at the address and port of `launch`, or use launch->listener. Accepting
 * from the socket never blocks.
 * errors  STATUS_INPUT: the address cannot be resolved or is not local, or its port is in use;
 *         STATUS_FAILED: the operating system provides no socket */
MUST_CHECK enum status socket_listen(const struct launch_info *launch, int *listener,
                                     struct fault *fault);

/* socket_connect: connect to rank 0. Each address of its host name is tried once, for timeout_ms.
 * errors  STATUS_INPUT: the name is unknown; STATUS_FAILED: no connection, which may succeed
 *         later */
MUST_CHECK enum status socket_connect(const struct launch_info *launch, int timeout_ms, int *fd,
                                      struct fault *fault);

/* socket_listen_on_loopback: a listening socket at 127.0.0.1 with an unused port. */
MUST_CHECK enum status socket_listen_on_loopback(int *listener, int *port, struct fault *fault);

/* socket_disable_delay: send small messages at once (TCP_NODELAY). */
void socket_disable_delay(int fd);

#endif
