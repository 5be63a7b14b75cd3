/* member_loop_state: the network thread of a member: the objects that it owns, and the functions of
 * its own files. Each object has its own header, and no other code writes its fields; the thread
 * connects them with the state machine, the messenger and the mailbox. */
#ifndef SKEP_SWARM_MEMBER_MEMBER_LOOP_STATE_H
#define SKEP_SWARM_MEMBER_MEMBER_LOOP_STATE_H

#include "runtime/swarm/member/leaf_server.h"
#include "runtime/swarm/member/ledger_follower.h"
#include "runtime/swarm/member/tracker_link.h"

struct member_loop {
    struct member_loop_options options;
    struct wire_shape shape; /* sizes that bound every message */
    struct messenger *messenger;
    struct mailbox mailbox;
    pthread_t thread;  /* the network thread */
    struct entry vote; /* proposal with the computed root; for the compute thread only */

    struct member *member;         /* state machine of the swarm protocol */
    struct action *action_rows;    /* [ACTIONS_MAX] */
    struct wire_arrays arrays;     /* arrays of the message that is being read */
    struct wire_chunks chunks;     /* chunks of the tracker's messages */
    const struct message *message; /* message that the state machine is handling; NULL: none */
    const uint8_t *bulk;           /* bytes that followed that message, if any */
    struct entry open;             /* the newest OPEN, which has no slices */
    uint32_t contributors;         /* number of contributors to the newest commit */

    struct idle_reason reason; /* why the member is idle */
    struct admission admission;
    struct tracker_link tracker;
    struct peers peers;
    struct catch_up catch_up;            /* replays missed commits */
    struct ledger_follower ledger;       /* checks the tracker's ledger */
    struct slice_store slices;           /* encoded slices of the current round */
    struct uplink_measurements measures; /* measured times and upload rates */
    struct uplink uplink;                /* queues and rate limits of the sent frames */
    struct state_fetcher fetcher;        /* fetches a missing state from other members */
    struct leaf_server leaf_server;      /* sends this member's state to other members */
};

/* member_loop_run: the network thread, until mailbox_shut_down (member_loop_turn.c). */
void *member_loop_run(void *loop);

/* The state machine (member_loop_act.c). member_loop_step: pass it an event and carry out its
 * actions. member_loop_on_answer: pass it an answer of the compute thread. */
void member_loop_step(struct member_loop *loop, const struct event *event);
void member_loop_on_answer(struct member_loop *loop, const struct mailbox_updates *updates);

/* Receiving (member_loop_receive.c). member_loop_receive: one event of the messenger.
 * member_loop_deliver: pass a verified message to the state machine. */
void member_loop_receive(struct member_loop *loop, const struct messenger_event *event);
void member_loop_deliver(struct member_loop *loop, const struct message *message);

#endif
