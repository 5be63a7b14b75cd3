/* member_loop_state: the state of a member's network thread: the objects that it owns, and the
 * functions of the member_loop files. Each object has its own header and alone writes its
 * fields. The thread connects the objects with the state machine, the messenger and the mailbox. */
#ifndef SKEP_SWARM_MEMBER_MEMBER_LOOP_STATE_H
#define SKEP_SWARM_MEMBER_MEMBER_LOOP_STATE_H

#include "runtime/swarm/member/leaf_server.h"
#include "runtime/swarm/member/ledger_follower.h"
#include "runtime/swarm/member/tracker_link.h"

struct member_loop {
    struct member_loop_options options;
    /* numbers of slices and members, which determine the layout of messages */
    struct wire_shape shape;
    struct messenger *messenger; /* sends and receives the frames */
    struct mailbox mailbox;      /* exchanges jobs and answers with the compute thread */
    pthread_t thread;            /* the network thread */
    struct entry vote; /* proposal with the computed root; used by the compute thread only */

    struct member *member;         /* state machine of the swarm protocol */
    struct action *action_rows;    /* [ACTIONS_MAX]: actions of the event that is being handled */
    struct wire_arrays arrays;     /* arrays of the message that is being read */
    struct wire_chunks chunks;     /* chunks of the tracker's messages */
    const struct message *message; /* message that the state machine is handling; NULL: none */
    const uint8_t *bulk;           /* bytes that followed `message` in its frame, if any */
    struct entry open;             /* the newest OPEN, which has no slices */
    uint32_t contributors;         /* number of contributors to the newest commit */

    struct idle_reason reason;           /* why the member is idle */
    struct admission admission;          /* admission of this member by the tracker */
    struct tracker_link tracker;         /* keys of the tracker, and the connection to it */
    struct peers peers;                  /* connections to the other members */
    struct catch_up catch_up;            /* replays missed commits */
    struct ledger_follower ledger;       /* checks the tracker's ledger */
    struct slice_store slices;           /* encoded slices of the current round */
    struct uplink_measurements measures; /* measured times and upload rates */
    struct uplink uplink;                /* queues and rate limits of the sent frames */
    struct state_fetcher fetcher;        /* fetches a missing state from other members */
    struct leaf_server leaf_server;      /* sends this member's state to other members */
};

/* member_loop_run: the function of the network thread. Returns after mailbox_shut_down
 * (member_loop_turn.c). */
void *member_loop_run(void *loop);

/* The state machine (member_loop_act.c). member_loop_step: pass an event to the state machine
 * and execute its actions. member_loop_on_answer: pass an answer of the compute thread to the
 * state machine. */
void member_loop_step(struct member_loop *loop, const struct event *event);
void member_loop_on_answer(struct member_loop *loop, const struct mailbox_updates *updates);

/* Receiving (member_loop_receive.c). member_loop_receive: handle one event of the messenger.
 * member_loop_deliver: pass a verified message to the state machine. */
void member_loop_receive(struct member_loop *loop, const struct messenger_event *event);
void member_loop_deliver(struct member_loop *loop, const struct message *message);

#endif
