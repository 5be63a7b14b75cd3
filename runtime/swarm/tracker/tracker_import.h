/* tracker_import: replaces the lost store of a tracker with one made from a copy of its ledger. */
#ifndef SKEP_SWARM_TRACKER_TRACKER_IMPORT_H
#define SKEP_SWARM_TRACKER_TRACKER_IMPORT_H

#include "base/fault.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

struct tracker_import {
    const char *from;           /* a member's copy (JSON lines), or another store */
    const char *store;          /* the tracker's: missing, or without entries */
    const uint8_t *tracker_key; /* its signing key */
    struct hash manifest;       /* of the genesis */
};

/* tracker_import: verify the copy entry by entry, and create the store from it, completely or not
 * at all. The counts of starts and sessions continue far above those in the ledger: the lost store
 * may have used numbers that no entry shows, and members ignore a tracker that uses them again.
 * errors  STATUS_INPUT at an entry that does not follow the one before, has an invalid signature,
 * or
 *         belongs to another swarm; when the copy has no entries, or the store has some;
 *         those of ledger_source_open, ledger_store_open and base/file.h */
MUST_CHECK enum status tracker_import(const struct tracker_import *import, uint64_t *entry_count,
                                      struct fault *fault);

/* tracker_store_has_entries: whether the store exists and has a ledger.
 * errors  those of ledger_store_open */
MUST_CHECK enum status tracker_store_has_entries(const char *path, bool *has, struct fault *fault);

#endif
