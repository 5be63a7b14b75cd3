/* rollback: the states that a swarm can return to, the members that store them, and the operator's
 * order to return to one.
 *
 *     commits   8     16     24     32  33          newest commit: 33
 *     stored          x      x      x               the last four multiples of eight, each by up to
 *                                                   three members of its round
 *
 * A state that a ROLLBACK has undone is no longer in the history, so a later ROLLBACK cannot name
 * it. */
#ifndef SKEP_SWARM_LEDGER_ROLLBACK_H
#define SKEP_SWARM_LEDGER_ROLLBACK_H

#include "runtime/swarm/ledger/entry.h"
#include "transport/identity/keys.h"

enum {
    STORED_STATE_COMMITS = 8, /* Number of commits from one stored state to the next. */
    STORED_STATES_MAX = 4,    /* Number of stored states that a swarm can return to. */
    STORED_STATE_KEEPERS = 3, /* Number of members that store the same state. */
};

_Static_assert(ROLLBACK_STATES_MAX == STORED_STATES_MAX * STORED_STATE_COMMITS + 1,
               "the history must reach back to the oldest stored state and include the genesis");

/* A state that was current and may become current again by a ROLLBACK. */
struct past_state {
    struct hash root;   /* Root of the state. */
    struct hash entry;  /* Hash of the GENESIS or COMMIT that first had this root. */
    struct hash cursor; /* hash_cursor of the cursor after `entry`. */
    uint32_t round;     /* Round of `entry`. */
    uint32_t commits;   /* Commit count of `entry`. */
};

/* The states that lead to the current one, in ascending order: the genesis, and the newest
 * ROLLBACK_STATES_MAX - 1 of the others. The last one is current. Zero it before the genesis. */
struct state_history {
    uint32_t count;                                /* number of states */
    struct past_state states[ROLLBACK_STATES_MAX]; /* [count]: ascending */
};

/* hash_cursor: a hash that identifies the content of a cursor. */
struct hash hash_cursor(const struct data_cursor *cursor);

/* state_history_apply_entry: add the state of a GENESIS or COMMIT, or remove the states that a
 * ROLLBACK undoes. Returns the index of the state that is current afterwards. A full history first
 * loses its second state; the genesis stays because every member can recreate it. A ROLLBACK to a
 * state that is not in the history counts as a new state.
 * limits  the entry is a GENESIS, COMMIT or ROLLBACK */
uint32_t state_history_apply_entry(struct state_history *history, const struct entry *entry);

/* state_history_find_root: the index of the newest state with this root, or history->count.
 * state_history_find_entry: the index of the state of the entry with this hash, or
 * history->count. */
uint32_t state_history_find_root(const struct state_history *history, const struct hash *root);
uint32_t state_history_find_entry(const struct state_history *history, const struct hash *entry);

/* is_state_stored_after: whether members store the state after the commit with this count.
 * is_stored_state_retained: whether members that stored that state have not deleted it yet when the
 * chain has `newest` commits. */
bool is_state_stored_after(uint32_t commits);
bool is_stored_state_retained(uint32_t commits, uint32_t newest);

/* state_storing_seats: the seats of the members that store the state of a COMMIT:
 * STORED_STATE_KEEPERS of its voters, or all of them if they are fewer. They follow from the
 * entry's hash and the members' identities, so all members compute the same seats.
 * limits  entry->hash is set */
uint64_t state_storing_seats(const struct entry *entry);

/* rollback_order_sign: sign the order to return to `root`, with the operator's keys.
 * rollback_order_is_signed: whether the operator signed this order.
 * swarm   hash of the manifest
 * newest  hash of the entry of the newest state, which the rollback undoes */
struct rollback_order rollback_order_sign(const struct key_pairs *operator_keys,
                                          const struct hash *swarm, const struct hash *root,
                                          const struct hash *newest);
MUST_CHECK bool rollback_order_is_signed(const uint8_t operator_key[static KEY_BYTES],
                                         const struct hash *swarm, const struct hash *root,
                                         const struct rollback_order *order);

/* rollback_order_find_target: the index of the state that an order to return to `root` names, or
 * history->count if the order does not apply to this history. An order must also name a later state
 * of the history, which the rollback undoes, so that it can be followed only once. */
uint32_t rollback_order_find_target(const struct state_history *history, const struct hash *root,
                                    const struct rollback_order *order);

/* rollback_error: a text that describes why `entry` is not a valid ROLLBACK after this history, or
 * NULL. Its root must be that of an earlier state of the history, and its cursor that of the same
 * state. If it has an order, that must apply to the history. The signature of the order is not
 * verified. */
MUST_CHECK const char *rollback_error(const struct state_history *history,
                                      const struct entry *entry);

#endif
