/* member_round: the open round, the member's seat in it, and its training and declaration. */
#include "runtime/swarm/member_machine/member_state.h"

enum { REDECLARE_TICKS = 8 }; /* heartbeats before a declaration is first repeated */

uint32_t round_number(const struct member_round *round) {
    ASSERT(round->is_open || round->seat == NO_SEAT);
    return round->is_open ? round->open.round : 0;
}

/* Whether the compute thread has encoded this member's contribution to the round. */
bool round_has_contribution(const struct member_round *round) {
    ASSERT(round->training.round <= round->open.round);
    return round->is_open && round->training.round == round->open.round;
}

static void start_training(struct member_round *round, uint32_t seat, struct actions *actions) {
    ASSERT(round->seat == NO_SEAT && seat < round->open.seat_count);
    const struct entry_seat *own = &round->open.seats[seat];
    round->seat = (int)seat;
    struct action *start_training = actions_add(actions, ACTION_TRAIN);
    start_training->round = round->open.round;
    start_training->commits = round->open.commits;
    start_training->members = round->open.seat_count;
    start_training->time_left_ms = round->open.train_ms;
    start_training->range_count = own->range_count;
    start_training->ranges = own->ranges;
}

void member_open_round(struct member *member, const struct entry *entry, struct actions *actions) {
    struct member_round *round = &member->round;
    ASSERT(entry->kind == ENTRY_OPEN && entry->round > round->open.round);
    ASSERT(!round->is_open && !member->commit.is_pending);
    ASSERT(hash_equal(&entry->root, &member->outer.root));
    round->is_open = true;
    entry_copy(&round->open, entry);
    results_reset(&member->results, entry->round, member->slice_count);
    results_clear_waiting(&member->results, member->slice_count);
    held_clear(&member->held);
    member_requests_clear(member);
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_seat *at = &round->open.seats[seat];
        if (at->session == member->session.id && member_is_self(member, &at->id)) {
            start_training(round, seat, actions);
        }
    }
}

void member_end_round(struct member *member) {
    member->round.is_open = false;
    member->round.seat = NO_SEAT;
    member_clear_table(member);
    proposal_withdraw(&member->proposal);
    job_abandon(&member->job);
    ASSERT(round_number(&member->round) == 0);
}

static void send_signed_declaration(struct member *member, struct actions *actions) {
    struct member_training *training = &member->round.training;
    ASSERT(round_has_contribution(&member->round));
    ASSERT(training->seat == member->round.seat);
    training->ticks_since_declared = 0;
    struct message message = {.kind = MESSAGE_DECLARE,
                              .round = training->round,
                              .trained = training->trained,
                              .root = training->root,
                              .hash = member->round.open.hash};
    member_send(member, NULL, message, actions);
}

static bool needs_declaration(const struct member *member) {
    return round_has_contribution(&member->round) && member->table.version == 0;
}

void member_send_declaration(struct member *member, struct actions *actions) {
    if (needs_declaration(member)) {
        send_signed_declaration(member, actions);
    }
}

void member_repeat_declaration(struct member *member, struct actions *actions) {
    struct member_training *training = &member->round.training;
    if (needs_declaration(member) &&
        ++training->ticks_since_declared >= training->redeclare_ticks) {
        ASSERT(training->redeclare_ticks >= REDECLARE_TICKS);
        training->redeclare_ticks += training->redeclare_ticks;
        send_signed_declaration(member, actions);
    }
}

void member_end_training(const struct member *member, uint32_t round, struct actions *actions) {
    const struct member_round *own = &member->round;
    if (round_number(own) == round && own->seat != NO_SEAT && !round_has_contribution(own)) {
        actions_add(actions, ACTION_END_TRAINING)->round = round;
    }
}

void member_handle_training(struct member *member, const struct event *event,
                            struct actions *actions) {
    struct member_round *round = &member->round;
    if (event->round != round_number(round) || round->seat == NO_SEAT ||
        round_has_contribution(round)) {
        return;
    }
    struct member_training *training = &round->training;
    ASSERT(event->round > training->round);
    ASSERT((uint32_t)round->seat < round->open.seat_count);
    training->round = event->round;
    training->seat = round->seat;
    training->trained = event->trained;
    training->redeclare_ticks = REDECLARE_TICKS;
    training->root = event->root;
    send_signed_declaration(member, actions);
}
