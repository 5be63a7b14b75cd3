/* ledger: the record of a swarm, as plain data and as files. The ledger is a chain of
 * entries (entry.h): a genesis, then rounds that open and end with a commit or an abort. Trackers
 * write it, members and readers verify it. The module owns the canonical bytes of an entry, its
 * JSON line, the tracker's store in SQLite, a member's journal of commits, the manifest that
 * defines a swarm, the cursor over samples, and the Merkle tree over states and files. All modules
 * of runtime/swarm call it, and `skep ledger` prints the ledger. It has no sockets and makes no
 * decisions.
 *
 * This header declares the chain: signing an entry, and verifying each entry against the entries
 * before it.
 *
 * public   contribution.h entry.h ledger_file.h manifest.h merkle.h norms.h operator_documents.h
 *          packer.h rollback.h */
#ifndef SKEP_SWARM_LEDGER_LEDGER_H
#define SKEP_SWARM_LEDGER_LEDGER_H

#include "base/check.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/rollback.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

/* The state that a reader of a chain keeps between entries. Zero it before the genesis. */
struct ledger_chain {
    uint64_t entry_count;       /* Number of entries in the chain. */
    struct hash head;           /* Hash of the last entry. */
    struct hash root;           /* Root of the outer state after the last entry. */
    struct data_cursor cursor;  /* Data cursor after the last entry. */
    double reference_norm;      /* Reference norm of the last commit; 0: none. */
    uint32_t incarnation;       /* Incarnation of the tracker that wrote the last entry. */
    uint32_t last_ended_round;  /* Number of the last round that was committed or aborted. */
    uint32_t last_opened_round; /* Number of the last round that was opened. */
    uint32_t commits;           /* Number of commits up to and including the last entry. */
    bool is_round_open;         /* The last opened round has not ended. */
    struct hash roster;         /* Hash of the roster of the last opened round. */
    bool has_tracker; /* tracker_key is known, and the tracker's signatures are verified. */
    uint8_t tracker_key[KEY_BYTES]; /* The tracker's public signing key, by the last delegation. */
    uint64_t delegation_serial;     /* Serial of the last delegation; 0: none. */
    struct roster_epoch roster_epoch; /* The last one in the ledger; serial 0: none. */
    bool has_operator; /* operator_key is known, and the operator's orders are verified. */
    uint8_t operator_key[KEY_BYTES]; /* Public key of the operator, from the manifest. */
    struct hash swarm;               /* Hash of the manifest, from the genesis. */
    struct state_history history;    /* The states that a ROLLBACK may return to. */
};

/* ledger_sign: sign entry->hash, as a voter or as the tracker. */
void ledger_sign(const struct key_pairs *keys, const struct hash *hash,
                 struct signature *signature);

/* ledger_is_signed_by: whether `signature` is a valid signature of `hash` by this key. */
MUST_CHECK bool ledger_is_signed_by(const uint8_t sign_key[static KEY_BYTES],
                                    const struct hash *hash, const struct signature *signature);

/* ledger_signatures_error: NULL if the signatures of an entry are valid, else a text that describes
 * the error. A commit needs the signatures of a quorum of its roster; any other entry needs the
 * tracker's signature and no other.
 * limits  entry_error(entry) is NULL; entry->hash is not compared with the content */
MUST_CHECK const char *ledger_signatures_error(const uint8_t tracker_key[static KEY_BYTES],
                                               const struct entry *entry);

/* ledger_set_operator_key: from now on, also verify the signatures of the operator with this key,
 * and require a delegation in the genesis. */
void ledger_set_operator_key(struct ledger_chain *chain, const uint8_t sign_key[static KEY_BYTES]);

/* ledger_append: verify an entry as the next one of the chain, and advance the chain to it. It
 * checks the fields, hash, `prev`, incarnation, round and commit count; that no sample is assigned
 * twice and the unused ones are returned (cursor_step_error); that a commit or abort
 * repeats the roster of its OPEN; that only a commit or rollback changes the root; that a rollback
 * returns to a state of this chain (rollback_error), by an order of the operator if it has one;
 * that the weights and the reference norm of a commit follow from its norms, and that no other
 * entry changes the reference norm; all signatures of a commit, which must be a quorum; that a
 * document of the operator has a higher serial than the one before; that the last roster epoch, if
 * there is one, names each seat of an OPEN or is open; and the signatures of the tracker, by the
 * keys that the last delegation names, and of the operator, if the key is known.
 * returns  NULL, or a text that describes the error; *chain is then unchanged */
MUST_CHECK const char *ledger_append(struct ledger_chain *chain, const struct entry *entry);

#endif
