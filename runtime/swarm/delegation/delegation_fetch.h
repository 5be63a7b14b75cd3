/* delegation_fetch: fetches a delegation from a tracker's delegation port, without blocking.
 * The connection is not authenticated, because the operator's signature proves the content. A
 * fetch reads at most one frame and ends after DOWNLOAD_MS, whatever the peer sends. It does not
 * allocate. */
#ifndef SKEP_SWARM_DELEGATION_DELEGATION_FETCH_H
#define SKEP_SWARM_DELEGATION_DELEGATION_FETCH_H

#include "runtime/swarm/delegation/delegation.h"

enum { DOWNLOAD_MS = 3000 }; /* longest duration of one fetch */

/* Whether a fetch is in progress, and how the last one ended. */
enum download_state { DOWNLOAD_NONE, DOWNLOAD_PENDING, DOWNLOAD_DONE, DOWNLOAD_FAILED };

/* One fetch, which reuses its buffer when it begins again. */
struct delegation_fetch {
    enum download_state state;                 /* whether the fetch is pending, or how it ended */
    int fd;                                    /* socket while the fetch is pending */
    int64_t until_ms;                          /* monotonic time at which a pending fetch fails */
    size_t count;                              /* number of bytes received */
    uint8_t bytes[DELEGATION_FRAME_BYTES_MAX]; /* the frame, as far as it has arrived */
};

/* delegation_fetch_begin: end a pending fetch, and begin to connect to the port number one above
 * that of the numeric `address`. The fetch fails at once if the address is unreachable.
 * delegation_fetch_step: receive what has arrived. Returns the state; the bytes are complete when
 * it is DOWNLOAD_DONE.
 * delegation_fetch_end: close the socket of a pending fetch. The state becomes DOWNLOAD_NONE. */
void delegation_fetch_begin(struct delegation_fetch *fetch, const char *address, int64_t now_ms);
enum download_state delegation_fetch_step(struct delegation_fetch *fetch, int64_t now_ms);
void delegation_fetch_end(struct delegation_fetch *fetch);

#endif
