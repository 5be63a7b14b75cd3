/* member_loop_act: executes the actions of the state machine: sends messages, stores bytes and
 * posts jobs for the compute thread. */
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/member/member_loop_state.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

/* Queues the message of an action. If the queue is full, the message is dropped, and the member
 * that needs the bytes requests them again. */
static void queue_message(struct member_loop *loop, const struct action *action) {
    const struct message *message = &action->message;
    uint32_t peer = peers_find_by_id(&loop->peers, &action->to);
    struct outbox_item item = {.kind = message->kind,
                               .member_session = message->session,
                               .round = message->round,
                               .slice = message->slice,
                               .epoch = message->epoch,
                               .left_out = message->values.left_out,
                               .hash = message->hash};
    if (message->kind == MESSAGE_FETCH_RESULT && loop->shape.is_sparse) {
        item.index = message->values.expected;
    }
    if (message->kind == MESSAGE_SKETCHES || message->kind == MESSAGE_FETCH_SKETCHES) {
        item.hash = message->ballot.seed;
    }
    if (peer != PEER_NONE) {
        (void)(action->is_for_slow_member
                   ? uplink_push_slow_member_result(&loop->uplink, peer, &item)
                   : uplink_push_item(&loop->uplink, peer, &item));
    }
}

/* Completes an accusation with the statement that the suspect signed. */
static void add_evidence(struct member_loop *loop, struct message *vote) {
    if (vote->ballot.refusal.reason == REFUSAL_SUM ||
        vote->ballot.refusal.reason == REFUSAL_WITHHELD) {
        slice_store_add_evidence(&loop->slices, vote);
    } else if (vote->ballot.refusal.reason == REFUSAL_SKETCH) {
        sketch_store_add_evidence(&loop->slices.sketches, vote);
    }
}

static void sign_and_send(struct member_loop *loop, const struct action *action) {
    struct message message = action->message;
    if (message.kind == MESSAGE_VOTE) {
        add_evidence(loop, &message);
    }
    wire_sign_message(&loop->shape, loop->options.keys, &message);
    if (action->to_tracker) {
        (void)uplink_send_message(&loop->uplink, loop->tracker.keys.curve, &message);
        return;
    }
    uint32_t peer = peers_find_by_id(&loop->peers, &action->to);
    if (peer != PEER_NONE) {
        (void)uplink_send_message(&loop->uplink, peers_curve_key(&loop->peers, peer), &message);
    }
}

static void send_message(struct member_loop *loop, const struct action *action) {
    switch (action->message.kind) {
    case MESSAGE_CONTRIBUTION:
    case MESSAGE_RESULT:
    /* these requests are too many for a control queue, so the outbox queues them */
    case MESSAGE_FETCH_CONTRIBUTION:
    case MESSAGE_FETCH_RESULT:
    case MESSAGE_SKETCHES:
    case MESSAGE_FETCH_SKETCHES:
        queue_message(loop, action);
        break;
    default:
        sign_and_send(loop, action);
        break;
    }
}

static void store_slice_bytes(struct member_loop *loop, const struct action *action) {
    ASSERT(loop->message != NULL);
    if (loop->message->kind == MESSAGE_RESULT) {
        slice_store_keep_result(&loop->slices, loop->message);
        uplink_measurements_on_result(&loop->measures);
    } else if (loop->message->kind == MESSAGE_SKETCHES) {
        sketch_store_keep_page(&loop->slices.sketches, (uint32_t)action->seat, loop->message,
                               loop->bulk);
    } else {
        ASSERT(loop->message->kind == MESSAGE_CONTRIBUTION && action->seat >= 0);
        slice_store_keep_contribution(&loop->slices, (uint32_t)action->seat, action->slot,
                                      loop->message->proof);
    }
}

