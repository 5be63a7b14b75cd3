/* state_store: the states that a member stores so that the swarm can return to them, one file for
 * each, in its state folder:
 *
 *     FOLDER/state-1f0c63a2b7d4e958   the state whose root begins with these 16 hexadecimal digits
 *
 * The members that store the state of a commit are chosen pseudo-randomly (state_storing_seats).
 * A file is removed once 32 further commits have followed. The format is in state_file.h. */
#ifndef SKEP_SWARM_MEMBER_STATE_STORE_H
#define SKEP_SWARM_MEMBER_STATE_STORE_H

#include "base/region.h"
#include "runtime/swarm/ledger/rollback.h"
#include "runtime/swarm/replica/state_file.h"

struct state_store {
    const char *folder;                                 /* state folder of the member */
    struct slices slices;                               /* division of the parameters */
    uint32_t count;                                     /* number of stored states */
    struct state_file_header states[STORED_STATES_MAX]; /* the stored states, in no order */
};

/* state_store_open: find the stored states of earlier starts. Damaged and surplus files are
 * removed.
 * memory  refers to `folder`; opendir allocates, later calls do not
 * errors  STATUS_FAILED when the folder cannot be read */
MUST_CHECK enum status state_store_open(const char *folder, const struct slices *slices,
                                        struct state_store *store, struct fault *fault);

/* state_store_add: store the replica's state after commit number `commits`, which was made in
 * `round`.
 * limits  is_state_stored_after(commits); state_store_remove_expired(commits) was called
 * errors  STATUS_FIT on a full disk, STATUS_FAILED; the other stored states are then unchanged */
MUST_CHECK enum status state_store_add(struct state_store *store, uint32_t round, uint32_t commits,
                                       const struct replica *replica, struct fault *fault);

/* state_store_remove_expired: remove the states that the swarm can no longer return to after
 * `commits` commits. A file that cannot be removed is logged. */
void state_store_remove_expired(struct state_store *store, uint32_t commits);

/* state_store_list_roots: the roots of the stored states.
 * shapes  roots [STORED_STATES_MAX], zero after the last one */
void state_store_list_roots(const struct state_store *store, struct hash *roots);

/* state_store_has_root: whether the state with this root is stored. Any thread may call it at any
 * time. */
bool state_store_has_root(const struct state_store *store, const struct hash *root);

/* state_store_read_hashes, state_store_read_leaf: read from the state with this root, as
 * state_file_read_hashes and state_file_read_leaf do. Any thread may call them at any time. */
MUST_CHECK bool state_store_read_hashes(const struct state_store *store, const struct hash *root,
                                        uint64_t first, uint64_t count, struct hash *hashes);
size_t state_store_read_leaf(const struct state_store *store, const struct hash *root,
                             uint64_t index, uint8_t *bytes);

#endif
