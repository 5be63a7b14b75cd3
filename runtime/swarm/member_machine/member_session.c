/* member_session: the member's session with the tracker: the messages between the two. */
#include "runtime/swarm/member_machine/member_state.h"

void member_session_init(struct member_session *session, uint64_t start_id) {
    ASSERT(session->id == 0 && session->incarnation == 0);
    session->start_id = start_id;
    session->measured.upload_kib_s = TIMING_UNKNOWN;
}

void member_set_measured_medians(struct member *member, const struct timing_measured *measured) {
    member->session.measured = *measured;
}

void member_set_stored_states(struct member *member, const struct hash *roots) {
    memcpy(member->session.stored, roots, sizeof member->session.stored);
}

void member_set_unreachable_members(struct member *member, const struct identity *ids,
                                    uint32_t count) {
    ASSERT(count <= SWARM_MEMBERS_MAX);
    struct member_session *session = &member->session;
    session->unreachable_count = count;
    for (uint32_t i = 0; i < count; i++) {
        session->unreachable[i] = ids[i];
    }
    member_withdraw_requests_to_unreachable(member);
}

uint64_t member_unreachable_seats(const struct member_session *session,
                                  const struct entry *roster) {
    ASSERT(session->unreachable_count <= SWARM_MEMBERS_MAX);
    uint64_t seats = 0;
    for (uint32_t i = 0; i < session->unreachable_count; i++) {
        int seat = roster_find_seat(roster, &session->unreachable[i]);
        seats |= seat == NO_SEAT ? 0 : seat_bit((uint32_t)seat);
    }
    return seats;
}

void member_session_begin_leave(struct member_session *session) {
    session->is_leaving = true;
}

struct action *member_send(const struct member *member, const struct identity *to,
                           struct message message, struct actions *actions) {
    ASSERT(message.slice < member->slice_count);
    ASSERT(message.epoch <= SWARM_EPOCH_MAX);
    struct action *action = actions_add(actions, ACTION_SEND);
    message.session = member->session.id;
    message.from = member->id;
    action->to_tracker = to == NULL;
    if (to != NULL) {
        action->to = *to;
    }
    action->message = message;
    return action;
}

void member_session_tick(struct member *member, struct actions *actions) {
    const struct member_session *session = &member->session;
    ASSERT(session->id > 0 || member->round.seat == NO_SEAT);
    if (session->id == 0) {
        struct message hello = {.kind = MESSAGE_HELLO, .number = session->start_id};
        hello.root = member->outer.root;
        member_send(member, NULL, hello, actions);
        return;
    }
    if (session->is_leaving) {
        member_send(member, NULL, (struct message){.kind = MESSAGE_LEAVE}, actions);
    }
    member_send_resignation(member, actions);
    member_repeat_declaration(member, actions);
    member_send_vote(member, actions);
    member_send_report(member, actions);
    member_requests_tick(member);
    member_check_tick(member, actions);
    job_clear_backoff(&member->job);
}

/* Adopts the session of a WELCOME. Session numbers increase, so a WELCOME with a lower number was
 * delayed. A WELCOME for a different start id means that this process lost its session and must
 * introduce itself again. */
static void handle_welcome(struct member *member, const struct message *message) {
    struct member_session *session = &member->session;
    if (message->session <= session->id) {
        return;
    }
    if (session->id > 0) {
        member_end_round(member);
    }
    session->id = message->number == session->start_id ? message->session : 0;
    report_confirm(&member->report, 0);
}

static void handle_poll(struct member *member, const struct message *message,
                        struct actions *actions) {
    ASSERT(message->session == member->session.id);
    if (message->poll.number > member->session.poll) {
        member->session.poll = message->poll.number;
        member_send_report(member, actions);
        member_send_declaration(member, actions);
        if (message->poll.ends_training == 1) {
            member_end_training(member, message->round, actions);
        }
    }
}

static void handle_goodbye(struct member *member, const struct message *message,
                           struct actions *actions) {
    if (hash_is_zero(&message->hash)) {
        actions_add(actions, ACTION_LEFT);
    } else if (member->session.is_leaving) {
        member_resign(member, message, actions);
    }
}

void member_handle_tracker_message(struct member *member, const struct message *message,
                                   struct actions *actions) {
    struct member_session *session = &member->session;
    if (message->incarnation < session->incarnation || member->job.kind == JOB_APPLY) {
        /* The message is ignored: it is from an earlier start of the tracker, or the tracker
         * repeats it after the APPLY. */
        return;
    }
    ASSERT(message->incarnation >= session->incarnation);
    if (message->incarnation > session->incarnation) {
        report_confirm(&member->report, 0);
    }
    session->incarnation = message->incarnation;
    if (message->kind == MESSAGE_WELCOME) {
        handle_welcome(member, message);
        return;
    }
    if (message->session != session->id) {
        return;
    }
    if (message->kind == MESSAGE_ENTRY) {
        member_handle_entry(member, message, actions);
    } else if (message->kind == MESSAGE_PROPOSE) {
        member_handle_proposal(member, message, actions);
    } else if (message->kind == MESSAGE_TABLE) {
        if (member->round.is_open && message->round == member->round.open.round &&
            message->table->version > member->table.version && !member->commit.is_pending) {
            member_handle_table(member, message->table, message->version, actions);
        }
    } else if (message->kind == MESSAGE_GOODBYE) {
        handle_goodbye(member, message, actions);
    } else if (message->kind == MESSAGE_POLL) {
        handle_poll(member, message, actions);
    } else if (message->kind == MESSAGE_CONFIRM) {
        report_confirm(&member->report, message->number);
    }
}
