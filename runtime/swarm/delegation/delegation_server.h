/* delegation_server: a tracker's delegation port, whose number is one above that of the port for
 * frames. Each connection gets one frame of at most DELEGATION_FRAME_BYTES_MAX bytes and is closed.
 * Nothing is read, and no state is kept for a connection: the frame fits the kernel's send buffer.
 *
 *     connection ──► host blocked? close ──► send the frame ──► close; the kernel delivers
 *
 * The connections of each host are limited as on the port for frames
 * (transport/messages/accept_policy.h). */
#ifndef SKEP_SWARM_DELEGATION_DELEGATION_SERVER_H
#define SKEP_SWARM_DELEGATION_DELEGATION_SERVER_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/delegation/delegation.h"

struct delegation_server; /* in the region */

/* delegation_server_bytes: the memory that the server needs in a region. */
uint64_t delegation_server_bytes(void);

/* delegation_server_open: listen on the port number one above that of `listen`, tcp://ADDRESS:PORT
 * with a numeric address or * and a port number.
 * errors  STATUS_FAILED: the port is in use; STATUS_INPUT: `listen` has the highest port number,
 *         or an unknown host */
MUST_CHECK enum status delegation_server_open(const char *listen, struct region *region,
                                              struct delegation_server **server,
                                              struct fault *fault);
void delegation_server_close(struct delegation_server *server);

/* delegation_server_set_delegation: set the delegation to send from now on. */
void delegation_server_set_delegation(struct delegation_server *server,
                                      const struct known_delegation *known);

/* delegation_server_serve: accept waiting connections, at most 64, and send each the frame. */
void delegation_server_serve(struct delegation_server *server, int64_t now_ms);

#endif