static int own_seat_in_open_round(const struct member_loop *loop) {
    for (uint32_t seat = 0; seat < loop->open.seat_count; seat++) {
        if (memcmp(&loop->open.seats[seat].id, &loop->slices.id, sizeof loop->slices.id) == 0) {
            return (int)seat;
        }
    }
    return -1;
}

static void post_training_job(struct member_loop *loop, const struct action *action) {
    struct member_job job = {.kind = ACTION_TRAIN,
                             .round = action->round,
                             .seat = own_seat_in_open_round(loop),
                             .commits = action->commits,
                             .members = action->members,
                             .time_left_ms = action->time_left_ms,
                             .range_count = action->range_count};
    ASSERT(action->range_count <= SWARM_SEAT_RANGES_MAX);
    memcpy(job.ranges, action->ranges, action->range_count * sizeof job.ranges[0]);
    /* from now on, training overwrites the contribution in the replica */
    slice_store_record_own_contribution(&loop->slices, 0, -1);
    mailbox_post_job(&loop->mailbox, &job);
}

static void post_sum_job(struct member_loop *loop, const struct action *action) {
    const struct replica *replica = loop->options.replica;
    struct member_job job = {.kind = ACTION_SUM,
                             .job = action->job,
                             .round = action->round,
                             .slice = action->slice,
                             .epoch = action->epoch,
                             .seat = action->seat,
                             .contributors = action->contributors};
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if ((action->contributors >> seat & 1) == 0) {
            continue;
        }
        struct addend *addend = &job.addends[job.addend_count++];
        bool is_own = (int)seat == action->seat;
        const struct entry_member *declared = &action->table->members[seat];
        addend->weight = declared->weight;
        addend->clip = norms_clip_factor(declared->norm, action->table->reference_norm);
        addend->is_own = is_own;
        if (loop->shape.is_sparse && !is_own) {
            job.proofs[job.addend_count - 1] =
                replica_slot_proof(replica, seat, action->slots[seat]);
        }
        addend->bytes = is_own ? replica_own_contribution(replica, action->slice)
                               : replica_contribution_slot(replica, seat, action->slots[seat]);
    }
    if (loop->shape.is_sparse) {
        job.value_limit = norms_value_limit(action->table->reference_norm,
                                            slices_sent_values(&replica->shape.slices));
    }
    slice_store_drop_result(&loop->slices, action->round, action->slice);
    mailbox_post_job(&loop->mailbox, &job);
}

static void post_entry_job(struct member_loop *loop, const struct action *action) {
    static const struct lease NONE;
    mailbox_post_job(&loop->mailbox,
                     &(struct member_job){.kind = action->kind,
                                          .job = action->job,
                                          .round = action->entry->round,
                                          .seat = action->kind == ACTION_APPLY ? action->seat : -1,
                                          .entry = action->entry,
                                          .lease = action->lease != NULL ? *action->lease : NONE});
}

/* Adds the contributions of an audited slice to the job. They are in slot 0 of each seat. */
static void add_audited_contributions(const struct member_loop *loop, const struct action *action,
                                      struct member_job *job) {
    const struct replica *replica = loop->options.replica;
    const struct entry *entry = action->entry;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        if ((action->contributors >> seat & 1) == 0) {
            continue;
        }
        bool is_own = (int)seat == action->seat;
        const struct entry_member *declared = &entry->members[seat];
        job->addends[job->addend_count++] =
            (struct addend){.bytes = is_own ? replica_own_contribution(replica, action->slice)
                                            : replica_contribution_slot(replica, seat, 0),
                            .weight = declared->weight,
                            .clip = norms_clip_factor(declared->norm, entry->reference_norm),
                            .is_own = is_own};
    }
}

static void post_check_job(struct member_loop *loop, const struct action *action) {
    struct member_job job = {.kind = action->kind,
                             .job = action->job,
                             .round = action->entry->round,
                             .slice = action->slice,
                             .seat = action->seat,
                             .entry = action->entry,
                             .contributors = action->contributors,
                             .seed = action->seed,
                             .silent = action->silent};
    if (action->kind == ACTION_RECHECK) {
        add_audited_contributions(loop, action, &job);
    }
    sketch_store_add_to_job(&loop->slices.sketches, &job);
    mailbox_post_job(&loop->mailbox, &job);
}

