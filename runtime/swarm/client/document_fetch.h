/* document_fetch: one document of a tracker that it shows everybody, such as its manifest, for who
 * knows its key. */
#ifndef SKEP_SWARM_CLIENT_DOCUMENT_FETCH_H
#define SKEP_SWARM_CLIENT_DOCUMENT_FETCH_H

#include "base/region.h"
#include "runtime/swarm/wire/wire.h"
#include "transport/identity/join_string.h"

struct document_request {
    const struct join_string *tracker;
    uint8_t ask, answer; /* WIRE_MANIFEST_REQUEST and WIRE_MANIFEST */
    size_t bytes_max;    /* of the document */
    int timeout_ms;
    bool (*keep_on)(void *context); /* asked several times a second; NULL: always */
    void *context;
};

/* document_fetch: connect, ask, and wait for the whole. Before seal.
 * memory  the text, NUL-terminated, in `region`; what else it takes is given back
 * errors  STATUS_FAILED without an answer in time, so that it can be tried again; STATUS_INPUT when
 *         the tracker has another key or refuses in words; STATUS_STOPPED when keep_on says no;
 *         those of messenger_open. Outputs are then untouched */
MUST_CHECK enum status document_fetch(const struct document_request *wish, struct region *region,
                                      const char **text, size_t *length, struct fault *fault);

#endif
