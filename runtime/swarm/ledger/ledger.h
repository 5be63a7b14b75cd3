/* The ledger room: the record of a swarm, as plain data and as files. The ledger is a chain of
 * entries (entry.h): a genesis, then rounds that open and end with a commit or an abort. Trackers
 * write it, members and readers verify it. The room owns the canonical bytes of an entry, its JSON
 * line, the tracker's store in SQLite, a member's journal of commits, the manifest that defines a
 * swarm, the cursor over samples, and the Merkle tree over states and files. All rooms of
 * runtime/swarm call it, and `skep ledger` prints it. It neither communicates nor decides.
 *
 * This header is the chain itself: signing an entry, and verifying each against those before it.
 *
 * public   entry.h ledger_file.h manifest.h merkle.h packer.h */
#ifndef SKEP_SWARM_LEDGER_LEDGER_H
#define SKEP_SWARM_LEDGER_LEDGER_H

#include "base/check.h"
#include "runtime/swarm/ledger/entry.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

/* The part of a chain that its reader must remember. Zero it before the genesis. */
struct ledger_chain {
    uint64_t entry_count;
    struct hash head; /* of the last entry */
    struct hash root; /* of the outer state after it */
    uint32_t incarnation;
    uint32_t last_ended_round;      /* the last round that was committed or aborted */
    uint32_t last_opened_round;     /* the last round that was opened */
    uint32_t commits;               /* as counted by the last entry */
    bool is_round_open;             /* `round` is open */
    struct hash roster;             /* of `round` */
    bool has_tracker;               /* tracker_key is known: its signatures are verified too */
    uint8_t tracker_key[KEY_BYTES]; /* of the manifest or the join string */
};

/* ledger_sign: sign entry->hash, as a voter or as the tracker. */
void ledger_sign(const struct key_pairs *keys, const struct hash *hash,
                 struct signature *signature);

/* ledger_is_signed_by: whether this key made the signature. */
MUST_CHECK bool ledger_is_signed_by(const uint8_t sign_key[static KEY_BYTES],
                                    const struct hash *hash, const struct signature *signature);

/* ledger_signatures_error: NULL if a commit has valid signatures of a quorum of its roster, and an
 * entry of another kind that of the tracker alone; else the error.
 * limits  entry_error(entry) is NULL; entry->hash is not compared with the content */
MUST_CHECK const char *ledger_signatures_error(const uint8_t tracker_key[static KEY_BYTES],
                                               const struct entry *entry);

/* ledger_set_tracker_key: verify the signatures of the tracker with this key too. */
void ledger_set_tracker_key(struct ledger_chain *chain, const uint8_t sign_key[static KEY_BYTES]);

/* ledger_append: verify an entry as the next one of the chain, and advance the chain to it. Checked
 * are its fields, hash, `prev`, incarnation, round and count of commits; that a commit and an abort
 * repeat the roster of their OPEN; that only a commit and a rollback change the root; and the
 * signatures: all of a commit's, at least a quorum, and the tracker's where its key is known.
 * returns  NULL, or the error; *chain is then untouched */
MUST_CHECK const char *ledger_append(struct ledger_chain *chain, const struct entry *entry);

#endif
