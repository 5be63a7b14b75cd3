/* tracker_durable: what the tracker's machine wants written, in the store, and what it starts from.
 */
#ifndef SKEP_SWARM_TRACKER_TRACKER_DURABLE_H
#define SKEP_SWARM_TRACKER_TRACKER_DURABLE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/ledger_store.h"
#include "runtime/swarm/protocol/tracker.h"
#include "transport/identity/keys.h"

#include <stddef.h>
#include <stdint.h>

/* What sessions are kept as (tracker_record_code.h). */
#define TRACKER_MEMBERS "members"

/* The bytes of a part of the record: those in the store, and those of the write under way. */
struct durable_part {
    uint8_t *kept, *wanted;
    size_t kept_count, wanted_count;
};

struct tracker_durable {
    struct ledger_store store;
    const struct key_pairs *keys;
    uint32_t slice_count;
    uint32_t incarnation;
    uint32_t hashes_round; /* whose declared hashes are in the store; 0: none's */
    struct entry entry;    /* the one being appended, with hash and signature; slices are shared */
    struct durable_part members, table;
};

struct durable_options {
    const char *path;             /* of the store; kept */
    const struct key_pairs *keys; /* the tracker's; kept */
    uint32_t slice_count;
    struct hash manifest; /* of the genesis */
    struct hash root;
};

/* tracker_durable_open: open the store, or begin one by a genesis, count this start, and recall
 * what an earlier one promised.
 * record  its arrays, of slice_count, are the caller's; filled
 * memory  some 2 MiB in `region`
 * errors  those of ledger_store_open; STATUS_INPUT for the ledger of another swarm, or when what
 *         was promised is damaged */
MUST_CHECK enum status tracker_durable_open(const struct durable_options *options,
                                            struct region *region, struct tracker_durable *durable,
                                            struct tracker_record *record, struct fault *fault);
void tracker_durable_close(struct tracker_durable *durable);

/* tracker_durable_replay: tell the machine of the newest states that the ledger came by.
 * errors  STATUS_INPUT, STATUS_FAILED: an entry cannot be read */
MUST_CHECK enum status tracker_durable_replay(struct tracker_durable *durable,
                                              struct tracker *tracker, struct fault *fault);

/* tracker_durable_write: do an ACTION_WRITE: sign the entry where the tracker does (a commit has
 * its voters' signatures), and make it and the record durable in one transaction. *event is the
 * EVENT_WRITTEN that ends it; unless it says WRITE_OK, *fault says why.
 * notes   durable->entry is then the entry as it was written */
void tracker_durable_write(struct tracker_durable *durable, const struct action *action,
                           struct event *event, struct fault *fault);

#endif
