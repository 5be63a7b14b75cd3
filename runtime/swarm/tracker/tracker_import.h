/* tracker_import: the store of a tracker that was lost, made anew from a copy of its ledger. */
#ifndef SKEP_SWARM_TRACKER_TRACKER_IMPORT_H
#define SKEP_SWARM_TRACKER_TRACKER_IMPORT_H

#include "base/fault.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

struct tracker_import {
    const char *from;           /* a member's copy (JSON lines), or another store */
    const char *store;          /* of the tracker: missing, or without entries */
    const uint8_t *tracker_key; /* that it signs with */
    struct hash manifest;       /* of the genesis */
};

/* tracker_import: verify the copy entry by entry and make the store of it, all or nothing. Starts
 * and sessions are counted on from far behind those that the ledger names: the lost store gave out
 * some that no entry tells of, and members hear only what is higher.
 * errors  STATUS_INPUT at an entry that does not follow the one before, is not signed by whom it
 *         must be, or begins another swarm; when the copy has no entries, or the store has some;
 *         those of ledger_source_open, ledger_store_open and base/file.h */
MUST_CHECK enum status tracker_import(const struct tracker_import *import, uint64_t *entry_count,
                                      struct fault *fault);

/* tracker_store_has_entries: whether there is a store, with a ledger in it.
 * errors  those of ledger_store_open */
MUST_CHECK enum status tracker_store_has_entries(const char *path, bool *has, struct fault *fault);

#endif
