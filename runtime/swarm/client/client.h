/* client: queries a tracker from a process that is not a member. It fetches the manifest for
 * `skep join` and `skep plan`, the swarm status for `skep status` and the ledger for `skep ledger`,
 * and measures the round trip to a tracker. The module owns a client's connection, and finds
 * the join string in a file NAME.skep. A client learns the tracker's keys from the delegation
 * (runtime/swarm/delegation).
 *
 * A client connects with a temporary key, because a connection with the key of an identity would
 * end the connection of a member that runs with that identity. For queries that the tracker answers
 * only to identities on its allow-list, the client sends a proof of its identity. The functions
 * of this module allocate, so they are called before the arena is sealed.
 *
 * public   ledger_source.h */
#ifndef SKEP_SWARM_CLIENT_CLIENT_H
#define SKEP_SWARM_CLIENT_CLIENT_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/delegation/delegation_search.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/wire/wire.h"
#include "transport/identity/join_string.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tracker_client; /* in the region */

/* tracker_client_open: starts to connect to a tracker.
 * identity  is proven to the tracker with each query; may be NULL for queries of the manifest
 * listen    address on which the tracker can connect to this process, as for messenger_options;
 *           NULL: none
 * memory    about 2 MiB in `region`; the pointer `tracker` is kept
 * errors    those of messenger_open */
MUST_CHECK enum status tracker_client_open(const struct key_pairs *identity,
                                           const struct tracker_contact *tracker,
                                           const char *listen, struct region *region,
                                           struct tracker_client **client, struct fault *fault);
void tracker_client_close(struct tracker_client *client);

struct tracker_query_args {
    /* the query: WIRE_MANIFEST_REQUEST, WIRE_STATUS_REQUEST, WIRE_LEDGER_REQUEST or
     * WIRE_PROBE_ADDRESS */
    enum wire_kind request;
    uint64_t first_entry;           /* WIRE_LEDGER_REQUEST: index of the first entry */
    const struct wire_probe *probe; /* WIRE_PROBE_ADDRESS: the address to test; else NULL */
    int timeout_ms;                 /* time to wait for the answer */
    /* whether to continue the query; called several times a second; NULL: always true */
    bool (*should_continue)(void *context);
    void *context; /* argument of should_continue */
};

/* An answer of the tracker. It is in the client's memory and valid until the next query. */
struct tracker_answer {
    const uint8_t *bytes; /* content of the answer */
    size_t count;         /* size of the answer in bytes */
};

/* tracker_query: sends a query, and repeats it each second until the whole answer has arrived.
 * errors  STATUS_FAILED: no answer in time (a connection that closes does not prove that another
 *         key listens there); STATUS_INPUT: the tracker rejects the query and gives a reason;
 *         STATUS_STOPPED: should_continue returned false */
MUST_CHECK enum status tracker_query(struct tracker_client *client,
                                     const struct tracker_query_args *args,
                                     struct tracker_answer *answer, struct fault *fault);

/* tracker_test_address: lets the tracker connect to the address on which the client listens. The
 * tracker must have answered a WIRE_STATUS_REQUEST of this client before. The outcome
 * PROBE_CONNECTED shows that members can connect to that address.
 * public_address  numeric address that others connect to; NULL: the port on which the client
 *                 listens, at the IP address that the tracker sees
 * probe           receives the outcome, and the address that the tracker used; "" if PROBE_FOREIGN
 * limits  the client was opened with an address to listen on, and has made no other test
 * errors  STATUS_FAILED: no outcome within 9 s, for example from a tracker that is too old */
MUST_CHECK enum status tracker_test_address(struct tracker_client *client,
                                            const char *public_address, struct wire_probe *probe,
                                            struct fault *fault);

/* tracker_query_once: sends one query on a new connection.
 * identity  as for tracker_client_open
 * memory  answer->bytes is in `region` and followed by a NUL; the rest is released
 * errors  those of tracker_client_open and tracker_query; *answer is then untouched */
MUST_CHECK enum status tracker_query_once(const struct key_pairs *identity,
                                          const struct tracker_contact *tracker,
                                          const struct tracker_query_args *args,
                                          struct region *region, struct tracker_answer *answer,
                                          struct fault *fault);

/* manifest_fetch: fetches the manifest of a swarm from the tracker that the join string specifies.
 * memory  *manifest and the tracker's address, *address, are in `region`
 * errors  those of join_string_read, delegation_search, tracker_query and manifest_read;
 *         STATUS_INPUT: a manifest that the delegation does not name; outputs are then undefined */
MUST_CHECK enum status manifest_fetch(const char *join_string, struct region *region,
                                      struct manifest *manifest, const char **address,
                                      struct fault *fault);

/* manifest_check_delegation: check that the operator delegated the swarm of this manifest.
 * errors  STATUS_INPUT: another swarm */
MUST_CHECK enum status manifest_check_delegation(const struct manifest *manifest,
                                                 const struct tracker_contact *tracker,
                                                 struct fault *fault);

enum {
    LINK_PROBE_PINGS = 7, /* number of pings that a probe sends */
    LINK_PROBE_MS = 2000, /* maximum duration of a probe */
};

/* link_probe: measures the median round trip of LINK_PROBE_PINGS pings, sent one after the other on
 * a new connection.
 * errors  false when not all pings were answered within LINK_PROBE_MS; *round_trip_s is then
 *         untouched */
MUST_CHECK bool link_probe(const struct tracker_contact *tracker, double *round_trip_s);

/* swarm_is_reference: whether a text refers to a swarm: it is a join string or the path of a
 * manifest, NAME.skep. */
bool swarm_is_reference(const char *text);

/* swarm_reference_check: rejects a run file or a key, which users easily pass by mistake.
 * errors  STATUS_INPUT, and a message that says whether it is a run file or a key */
MUST_CHECK enum status swarm_reference_check(const char *swarm, struct fault *fault);

/* swarm_reference_read: parses a join string, or reads the one in a manifest file.
 * memory  the manifest is in `region`
 * errors  those of join_string_read and manifest_read_file */
MUST_CHECK enum status swarm_reference_read(const char *swarm, struct region *region,
                                            struct join_string *join, struct fault *fault);

/* swarm_load_identity: reads the identity from `path`. If that is NULL, reads this user's default
 * file, which is created if missing.
 * errors  those of identity_path and identity_load_or_create */
MUST_CHECK enum status swarm_load_identity(const char *path, struct key_pairs *keys,
                                           struct fault *fault);

#endif
