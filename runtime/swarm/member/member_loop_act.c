/* member_loop_act: what the machine says is to be done becomes messages, bytes kept, and work. */
#include "runtime/swarm/member/member_loop_state.h"

#include <string.h>

static void put(struct member_loop *loop, struct outbox *outbox, const struct action *action) {
    const struct message *message = &action->message;
    uint32_t peer = peers_find_id(loop, &action->to);
    struct outbox_item item = {.kind = message->kind,
                               .session = message->session,
                               .round = message->round,
                               .slice = message->slice,
                               .epoch = message->epoch,
                               .hash = message->hash};
    if (peer != PEER_NONE) {
        (void)outbox_push(outbox, peer, &item); /* a full line: it is asked for again */
    }
}

/* Control that finds no room is lost; every message is made good by the next of its kind. */
static void say_control(struct member_loop *loop, const struct action *action) {
    struct message message = action->message;
    site_health_kind(&loop->shape, loop->options.keys, &message);
    if (action->to_tracker) {
        (void)uplink_send_message(loop, loop->options.tracker.curve, CHANNEL_CONTROL, &message,
                                  NULL, 0);
        return;
    }
    uint32_t peer = peers_find_id(loop, &action->to);
    if (peer != PEER_NONE) {
        (void)uplink_send_message(loop, loop->peers[peer].as.keys.curve, CHANNEL_CONTROL, &message,
                                  NULL, 0);
    }
}

static void send(struct member_loop *loop, const struct action *action) {
    switch (action->message.kind) {
    case MESSAGE_CONTRIBUTION:
        put(loop, &loop->contributions, action);
        break;
    case MESSAGE_RESULT:
        put(loop, &loop->results, action);
        break;
    case MESSAGE_FETCH_CONTRIBUTION:
    case MESSAGE_FETCH_RESULT:
        put(loop, &loop->asks, action); /* more at once than a control queue may have room for */
        break;
    default:
        say_control(loop, action);
        break;
    }
}

void member_loop_keep_result(struct member_loop *loop, const struct message *message) {
    const struct replica *replica = loop->options.replica;
    struct stored_result *held = result_index_slot(&loop->rows, message->round, message->slice);
    memcpy(replica_result(replica, message->round, message->slice), loop->landing, loop->landed);
    held->epoch = message->epoch;
    held->contributors = message->contributors;
    held->hash = message->hash;
    held->owner = message->owner;
    held->signature = message->signature;
    held->is_held = true;
    uplink_on_progress(loop);
}

static void keep(struct member_loop *loop, const struct action *action) {
    ASSERT(loop->heard != NULL);
    if (loop->heard->kind == MESSAGE_RESULT) {
        member_loop_keep_result(loop, loop->heard);
        return;
    }
    memcpy(replica_slot(loop->options.replica, (uint32_t)action->seat, action->slot), loop->landing,
           loop->landed);
}

static int own_seat(const struct member_loop *loop) {
    for (uint32_t seat = 0; seat < loop->open.seat_count; seat++) {
        if (memcmp(&loop->open.seats[seat].id, &loop->id, sizeof(loop->id)) == 0) {
            return (int)seat;
        }
    }
    return -1;
}

static void train(struct member_loop *loop, const struct action *action) {
    struct member_job work = {.kind = ACTION_TRAIN,
                              .round = action->round,
                              .seat = own_seat(loop),
                              .commits = action->commits,
                              .deadline_ms = action->deadline_ms,
                              .range_count = action->range_count};
    memcpy(work.ranges, action->ranges, action->range_count * sizeof(work.ranges[0]));
    loop->own_round = 0; /* it will be written over */
    mailbox_post_job(&loop->post, &work);
}

static void note_job(struct member_loop *loop, const struct action *action) {
    const struct entry *entry = action->entry;
    loop->job = (struct loop_job){.is_out = true,
                                  .kind = action->kind,
                                  .number = action->job,
                                  .round = entry->round,
                                  .root = entry->root,
                                  .slice = action->slice,
                                  .epoch = action->epoch,
                                  .contributors = action->contributors};
}

