/* member_store: the durable files in a member's state folder: what must survive a crash of the
 * process or of the machine, so that a committed round survives as long as one voter does.
 *
 *     FOLDER/lock         locked while the member runs
 *            swarm        hash of the manifest of the swarm that the folder belongs to
 *            journal      the commits applied since the newest snapshot (entry_journal.h)
 *            results-12   the results of round 12, one file per round voted on (result_file.h)
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

struct member_store {
    const char *folder;
    int lock_fd;
    struct entry_journal journal;
    struct result_files files;
    uint32_t oldest, newest; /* rounds between which results may be stored; newest 0: none */
    char *path, *temporary;  /* [PATH_BYTES] scratch */
};

/* member_store_open: create the folder or use an existing one. Files that a killed process left
 * incomplete are removed.
 * memory  `folder` is kept; two tables of slices in `region`; nothing allocates later
 * errors  STATUS_INPUT when another process uses the folder, with its id, or its files are invalid;
 *         STATUS_FIT, STATUS_FAILED. *store untouched */
MUST_CHECK enum status member_store_open(const char *folder, const struct slices *slices,
                                         struct region *region, struct member_store *store,
                                         struct fault *fault);
void member_store_close(struct member_store *store);

/* member_store_claim_folder: check that the folder belongs to this swarm, and record it in a new
 * folder. Where it is not recorded, `first` decides: the first entry of the ledger in the same
 * folder, or NULL.
 * errors  STATUS_INPUT when it belongs to another swarm, or has rounds of an unknown swarm;
 *         STATUS_FIT, STATUS_FAILED */
MUST_CHECK enum status member_store_claim_folder(struct member_store *store,
                                                 const struct hash *manifest,
                                                 const struct entry *first, struct fault *fault);

/* member_store_add_results: store the results of entry->round from the replica. They are durable on
 * return, and replace earlier ones of the same round.
 * errors  STATUS_FIT on a full disk, STATUS_FAILED: the earlier ones remain */
MUST_CHECK enum status member_store_add_results(struct member_store *store,
                                                const struct entry *entry,
                                                const struct replica *replica, struct fault *fault);

/* member_store_read_results: read the stored results of a round into the replica, and a report on
 * each.
 * shapes  reports [slices.count]
 * errors  STATUS_INPUT when there are none or they are damaged; the replica's results of that round
 *         are then undefined */
MUST_CHECK enum status member_store_read_results(struct member_store *store, uint32_t round,
                                                 const struct replica *replica,
                                                 struct slice_report *reports, struct fault *fault);

/* member_store_add_commit: append a commit that is part of the state to the journal. It is durable
 * on return.
 * errors  STATUS_FIT, STATUS_FAILED: the journal is unchanged */
MUST_CHECK enum status member_store_add_commit(struct member_store *store,
                                               const struct entry *entry, struct fault *fault);

/* member_store_discard_before: a snapshot of the state after `round` is complete, so the journal up
 * to it is removed. The results of the last rounds remain for members that missed them: as many
 * rounds as are smaller than the state, at most REPLAY_ROUNDS_MAX. The journal is removed first; a
 * restart ignores results without it.
 * errors  STATUS_FAILED when the journal cannot be shortened; results that cannot be removed are
 *         logged */
MUST_CHECK enum status member_store_discard_before(struct member_store *store, uint32_t round,
                                                   struct fault *fault);

/* member_store_read_result: read a stored result without verifying its bytes; false when none has
 * this hash. For any thread at any time.
 * shapes  bytes [of the slice] */
MUST_CHECK bool member_store_read_result(const struct member_store *store, uint32_t round,
                                         uint32_t slice, const struct hash *hash, uint8_t *bytes);

#endif
