/* ledger: the chain of entries: signing one, and checking each against those before it. */
#ifndef SKEP_SWARM_LEDGER_LEDGER_H
#define SKEP_SWARM_LEDGER_LEDGER_H

#include "base/check.h"
#include "runtime/swarm/ledger/entry.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

/* What a reader of the chain must remember of it. Zero it to stand before the genesis. */
struct ledger_chain {
    uint64_t entry_count;
    struct hash head; /* of the last entry */
    struct hash root; /* of the outer state after it */
    uint32_t incarnation;
    uint32_t closed;  /* the last round that was committed or aborted */
    uint32_t round;   /* the last round that was opened */
    uint32_t commits; /* as the last entry counts them */
    bool open;        /* whether that one is still open, with this roster: */
    struct hash roster;
    bool has_tracker;               /* the key is known, so that its entries are checked too */
    uint8_t tracker_key[KEY_BYTES]; /* set by the caller, from the manifest */
};

/* ledger_sign: a voter's or the tracker's signature of entry->hash, into *signature. */
void ledger_sign(const struct key_pairs *keys, const struct hash *hash,
                 struct signature *signature);

/* ledger_signed_by: whether that key made it. */
MUST_CHECK bool ledger_signed_by(const uint8_t sign_key[static KEY_BYTES], const struct hash *hash,
                                 const struct signature *signature);

/* ledger_signatures_error: of a commit, whether every signature is its voter's and they are a
 * quorum of its roster; of any other kind, whether it has the tracker's and no other.
 * limits  entry_error(entry) is NULL; that entry->hash is its own is not looked at */
MUST_CHECK const char *ledger_signatures_error(const uint8_t tracker_key[static KEY_BYTES],
                                               const struct entry *entry);

/* ledger_append: check an entry as the next one of the chain, and move on to it: its fields, its
 * hash, `prev`, incarnation, round and count of commits, that a commit and an abort repeat their
 * OPEN's roster, that only a commit and a rollback change the root, and the signatures: of a commit
 * every one, and at least a quorum of the roster; of any other kind the tracker's, where the chain
 * knows its key.
 * errors  what is wrong, else NULL; *chain is then untouched */
MUST_CHECK const char *ledger_append(struct ledger_chain *chain, const struct entry *entry);

#endif