static void sum(struct member_loop *loop, const struct action *action) {
    const struct replica *replica = loop->options.replica;
    struct member_job work = {.kind = ACTION_SUM,
                              .job = action->job,
                              .round = action->round,
                              .slice = action->slice,
                              .epoch = action->epoch,
                              .seat = action->seat};
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if ((action->contributors >> seat & 1) == 0) {
            continue;
        }
        struct addend *addend = &work.addends[work.addend_count++];
        bool is_own = (int)seat == action->seat;
        addend->weight = action->table->members[seat].weight;
        addend->bytes = is_own ? replica_own(replica, action->slice)
                               : replica_slot(replica, seat, action->slots[seat]);
        work.own_weight = is_own ? addend->weight : work.own_weight;
    }
    (void)result_index_slot(&loop->rows, action->round, action->slice);
    note_job(loop, action);
    mailbox_post_job(&loop->post, &work);
}

static void work_on_entry(struct member_loop *loop, const struct action *action) {
    struct member_job work = {.kind = action->kind,
                              .job = action->job,
                              .round = action->entry->round,
                              .seat = action->kind == ACTION_APPLY ? action->seat : -1,
                              .entry = action->entry};
    note_job(loop, action);
    mailbox_post_job(&loop->post, &work);
}

static void act(struct member_loop *loop, const struct action *action) {
    switch (action->kind) {
    case ACTION_SEND:
        send(loop, action);
        break;
    case ACTION_KEEP_BYTES:
        keep(loop, action);
        break;
    case ACTION_TRAIN:
        train(loop, action);
        break;
    case ACTION_SUM:
        sum(loop, action);
        break;
    case ACTION_ROOT:
    case ACTION_STORE:
    case ACTION_APPLY:
        work_on_entry(loop, action);
        break;
    case ACTION_ADOPT:
        note_job(loop, action);
        state_fetcher_start(loop, action);
        break;
    case ACTION_LEFT:
        mailbox_post_job(&loop->post, &(struct member_job){.kind = ACTION_LEFT, .seat = -1});
        break;
    case ACTION_WRITE:
        ASSERT(!"a member writes no record");
    }
}

void member_loop_step(struct member_loop *loop, const struct event *event) {
    loop->actions.count = 0;
    member_step(loop->machine, event, &loop->actions);
    for (uint32_t i = 0; i < loop->actions.count; i++) {
        act(loop, &loop->actions.rows[i]);
    }
}

/* The result's bytes lie in the replica by now, whatever the machine makes of them. */
static void note_sum(struct member_loop *loop, const struct hash *hash) {
    const struct loop_job *job = &loop->job;
    struct message signed_result = {.kind = MESSAGE_RESULT,
                                    .round = job->round,
                                    .slice = job->slice,
                                    .epoch = job->epoch,
                                    .contributors = job->contributors,
                                    .hash = *hash};
    site_health_kind(&loop->shape, loop->options.keys, &signed_result);
    struct stored_result *held = result_index_slot(&loop->rows, job->round, job->slice);
    *held = (struct stored_result){.is_held = true,
                                   .epoch = job->epoch,
                                   .contributors = job->contributors,
                                   .hash = *hash,
                                   .owner = loop->id,
                                   .signature = signed_result.signature};
    uplink_on_progress(loop);
}

void member_loop_job_done(struct member_loop *loop, const struct event *event) {
    if (event->kind == EVENT_TRAINED) {
        loop->own_round = event->round;
    } else if (loop->job.is_out && loop->job.number == event->job) {
        loop->job.is_out = false;
        if (event->kind == EVENT_SUMMED) {
            note_sum(loop, &event->hash);
        } else if (loop->job.kind == ACTION_ADOPT) {
            state_fetcher_finish_job(loop);
        }
    }
    member_loop_step(loop, event);
    const struct message *next = event->kind == EVENT_APPLIED ? catch_up_on_applied(loop) : NULL;
    if (next != NULL) {
        member_loop_deliver(loop, next);
    }
}
