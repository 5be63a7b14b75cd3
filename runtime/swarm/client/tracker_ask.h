/* tracker_ask: one question to a tracker by somebody who is no member, or not yet: for its
 * manifest, its status, its ledger. It connects with a key made for the occasion, for a connection
 * with an identity's own would end that of the member who is running with it. */
#ifndef SKEP_SWARM_CLIENT_TRACKER_ASK_H
#define SKEP_SWARM_CLIENT_TRACKER_ASK_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/wire/wire.h"
#include "transport/identity/join_string.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tracker_asker; /* in the region */

/* tracker_asker_open: begin to connect; the address is that of the join string.
 * identity  who asks, for what not everybody is shown; NULL: a stranger
 * memory    some 2 MiB in `region`; `tracker` is kept
 * errors    those of messenger_open */
MUST_CHECK enum status tracker_asker_open(const struct key_pairs *identity,
                                          const struct join_string *tracker, struct region *region,
                                          struct tracker_asker **asker, struct fault *fault);

struct tracker_question {
    enum wire_kind ask; /* WIRE_MANIFEST_ASK, WIRE_STATUS_ASK, WIRE_LEDGER_ASK */
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

/* tracker_ask: ask, again and again, until the answer has come whole.
 * errors  STATUS_FAILED: nobody answers in time; STATUS_INPUT: who is at this address has another
 *         key, or refuses, in its own words; STATUS_STOPPED when keep_on says no */
MUST_CHECK enum status tracker_ask(struct tracker_asker *asker,
                                   const struct tracker_question *question,
                                   struct tracker_answer *answer, struct fault *fault);

void tracker_asker_close(struct tracker_asker *asker);

#endif
