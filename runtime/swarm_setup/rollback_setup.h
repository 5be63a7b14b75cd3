/* rollback_setup: makes the operator's order to roll back a swarm, for `skep track --rollback`:
 * reads the tracker's ledger, finds the state of a round, signs the order and writes it to the
 * state folder, where the tracker reads it. */
#ifndef SKEP_SWARM_SETUP_ROLLBACK_SETUP_H
#define SKEP_SWARM_SETUP_ROLLBACK_SETUP_H

#include "runtime/swarm/leases/continue_file.h"
#include "runtime/swarm/ledger/rollback.h"
#include "runtime/swarm_setup/tracker_setup.h"

/* A state that members store, and the members that store it. */
struct stored_state {
    struct past_state state;
    uint32_t keeper_count;                         /* number of elements of `keepers` in use */
    struct identity keepers[STORED_STATE_KEEPERS]; /* members that store the state */
};

/* The effect that an order to roll back will have. */
struct rollback_effect {
    struct stored_state target;  /* state to return to */
    uint32_t undone_commits;     /* number of commits that the rollback undoes */
    uint32_t newest_round;       /* round of the newest state */
    char order_path[PATH_BYTES]; /* file with the order, which the tracker reads */
};

/* rollback_setup_sign_order: signs the order to return to the state after `round` and writes it.
 * args    args->operator_key_path is the operator's key; NULL: operator.key in the state folder
 * memory  in `region`; the caller passes a zeroed *setup and wipes setup->keys
 * errors  STATUS_INPUT when the folder has no swarm, when the key cannot sign for it, or when the
 *         members do not store the state after that round: the fault lists the rounds that can be
 *         named; those of tracker_setup_open, ledger_source_open and rollback_file_write */
MUST_CHECK enum status rollback_setup_sign_order(const struct tracker_setup_args *args,
                                                 uint32_t round, struct region *region,
                                                 struct tracker_setup *setup,
                                                 struct rollback_effect *plan, struct fault *fault);

/* continue_setup_sign_order: sign the order that the tracker continues without the leases of more
 * than half of the electors, with the members that the file at setup->waiting_path names (decision
 * 23).
 * errors  STATUS_INPUT: the tracker does not wait for an order; those of tracker_setup_open,
 *         continue_file_read and continue_file_write */
MUST_CHECK enum status continue_setup_sign_order(const struct tracker_setup_args *args,
                                                 struct region *region, struct tracker_setup *setup,
                                                 struct continue_file *file, struct fault *fault);

#endif
