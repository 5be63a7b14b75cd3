/* ledger: the record of a swarm, as plain data and as files. The ledger is a chain of
 * entries (entry.h): a genesis, then rounds that open and end with a commit or an abort. Trackers
 * write it, members and readers verify it. The module owns the canonical bytes of an entry, its
 * JSON line, the tracker's store in SQLite, a member's journal of commits, the manifest that
 * defines a swarm, the cursor over samples, and the Merkle tree over states and files. All modules
 * of runtime/swarm call it, and `skep ledger` prints the ledger. It has no sockets and makes no
 * decisions.
 *
 * This header declares the chain: signing an entry, verifying each entry against the entries before
 * it, and beginning at a checkpoint instead of the genesis.
 *
 * public   contribution.h entry.h ledger_file.h manifest.h merkle.h norms.h operator_documents.h
 *          rollback.h statement.h training_share.h */
#ifndef SKEP_SWARM_LEDGER_LEDGER_H
#define SKEP_SWARM_LEDGER_LEDGER_H

#include "base/check.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/rollback.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a reader of a chain began to read: at the genesis or at a checkpoint. */
struct ledger_start {
    /* number of entries before the checkpoint; 0: the reader began with the genesis */
    uint64_t entry_count;
    /* votes for the checkpoint's commit; 0: that commit has not been appended yet */
    uint32_t votes;
    uint32_t voters; /* number of voters in the round of the checkpoint's commit */
    uint64_t roster; /* serial of the roster epoch that names the checkpoint's voters */
};

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
    uint32_t needs_leases;      /* 1: members give leases with their votes; 0: none does. */
    struct electors electors;   /* The electors of the newest state entry. */
    struct needed_votes needed; /* Votes that a commit of the last opened round needs. */
    bool has_tracker; /* tracker_key is known, and the tracker's signatures are verified. */
    uint8_t tracker_key[KEY_BYTES]; /* the tracker's public signing key, from the last delegation */
    uint64_t delegation_serial;     /* Serial of the last delegation; 0: none. */
    struct roster_epoch roster_epoch; /* the last roster epoch in the ledger; serial 0: none */
    bool has_operator; /* operator_key is known, and the operator's orders are verified. */
    uint8_t operator_key[KEY_BYTES]; /* Public key of the operator, from the manifest. */
    struct hash swarm;               /* Hash of the manifest, from the genesis. */
    struct state_history history;    /* The states that a ROLLBACK may return to. */
    struct ledger_start start;       /* where the reader began; neither hashed nor written */
};

enum {
    LEDGER_CHAIN_FIELDS_MAX = 32, /* Number of fields of a chain's state. */
    /* Size of the longest encoded state of a chain. */
    LEDGER_CHAIN_BYTES_MAX = PACKER_MAP_BYTES_MAX +
                             LEDGER_CHAIN_FIELDS_MAX * PACKER_FIELD_BYTES_MAX + 5 * HASH_BYTES +
                             (1 + ROSTER_KEYS_MAX + SWARM_MEMBERS_MAX) * KEY_BYTES +
                             SIGNATURE_BYTES + SWARM_RETURNED_RANGES_MAX * ENTRY_RANGE_BYTES +
                             ROLLBACK_STATES_MAX * (3 * HASH_BYTES + 2 * 4),
};

/* The state of a chain as one MessagePack map (packer.h): all that appending later entries needs,
 * except for the operator's key. Its fields are swarm, entry_count, head, root, reference_norm,
 * incarnation, last_ended_round, last_opened_round, commits, is_round_open (0 or 1), seats (hash of
 * the seats of the last OPEN), needs_leases (0 or 1), state_entry (hash of the newest state entry),
 * state_round, electors {32} of it, vote_seats, vote_first and vote_count of the votes that a
 * commit of the last OPEN needs, delegation (serial of the last one), unless that is 0 its tracker,
 * roster, is_open, roster_members {32} and roster_signature of the last roster epoch; position and
 * returned {begin 8, end 8} of the cursor; state_count, and of each state of the history
 * state_roots {32}, state_entries {32}, state_cursors {32}, state_rounds {4}, state_commits {4}.
 *
 * ledger_chain_hash: BLAKE2b of "skep ledger chain" with its NUL and this map. A COMMIT has the
 * hash of the state before it, so that its quorum has signed that state too.
 * ledger_chain_write: write the map into `bytes`, which has LEDGER_CHAIN_BYTES_MAX bytes. Returns
 * its length.
 * ledger_chain_read: read it into *chain, which is zero except for the operator's key.
 * errors  a text that describes the error, else NULL; *chain is undefined after an error. The
 *         content is right only if it has the hash that a COMMIT names */
