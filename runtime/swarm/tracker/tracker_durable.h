/* tracker_durable: performs the writes of the tracker's state machine, and recalls from the
 * store what the state machine starts from. */
#ifndef SKEP_SWARM_TRACKER_TRACKER_DURABLE_H
#define SKEP_SWARM_TRACKER_TRACKER_DURABLE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/ledger_store.h"
#include "runtime/swarm/protocol/tracker.h"
#include "transport/identity/keys.h"

#include <stddef.h>
#include <stdint.h>

/* The name under which the store has the sessions (tracker_record_bytes.h). */
#define TRACKER_MEMBERS "members"

/* The bytes of one part of the record: those in the store, and those of the write in progress. */
struct durable_part {
    uint8_t *stored, *next;
    size_t stored_count, next_count;
};

struct tracker_durable {
    struct ledger_store store;
    const struct key_pairs *keys;
    uint32_t slice_count;
    uint32_t incarnation;
    uint32_t hashes_round; /* the round whose declared hashes are in the store; 0: none */
    struct entry entry;    /* that was appended last, with hash and signature */
    struct durable_part members, table;
};

struct durable_options {
    const char *path;             /* of the store; kept */
    const struct key_pairs *keys; /* the tracker's; kept */
    uint32_t slice_count;
    struct hash manifest; /* of the genesis, and the root of its state */
    struct hash root;
};

/* tracker_durable_open: open the store, or create one with a genesis; count this start, and recall
 * the promises of earlier ones.
 * record  filled; its arrays, of slice_count, belong to the caller
 * memory  some 2 MiB in `region`
 * errors  those of ledger_store_open; STATUS_INPUT for the ledger of another swarm, or when a
 *         promise is damaged */
MUST_CHECK enum status tracker_durable_open(const struct durable_options *options,
                                            struct region *region, struct tracker_durable *durable,
                                            struct tracker_record *record, struct fault *fault);
void tracker_durable_close(struct tracker_durable *durable);

/* tracker_durable_replay: pass the newest genesis, commits and rollbacks to the state machine.
 * errors  STATUS_INPUT, STATUS_FAILED: an entry cannot be read */
MUST_CHECK enum status tracker_durable_replay(struct tracker_durable *durable,
                                              struct tracker *tracker, struct fault *fault);

/* tracker_durable_write: perform an ACTION_WRITE: sign the entry unless it is a commit, which its
 * voters signed, and make it and the record durable in one transaction. *event becomes the
 * EVENT_WRITTEN that answers the action; if its outcome is not WRITE_OK, *fault has the reason.
 * notes   durable->entry is then the entry as it was written */
void tracker_durable_write(struct tracker_durable *durable, const struct action *action,
                           struct event *event, struct fault *fault);

#endif
