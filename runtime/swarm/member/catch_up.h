/* catch_up: the commits that a member has missed, oldest first, from its state to the newest one.
 * Where their results are fewer bytes than the state, the state machine gets the oldest commit in
 * place of the newest, and the next one after it was applied:
 *
 *     state after round 4     missed: 5, 7, 8     the tracker sends 8: the state machine gets 5
 *
 * When no member has the results of the oldest any more, the state machine asks for a state fetch,
 * and the newest commit is delivered after all. */
#ifndef SKEP_SWARM_MEMBER_CATCH_UP_H
#define SKEP_SWARM_MEMBER_CATCH_UP_H

#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/replica/replica.h"

struct catch_up {
    const struct slices *slices;
    uint32_t count;
    struct entry entries[REPLAY_ROUNDS_MAX]; /* the missed commits, oldest first */
    struct hash base;                        /* the root that the oldest starts from */
    bool has_message;       /* the tracker sent the newest commit, so that `message` is filled */
    struct message message; /* as it was received, with another entry */
    const struct message *next; /* to be delivered; NULL: none */
};

/* catch_up_bytes: memory of the entries' slices. catch_up_init: no commit is missed. */
size_t catch_up_bytes(uint32_t slice_count);
void catch_up_init(struct catch_up *catch_up, const struct slices *slices, void *memory);

/* catch_up_add: an entry was appended to the ledger that is neither OPEN nor ABORT; `base` is the
 * root that it starts from, `current` the root of the member's state. */
void catch_up_add(struct catch_up *catch_up, const struct entry *entry, const struct hash *base,
                  const struct hash *current);

/* catch_up_substitute: the message that the state machine gets in place of `message`; `message`
 * itself unless it brings the newest commit. */
const struct message *catch_up_substitute(struct catch_up *catch_up, const struct message *message);

/* catch_up_on_applied: the state has the root `current` now. The next message for the state
 * machine, or NULL. */
const struct message *catch_up_on_applied(struct catch_up *catch_up, const struct hash *current);

/* catch_up_on_fetch: the state machine asked for the state after `target`. If a newer commit is
 * known, catch_up_next returns it, once. */
void catch_up_on_fetch(struct catch_up *catch_up, const struct entry *target);
const struct message *catch_up_next(struct catch_up *catch_up);

/* catch_up_verifies: whether the bytes are a result of the oldest missed commit. Its quorum signed
 * their hash, so the signature of the slice's owner is not needed. On success *message is completed
 * from the commit. */
bool catch_up_verifies(const struct catch_up *catch_up, struct message *message,
                       const uint8_t *bytes, size_t byte_count);

#endif
