/* catch_up: the commits that a member has missed, oldest first, from its state to the newest one.
 * If their results together are smaller than the state, the state machine gets the oldest commit
 * instead of the newest, and the next one once that has been applied:
 *
 *     state after round 4     missed: 5, 7, 8     the tracker sends 8: the state machine gets 5
 *
 * When no member has the results of the oldest commit any more, the state machine requests a state
 * fetch, and the newest commit is delivered to it. */
#ifndef SKEP_SWARM_MEMBER_CATCH_UP_H
#define SKEP_SWARM_MEMBER_CATCH_UP_H

#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/replica/replica.h"

struct catch_up {                            /* the commits that this member has missed */
    const struct slices *slices;             /* division of the parameters into slices */
    uint32_t count;                          /* number of entries in use */
    struct entry entries[REPLAY_ROUNDS_MAX]; /* the missed commits, oldest first */
    struct hash base; /* root of the state to which the oldest commit is applied */
    bool has_message; /* `message` holds the newest commit as the tracker sent it */
    /* the message as received; its `entry` is replaced before it goes to the state machine */
    struct message message;
    const struct message *next; /* message that the state machine gets next; NULL: none */
};

/* catch_up_memory_bytes: size of the tables for the slices of the entries. catch_up_init:
 * initialize with no missed commit. */
size_t catch_up_memory_bytes(uint32_t slice_count);
void catch_up_init(struct catch_up *catch_up, const struct slices *slices, void *memory);

/* catch_up_add_entry: record an entry that was appended to the ledger and is neither OPEN nor
 * ABORT. `base` is the root of the state that it applies to, `current` the root of the member's
 * state. */
void catch_up_add_entry(struct catch_up *catch_up, const struct entry *entry,
                        const struct hash *base, const struct hash *current);

/* catch_up_replace_message: returns the message that the state machine gets instead of
 * `message`, which differs only if `message` contains the newest commit. */
const struct message *catch_up_replace_message(struct catch_up *catch_up,
                                               const struct message *message);

/* catch_up_on_applied: to be called when the member's state has got the root `current`. Returns
 * the next message for the state machine, or NULL. */
const struct message *catch_up_on_applied(struct catch_up *catch_up, const struct hash *current);

/* catch_up_on_state_fetch: to be called when the state machine requests a fetch of the state after
 * `target`. If a newer commit is known, catch_up_next_message then returns it once. */
void catch_up_on_state_fetch(struct catch_up *catch_up, const struct entry *target);
const struct message *catch_up_next_message(struct catch_up *catch_up);

/* catch_up_verify_result: whether the bytes are a result of the oldest missed commit. A quorum
 * signed that commit, which contains their hash, so the signature of the slice's owner is not
 * needed. On success the other fields of *message are filled in from the commit. */
bool catch_up_verify_result(const struct catch_up *catch_up, struct message *message,
                            const uint8_t *bytes, size_t byte_count);

#endif