struct hash ledger_chain_hash(const struct ledger_chain *chain);
size_t ledger_chain_write(const struct ledger_chain *chain, uint8_t *bytes);
MUST_CHECK const char *ledger_chain_read(const uint8_t *bytes, size_t count,
                                         struct ledger_chain *chain);

/* ledger_sign: sign the hash of an entry, as a voter or as the tracker. */
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

/* ledger_chain_clear: reset the chain to one without entries, but keep the operator's key. */
void ledger_chain_clear(struct ledger_chain *chain);

/* ledger_append: verify an entry as the next one of the chain, and advance the chain to it. It
 * checks the fields, hash, `prev`, incarnation, round and commit count; that no sample is assigned
 * twice and the unused ones are returned (cursor_step_error); that a commit or abort repeats the
 * roster of its OPEN; that only a commit or rollback changes the root; that a rollback returns to a
 * state of this chain (rollback_error), by an order of the operator if it has one; that evidence
 * was signed by the suspended member; that a commit has the hash of the chain's state before it
 * (ledger_chain_hash); that the weights and the reference norm of a commit follow from its norms,
 * and that no other entry changes the reference norm; all signatures of a commit, which must be a
 * quorum; that a document of the operator has a higher serial than the one before; that the last
 * roster epoch, if there is one, names each seat of an OPEN, or is open and the seat is a guest's;
 * that only the seats of guests and of electors that have resigned have no vote; and the
 * signatures of the tracker, by the keys that the last delegation names, and of the operator, if
 * the key is known.
 * returns  NULL, or a text that describes the error; *chain is then unchanged */
MUST_CHECK const char *ledger_append(struct ledger_chain *chain, const struct entry *entry);

/* ledger_advance: advance the chain to the next entry without verifying it, because it was
 * verified before, for example an entry from the tracker's own store. */
void ledger_advance(struct ledger_chain *chain, const struct entry *entry);

/* A checkpoint is the state of a chain before one of its commits. A reader with the operator's key
 * can verify the chain from there on, without the entries before: the commit has the state's hash
 * and the votes of a quorum, and the state has the roster epoch that names the voters.
 *
 * ledger_chain_begin: begin at a checkpoint, which ledger_chain_read has read into *chain. The next
 * entry that is appended must be its commit; chain->start.votes is 0 until then.
 * swarm    hash of the manifest; NULL: not known
 * errors   a text that describes why the chain cannot begin there: it is another swarm's, no round
 *          is open, or there is no roster epoch that the operator signed; *chain is then undefined
 * ledger_chain_is_unconfirmed: whether the commit of the checkpoint has not been appended yet. */
MUST_CHECK const char *ledger_chain_begin(struct ledger_chain *chain, const struct hash *swarm);
bool ledger_chain_is_unconfirmed(const struct ledger_chain *chain);

enum {
    /* A new checkpoint is due after this number of entries, or earlier if their records are long.
     * With the rows of eight commits of 969 slices, a joiner then receives less than 1 MiB. */
    LEDGER_CHECKPOINT_ENTRIES = 256,
    /* A new checkpoint is due once the records since the last checkpoint have this many bytes. */
    LEDGER_CHECKPOINT_RECORD_BYTES = 384 << 10,
};

/* The newest checkpoint of a chain; all zero: the chain has none. */
struct ledger_checkpoint {
    uint64_t entry_count; /* index of the checkpoint's commit in the ledger */
    uint64_t roster;      /* serial of the roster epoch in the checkpoint */
    /* total length of the records from the checkpoint's commit on, without rows */
    size_t record_bytes;
    size_t byte_count;                     /* length of `bytes`, which ledger_chain_write wrote */
    uint8_t bytes[LEDGER_CHAIN_BYTES_MAX]; /* [byte_count]: the chain's state */
};

/* ledger_checkpoint_update: to be called for each entry, with the chain's state before the
 * entry. That state becomes the checkpoint if the entry is a commit that a reader can begin at,
 * and either a new checkpoint is due or the existing one has an older roster epoch. So the
 * newest checkpoint has the newest roster epoch under which there was a commit, and a short
 * ledger has no checkpoint. */
void ledger_checkpoint_update(struct ledger_checkpoint *checkpoint,
                              const struct ledger_chain *before, const struct entry *entry);

#endif
