/* tracker_query: one question to a tracker by somebody who is no member, or not yet: for its
 * manifest, its status, its ledger. It connects with a key made for the occasion, for a connection
 * with an identity's own would end that of the member who is running with it. */
#ifndef SKEP_SWARM_CLIENT_CLIENT_H
#define SKEP_SWARM_CLIENT_CLIENT_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/wire/wire.h"
#include "transport/identity/join_string.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tracker_client; /* in the region */

/* tracker_client_open: begin to connect; the address is that of the join string.
 * identity  who asks, for what not everybody is shown; NULL: a stranger
 * memory    some 2 MiB in `region`; `tracker` is kept
 * errors    those of messenger_open */
MUST_CHECK enum status tracker_client_open(const struct key_pairs *identity,
                                           const struct join_string *tracker, struct region *region,
                                           struct tracker_client **asker, struct fault *fault);

struct tracker_query_args {
    enum wire_kind ask; /* WIRE_MANIFEST_REQUEST, WIRE_STATUS_REQUEST, WIRE_LEDGER_REQUEST */
    uint64_t offset;    /* of the ledger: number of the first entry wanted */
    int timeout_ms;
    bool (*keep_on)(void *context); /* asked several times a second; NULL: always */
    void *context;
};

/* What came back; it lies in the asker until its next call. */
struct tracker_answer {
    const uint8_t *bytes; /* without their length, where they begin with one */
    size_t count;
};

/* tracker_query: ask, again and again, until the answer has come whole.
 * errors  STATUS_FAILED: nobody answers in time; STATUS_INPUT: who is at this address has another
 *         key, or refuses, in its own words; STATUS_STOPPED when keep_on says no */
MUST_CHECK enum status tracker_query(struct tracker_client *asker,
                                     const struct tracker_query_args *question,
                                     struct tracker_answer *answer, struct fault *fault);

void tracker_client_close(struct tracker_client *asker);

#endif
