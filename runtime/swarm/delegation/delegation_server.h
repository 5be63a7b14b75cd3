/* delegation_server: a tracker's port for the delegation, one above the port for frames. Each
 * connection gets one frame of at most DELEGATION_FRAME_BYTES_MAX bytes and is closed. Nothing is
 * read, and no state is kept for a connection: the frame fits the kernel's send buffer.
 *
 *     connection ──► host blocked? close ──► send the frame ──► close; the kernel delivers
 *
 * The hosts are counted as those of the other port are (transport/messages/accept_policy.h). */
#ifndef SKEP_SWARM_DELEGATION_DELEGATION_SERVER_H
#define SKEP_SWARM_DELEGATION_DELEGATION_SERVER_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/delegation/delegation.h"

struct delegation_server; /* in the region */

/* delegation_server_bytes: size of the server in the region. */
uint64_t delegation_server_bytes(void);

/* delegation_server_open: listen on the port after that of `listen`, tcp://ADDRESS:PORT with a
 * numeric address or * and a port number.
 * errors  STATUS_FAILED: the port is in use; STATUS_INPUT: there is none after that of `listen`, or
 *         its host is unknown */
MUST_CHECK enum status delegation_server_open(const char *listen, struct region *region,
                                              struct delegation_server **server,
                                              struct fault *fault);
void delegation_server_close(struct delegation_server *server);

/* delegation_server_set: the delegation to send from now on. */
void delegation_server_set(struct delegation_server *server, const struct known_delegation *known);

/* delegation_server_run: serve the connections that have arrived, a bounded number of them. */
void delegation_server_run(struct delegation_server *server, int64_t now_ms);

#endif