static void start_state_fetch(struct member_loop *loop, const struct action *action) {
    state_fetcher_start(&loop->fetcher, action,
                        ledger_follower_base_root(&loop->ledger, action->entry));
    catch_up_on_state_fetch(&loop->catch_up, action->entry);
}

static void execute_action(struct member_loop *loop, const struct action *action) {
    switch (action->kind) {
    case ACTION_SEND:
        send_message(loop, action);
        break;
    case ACTION_KEEP_BYTES:
        store_slice_bytes(loop, action);
        break;
    case ACTION_TRAIN:
        post_training_job(loop, action);
        break;
    case ACTION_END_TRAINING:
        mailbox_end_training(&loop->mailbox, action->round);
        break;
    case ACTION_SUM:
        post_sum_job(loop, action);
        break;
    case ACTION_ROOT:
    case ACTION_STORE:
    case ACTION_APPLY:
        post_entry_job(loop, action);
        break;
    case ACTION_SKETCH:
    case ACTION_CHECK:
    case ACTION_RECHECK:
        post_check_job(loop, action);
        break;
    case ACTION_RESIGN:
        mailbox_post_job(&loop->mailbox, &(struct member_job){.kind = ACTION_RESIGN,
                                                              .job = action->job,
                                                              .seat = -1,
                                                              .lease = *action->lease});
        break;
    case ACTION_ADOPT:
        start_state_fetch(loop, action);
        break;
    case ACTION_LEFT:
        mailbox_post_job(&loop->mailbox, &(struct member_job){.kind = ACTION_LEFT, .seat = -1});
        break;
    case ACTION_WRITE:
        ASSERT(!"a member writes no tracker record");
    }
}

static void log_lease_conflict(struct member_loop *loop) {
    const enum lease_conflict conflict = member_pop_conflict(loop->member);
    if (conflict == LEASE_HELD) {
        log_line(LOG_WARNING, "swarm: possible fork: this member promised its vote to another "
                              "start of the tracker after the same state, so it does not vote for "
                              "this one; the operator can order one to continue");
    } else if (conflict == LEASE_COPIED) {
        log_line(LOG_ERROR, "swarm: fork: two trackers continue this swarm, one from a copy of the "
                            "other's store; stop one of them");
    }
}

void member_loop_step(struct member_loop *loop, const struct event *event) {
    struct actions actions = {.rows = loop->action_rows, .capacity = ACTIONS_MAX};
    member_step(loop->member, event, clock_monotonic_ns() / NS_PER_MS, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        execute_action(loop, &actions.rows[i]);
    }
    log_lease_conflict(loop);
}

void member_loop_on_answer(struct member_loop *loop, const struct mailbox_updates *updates) {
    const struct event *event = &updates->event;
    if (event->kind == EVENT_TRAINED) {
        slice_store_record_own_contribution(&loop->slices, event->round,
                                            own_seat_in_open_round(loop));
    } else {
        state_fetcher_on_answer(&loop->fetcher, event->job);
    }
    if (event->kind == EVENT_SUMMED && updates->answered_job != NULL) {
        slice_store_add_own_result(&loop->slices, updates->answered_job, &event->hash);
        uplink_measurements_on_result(&loop->measures);
    }
    if (event->kind == EVENT_SKETCHED && updates->answered_job != NULL) {
        sketch_store_sign_own(&loop->slices.sketches, updates->answered_job);
    }
    member_loop_step(loop, event);
    const struct message *next =
        event->kind == EVENT_APPLIED
            ? catch_up_on_applied(&loop->catch_up, member_current_root(loop->member))
            : NULL;
    if (next != NULL) {
        member_loop_deliver(loop, next);
    }
}
