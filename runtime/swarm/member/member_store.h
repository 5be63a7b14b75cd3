/* member_store: the durable files in a member's state folder. They survive a crash of the process
 * or of the machine, so that a committed round is preserved if at least one voter keeps its folder.
 *
 *     FOLDER/lock         locked while the member runs
 *            swarm        hash of the manifest of the swarm that the folder belongs to
 *            journal      the commits applied since the newest snapshot (entry_journal.h)
 *            results-12   the results of round 12, one file per round voted on (result_file.h)
 *            lease        what this member promised last to a tracker (lease_file.h)
 *
 *     results stored ──► vote ──► commit ──► applied, entry in the journal ──► ... ──► snapshot
 *
 * A restart loads the newest snapshot (runtime/checkpoint), then replays the entries of the journal
 * with the stored results. Results that were stored but not committed are reported to the
 * tracker. */
#ifndef SKEP_SWARM_MEMBER_MEMBER_STORE_H
#define SKEP_SWARM_MEMBER_MEMBER_STORE_H

#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/replica/replica.h"
#include "runtime/swarm/replica/result_file.h"

struct member_store {             /* files of this member in its folder */
    const char *folder;           /* path of the member's state folder */
    int lock_fd;                  /* lock file, which is held while the store is open */
    struct entry_journal journal; /* journal of the commits applied since the newest snapshot */
    struct result_files files;    /* files with the results of recent rounds */
    /* range of rounds that may have stored results; newest is 0 if there are none */
    uint32_t oldest, newest;
    char *path, *temporary; /* scratch memory for paths, [PATH_BYTES] each */
};

/* member_store_open: create the folder or use an existing one. Files that a killed process left
 * incomplete are removed.
 * memory  refers to `folder` until member_store_close; two tables of slices in `region`; later
 *         calls allocate nothing
 * errors  STATUS_INPUT when another process uses the folder (the message has its id) or the files
 *         are invalid; STATUS_FIT, STATUS_FAILED. *store is then unchanged */
MUST_CHECK enum status member_store_open(const char *folder, const struct slices *slices,
                                         struct region *region, struct member_store *store,
                                         struct fault *fault);
void member_store_close(struct member_store *store);

/* member_store_claim_folder: check that the folder belongs to this swarm, and record the swarm in a
 * new folder. If no swarm is recorded, the folder belongs to the swarm of the ledger in it, whose
 * manifest hash is `ledger_swarm`; NULL: there is no ledger.
 * errors  STATUS_INPUT when the folder belongs to another swarm or has rounds of an unknown swarm;
 *         STATUS_FIT, STATUS_FAILED */
MUST_CHECK enum status member_store_claim_folder(struct member_store *store,
                                                 const struct hash *manifest,
                                                 const struct hash *ledger_swarm,
                                                 struct fault *fault);

/* member_store_add_results: store the results of entry->round from the replica. The results are
 * durable on return and replace earlier results of the same round.
 * errors  STATUS_FIT on a full disk, STATUS_FAILED; the earlier results are then unchanged */
MUST_CHECK enum status member_store_add_results(struct member_store *store,
                                                const struct entry *entry,
                                                const struct replica *replica, struct fault *fault);

/* member_store_read_results: read the stored results of a round into the replica, and fill in a
 * report on each result.
 * shapes  reports [slices.count]
 * errors  STATUS_INPUT when no results are stored or they are damaged; the replica's results of
 *         that round are then undefined */
MUST_CHECK enum status member_store_read_results(struct member_store *store, uint32_t round,
                                                 const struct replica *replica,
                                                 struct slice_report *reports, struct fault *fault);

/* member_store_write_lease: store the lease durably, before the vote that gives it is sent.
 * member_store_read_lease: read the stored lease; all zero if there is none.
 * errors  those of lease_file_write and lease_file_read */
MUST_CHECK enum status member_store_write_lease(const struct member_store *store,
                                                const struct hash *manifest,
                                                const struct lease *lease, struct fault *fault);
MUST_CHECK enum status member_store_read_lease(const struct member_store *store,
                                               const struct hash *manifest, struct lease *lease,
                                               struct fault *fault);

/* member_store_add_commit: append a commit that was applied to the state to the journal. The
 * journal is durable on return.
 * errors  STATUS_FIT, STATUS_FAILED; the journal is then unchanged */
MUST_CHECK enum status member_store_add_commit(struct member_store *store,
                                               const struct entry *entry, struct fault *fault);

/* member_store_discard_before: remove the journal up to `round`, because a snapshot of the state
 * after it is complete. The results of the last rounds remain for members that missed them: as many
 * rounds as are together smaller than the state, at most REPLAY_ROUNDS_MAX. The journal is
 * shortened before results are removed, because a restart ignores results without a journal entry.
 * errors  STATUS_FAILED when the journal cannot be shortened; results that cannot be removed are
 *         logged */
MUST_CHECK enum status member_store_discard_before(struct member_store *store, uint32_t round,
                                                   struct fault *fault);

/* member_store_read_result: read a stored result without verifying its bytes. Returns false when no
 * stored result has this hash. Any thread may call it at any time.
 * shapes  bytes [encoded bytes of the slice] */
MUST_CHECK bool member_store_read_result(const struct member_store *store, uint32_t round,
                                         uint32_t slice, const struct hash *hash, uint8_t *bytes);

#endif
