/* member_store: a member's durable memory in its state folder: what it must still have after it was
 * killed, or its machine lost power, so that a committed round lives while one voter lives.
 *
 *     FOLDER/lock         held while the member runs
 *            swarm        the hash of the manifest: whose folder it is
 *            journal      the commits applied since the newest snapshot (entry_journal.h)
 *            results-12   of each round voted on since then (result_file.h)
 *
 *     results stored ──► vote ──► commit ──► applied, entry in the journal ──► ... ──► snapshot
 *
 * A restart takes the newest snapshot (runtime/train), then replays the journal's entries with the
 * results at hand; the last results that were stored but not committed are told to the swarm. */
#ifndef SKEP_SWARM_MEMBER_MEMBER_STORE_H
#define SKEP_SWARM_MEMBER_MEMBER_STORE_H

#include "runtime/swarm/ledger/entry_journal.h"
#include "runtime/swarm/replica/replica.h"
#include "runtime/swarm/replica/result_file.h"

struct member_store {
    const char *folder;
    int lock_fd;
    struct entry_journal journal;
    struct result_files files;
    uint32_t oldest, newest; /* rounds that results may be at hand of; newest 0: none */
    char *path, *beside;     /* [PATH_BYTES] scratch */
};

/* member_store_open: make the folder or take it over; what a killed process left unfinished is
 * removed.
 * memory  `folder` is kept; two tables of slices in `region`; nothing allocates later
 * errors  STATUS_INPUT when another process holds the folder, naming it, or what is in it is not
 *         ours; STATUS_FIT, STATUS_FAILED. *store untouched */
MUST_CHECK enum status member_store_open(const char *folder, const struct slices *slices,
                                         struct region *region, struct member_store *store,
                                         struct fault *fault);
void member_store_close(struct member_store *store);

/* member_store_claim_folder: the folder is this swarm's, which is written down when nothing says so
 * yet. Of a folder that does not, but keeps something, `first` says whose it is: the entry that the
 * ledger beside it begins with, or NULL.
 * errors  STATUS_INPUT when it is another swarm's, or keeps something that could be any swarm's;
 *         STATUS_FIT, STATUS_FAILED */
MUST_CHECK enum status member_store_claim_folder(struct member_store *store,
                                                 const struct hash *manifest,
                                                 const struct entry *first, struct fault *fault);

/* member_store_add_results: the results of entry->round, as they lie in the replica, are durable
 * when it comes back. Those kept earlier for the same round are replaced.
 * errors  STATUS_FIT on a full disk, STATUS_FAILED: what was kept stays */
MUST_CHECK enum status member_store_add_results(struct member_store *store,
                                                const struct entry *entry,
                                                const struct replica *replica, struct fault *fault);

/* member_store_fetch: the kept results of a round back into the replica, and what is known of each.
 * shapes  reports [slices.count]
 * errors  STATUS_INPUT when there are none or they are damaged; the replica's results of that round
 *         are then undefined */
MUST_CHECK enum status member_store_fetch(struct member_store *store, uint32_t round,
                                          const struct replica *replica,
                                          struct slice_report *reports, struct fault *fault);

/* member_store_applied: the commit `entry` is a part of the state; durable when it comes back.
 * errors  STATUS_FIT, STATUS_FAILED: the journal is as before */
MUST_CHECK enum status member_store_applied(struct member_store *store, const struct entry *entry,
                                            struct fault *fault);

/* member_store_discard_before: a snapshot of the state at `round` is complete, which the journal
 * leads up to: the journal goes, and results but those of the last rounds, for members that missed
 * them: as many as are less than the state, at most REPLAY_ROUNDS_MAX. (In this order: a crash
 * between leaves what a restart passes over.)
 * errors  STATUS_FAILED when the journal cannot be shortened; results that cannot be removed are
 *         logged */
MUST_CHECK enum status member_store_discard_before(struct member_store *store, uint32_t round,
                                                   struct fault *fault);

/* member_store_result: the bytes of a kept result, unchecked, for any thread at any time; false
 * when there is none of this hash.
 * shapes  bytes [of the slice] */
MUST_CHECK bool member_store_result(const struct member_store *store, uint32_t round,
                                    uint32_t slice, const struct hash *hash, uint8_t *bytes);

#endif
