/* state_fetcher: carries out ACTION_ADOPT. It fetches the state of an entry leaf by leaf from
 * other members, follows the rounds that are committed meanwhile, and posts a job for the
 * compute thread when the state is complete. The replica is overwritten as leaves arrive, so
 * between the first ADOPT and its answer this member has no outer state. */
#ifndef SKEP_SWARM_MEMBER_STATE_FETCHER_H
#define SKEP_SWARM_MEMBER_STATE_FETCHER_H

#include "runtime/swarm/member/mailbox.h"
#include "runtime/swarm/member/state_store.h"
#include "runtime/swarm/member/uplink.h"
#include "runtime/swarm/replica/leaf_fetch.h"

struct state_fetcher_args {
    struct replica *replica;          /* receives the state */
    struct messenger *messenger;      /* sends the requests */
    const struct peers *peers;        /* links to the members that leaves can come from */
    struct uplink *uplink;            /* queues the requests */
    struct mailbox *mailbox;          /* gets the job for the complete state */
    const struct state_store *states; /* states on this member's disk; NULL: none */
};

enum fetch_state {
    FETCH_NONE,    /* no state is being fetched */
    FETCH_WAITING, /* the compute thread still uses the replica */
    FETCH_RUNNING, /* leaves are requested and received */
    FETCH_POSTED,  /* the state is complete, and a job for the compute thread is posted */
};

struct state_fetcher {              /* fetches a missing state from other members */
    struct state_fetcher_args args; /* the objects that the fetcher uses */
    enum fetch_state state;         /* step of the current fetch */
    uint32_t job;                   /* job number of the newest ADOPT */
    struct entry entry;             /* entry after which the swarm has the state to fetch */
    struct leaf_fetch fetch;        /* the fetch of the single leaves */
};

/* state_fetcher_memory_bytes: size of the tables. state_fetcher_init: initialize without a state
 * fetch.
 * memory  refers to all that `args` points to from then on */
size_t state_fetcher_memory_bytes(const struct replica_shape *shape);
void state_fetcher_init(struct state_fetcher *fetcher, const struct state_fetcher_args *args,
                        void *memory);

/* state_fetcher_start: fetch the state of action->entry. If the entry is a commit that applies to
 * the state that is being fetched, the fetch continues with the results of its round.
 * base  the root of the state that the commit applies to; NULL: not known */
void state_fetcher_start(struct state_fetcher *fetcher, const struct action *action,
                         const struct hash *base);

/* state_fetcher_on_answer: called when the compute thread has answered the job whose number is
 * `job`. */
void state_fetcher_on_answer(struct state_fetcher *fetcher, uint32_t job);

/* Functions that handle results, leaf hashes and leaves from peers. state_fetcher_accept_result
 * returns whether the result must be stored, because its round must be replayed on fetched
 * leaves. */
bool state_fetcher_accept_result(struct state_fetcher *fetcher, const struct message *message);
void state_fetcher_on_frame(struct state_fetcher *fetcher, uint32_t peer, const struct frame *frame,
                            const uint8_t *payload, int64_t now_ns);
void state_fetcher_set_peer_usable(struct state_fetcher *fetcher, uint32_t peer, bool is_usable);

/* state_fetcher_step: send requests that are due, and post the job when the state is complete.
 * Returns whether it should be called again at once. */
bool state_fetcher_step(struct state_fetcher *fetcher, int64_t now_ns);

/* state_fetcher_is_active: whether a fetch is in progress, so that the replica has no complete
 * outer state.
 * state_fetcher_is_waiting: whether the next step depends on other members or the compute thread.
 * */
bool state_fetcher_is_active(const struct state_fetcher *fetcher);
bool state_fetcher_is_waiting(const struct state_fetcher *fetcher);

/* state_fetcher_send_request: send a queued LEAF_REQUEST, for outbox_callbacks; `context` is the
 * fetcher. */
enum send_result state_fetcher_send_request(void *context, uint32_t peer,
                                            const struct outbox_item *item, uint64_t *bytes);

#endif
