/* tracker_import: recreates the lost store of a tracker from a copy of its ledger. */
#ifndef SKEP_SWARM_TRACKER_TRACKER_IMPORT_H
#define SKEP_SWARM_TRACKER_TRACKER_IMPORT_H

#include "base/fault.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

/* The ledger to copy, and the store to create. */
struct tracker_import {
    const char *source_path;     /* ledger to copy: JSON lines of a member, or a store */
    const char *store_path;      /* store to create; it is missing or has no entries */
    const uint8_t *operator_key; /* public key of the operator, from the manifest */
    struct hash manifest;        /* manifest hash in the GENESIS entry */
};

/* tracker_import: verifies the copied ledger entry by entry, and creates the store from it,
 * completely or not at all. Skips NUMBERS_SKIPPED incarnations and member sessions, because the
 * lost store may have used numbers that no entry contains, and members ignore a tracker that uses a
 * number again.
 * errors  STATUS_INPUT at an entry that does not follow the one before, has an invalid signature,
 *         or belongs to a different swarm; when the copy has no entries, or the store has some;
 *         those of ledger_source_open, ledger_store_open and base/file.h */
MUST_CHECK enum status tracker_import(const struct tracker_import *import, uint64_t *entry_count,
                                      struct fault *fault);

/* tracker_store_has_entries: sets *has to whether the store exists and contains entries.
 * errors  those of ledger_store_open */
MUST_CHECK enum status tracker_store_has_entries(const char *path, bool *has, struct fault *fault);

#endif
