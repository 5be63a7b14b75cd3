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
 *          packer.h rollback.h statement.h */
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
    uint32_t is_round_open;     /* 1: the last opened round has not ended; else 0. */
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

enum {
    LEDGER_CHAIN_FIELDS_MAX = 26, /* Number of fields of a chain's state. */
    /* No state of a chain has more bytes. */
    LEDGER_CHAIN_BYTES_MAX = PACKER_MAP_BYTES_MAX +
                             LEDGER_CHAIN_FIELDS_MAX * PACKER_FIELD_BYTES_MAX + 4 * HASH_BYTES +
                             (1 + ROSTER_KEYS_MAX) * KEY_BYTES + SIGNATURE_BYTES +
                             SWARM_RETURNED_RANGES_MAX * ENTRY_RANGE_BYTES +
                             ROLLBACK_STATES_MAX * (3 * HASH_BYTES + 2 * 4),
};

/* The state of a chain as one MessagePack map (packer.h): all that appending later entries needs,
 * except for the operator's key. Its fields are swarm, entry_count, head, root, reference_norm,
 * incarnation, last_ended_round, last_opened_round, commits, is_round_open (0 or 1), seats (hash of
 * the seats of the last OPEN), delegation (serial of the last one), unless that is 0 its tracker,
 * roster, is_open, roster_members {32} and roster_signature of the last roster epoch; position and
 * returned {begin 8, end 8} of the cursor; state_count, and of each state of the history
 * state_roots {32}, state_entries {32}, state_cursors {32}, state_rounds {4}, state_commits {4}.
 *
 * ledger_chain_hash: BLAKE2b of "skep ledger chain" with its NUL and this map. A COMMIT has the
 * hash of the state before it, so that its quorum has signed that state too.
 * ledger_chain_write: write the map into `bytes`, which has LEDGER_CHAIN_BYTES_MAX bytes. Returns
 * its length.
 * ledger_chain_read: read it into *chain, which is zero except for the operator's key.
 * errors  a text that describes the error, else NULL; *chain is then undefined */
struct hash ledger_chain_hash(const struct ledger_chain *chain);
size_t ledger_chain_write(const struct ledger_chain *chain, uint8_t *bytes);
MUST_CHECK const char *ledger_chain_read(const uint8_t *bytes, size_t count,
                                         struct ledger_chain *chain);

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
 * twice and the unused ones are returned (cursor_step_error); that a commit or abort repeats the
 * roster of its OPEN; that only a commit or rollback changes the root; that a rollback returns to a
 * state of this chain (rollback_error), by an order of the operator if it has one; that evidence
 * was signed by the suspended member; that a commit has the hash of the chain's state before it
 * (ledger_chain_hash); that the weights and the reference norm of a commit follow from its norms,
 * and that no other entry changes the reference norm; all signatures of a commit, which must be a
 * quorum; that a document of the operator has a higher serial than the one before; that the last
 * roster epoch, if there is one, names each seat of an OPEN or is open; and the signatures of the
 * tracker, by the keys that the last delegation names, and of the operator, if the key is known.
 * returns  NULL, or a text that describes the error; *chain is then unchanged */
MUST_CHECK const char *ledger_append(struct ledger_chain *chain, const struct entry *entry);

/* ledger_advance: advance the chain to an entry that was verified before, as one from the tracker's
 * own store. */
void ledger_advance(struct ledger_chain *chain, const struct entry *entry);

#endif
