/* The client room: a process that is not a member queries a tracker. It fetches the manifest for
 * `skep join` and `skep plan`, the swarm status for `skep status` and the ledger for `skep ledger`,
 * and measures the round trip to a tracker. The room owns a client's connection, and turns what a
 * user writes for a swarm (a join string or a NAME.skep) into the address and keys of its tracker.
 *
 * A client connects with a temporary key: a connection with the key of an identity would end that
 * of the member that runs with it. Where the tracker answers only known identities, the client
 * sends a proof of its identity with the query. All of it allocates, so it is used before seal.
 *
 * public   ledger_source.h */
#ifndef SKEP_SWARM_CLIENT_CLIENT_H
#define SKEP_SWARM_CLIENT_CLIENT_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/wire/wire.h"
#include "transport/identity/join_string.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tracker_client; /* in the region */

/* tracker_client_open: start to connect to the address of the join string.
 * identity  that the client proves with its queries; NULL: none, which suffices for the manifest
 * memory    some 2 MiB in `region`; `tracker` is kept
 * errors    those of messenger_open */
MUST_CHECK enum status tracker_client_open(const struct key_pairs *identity,
                                           const struct join_string *tracker, struct region *region,
                                           struct tracker_client **client, struct fault *fault);
void tracker_client_close(struct tracker_client *client);

struct tracker_query_args {
    enum wire_kind request; /* WIRE_MANIFEST_REQUEST, WIRE_STATUS_REQUEST, WIRE_LEDGER_REQUEST */
    uint64_t offset;        /* of the ledger: index of the first entry */
    int timeout_ms;
    bool (*should_continue)(void *context); /* called several times a second; NULL: always true */
    void *context;
};

/* An answer. It is in the client's memory until the next query. */
struct tracker_answer {
    const uint8_t *bytes;
    size_t count;
};

/* tracker_query: send a query, again each second, until the whole answer has arrived.
 * errors  STATUS_FAILED: no answer in time; STATUS_INPUT: the key at this address is not the
 *         tracker's, or the tracker rejects the query, with its reason; STATUS_STOPPED when
 *         should_continue returns false */
MUST_CHECK enum status tracker_query(struct tracker_client *client,
                                     const struct tracker_query_args *args,
                                     struct tracker_answer *answer, struct fault *fault);

/* tracker_query_once: one query without identity, on a connection of its own.
 * memory  answer->bytes in `region`, with a NUL after them; the rest is released
 * errors  those of tracker_client_open and tracker_query; *answer is then untouched */
MUST_CHECK enum status tracker_query_once(const struct join_string *tracker,
                                          const struct tracker_query_args *args,
                                          struct region *region, struct tracker_answer *answer,
                                          struct fault *fault);

/* manifest_fetch: the manifest of a swarm, from the tracker of its join string.
 * memory  *manifest and *address, the tracker's, in `region`
 * errors  those of join_string_read, tracker_query and manifest_read; outputs are then untouched */
MUST_CHECK enum status manifest_fetch(const char *join_string, struct region *region,
                                      struct manifest *manifest, const char **address,
                                      struct fault *fault);

enum { LINK_PROBE_PINGS = 7, LINK_PROBE_MS = 2000 };

/* link_probe: the median round trip of LINK_PROBE_PINGS pings, sent one at a time on a connection
 * of its own.
 * errors  false when they were not all answered within LINK_PROBE_MS, for any reason;
 *         *round_trip_s is then untouched */
MUST_CHECK bool link_probe(const struct join_string *tracker, double *round_trip_s);

/* swarm_is_reference: whether a text names a swarm: a join string, or a file NAME.skep. */
bool swarm_is_reference(const char *text);

/* swarm_reference_read: the tracker of that swarm; a manifest names it.
 * memory  the manifest in `region`
 * errors  those of join_string_read and manifest_read_file */
MUST_CHECK enum status swarm_reference_read(const char *swarm, struct region *region,
                                            struct join_string *tracker, struct fault *fault);

/* swarm_identity: read the identity from `path`; NULL: from this user's file, created if missing.
 * errors  those of identity_path and identity_load_or_create */
MUST_CHECK enum status swarm_identity(const char *path, struct key_pairs *keys,
                                      struct fault *fault);

#endif
