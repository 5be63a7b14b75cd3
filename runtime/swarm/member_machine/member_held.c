/* member_held: answers requests for this member's contribution, and holds those that arrive before
 * the table. */
#include "runtime/swarm/member_machine/member_state.h"

static void hold_request(struct held_requests *requests, const struct message *request) {
    const struct held_request row = {.slice = request->slice + 1, .epoch = request->epoch};
    for (uint32_t i = 0; i < CONTRIBUTION_SLOTS_PER_MEMBER; i++) {
        if (requests->rows[i].slice == row.slice) {
            requests->rows[i] = row;
            return;
        }
    }
    ASSERT(requests->next < CONTRIBUTION_SLOTS_PER_MEMBER);
    requests->rows[requests->next] = row;
    requests->next = (requests->next + 1) % CONTRIBUTION_SLOTS_PER_MEMBER;
}

/* Sends a contribution. The receiver checks the contribution against its own table, which may be
 * newer than this member's table. */
static void send_contribution(const struct member *member, uint32_t seat, uint32_t slice,
                              uint32_t epoch, struct actions *actions) {
    const struct member_round *round = &member->round;
    ASSERT(round->training.seat == round->seat && round->seat != NO_SEAT);
    ASSERT(member->table.version > 0 && seat < round->open.seat_count);
    struct message reply = {
        .kind = MESSAGE_CONTRIBUTION, .round = round->open.round, .slice = slice, .epoch = epoch};
    member_send(member, &round->open.seats[seat].id, reply, actions);
}

/* Answers a request for a contribution, which any member of the round may send. */
void member_handle_contribution_request(struct member *member, const struct message *request,
                                        struct actions *actions) {
    const struct member_round *round = &member->round;
    const int seat = roster_find_seat(&round->open, &request->from);
    ASSERT(request->slice < member->slice_count);
    if (!round->is_open || request->round != round->open.round || seat == NO_SEAT) {
        return;
    }
    if (member->table.version == 0) {
        hold_request(&member->held.seats[seat], request);
    } else if (round_has_contribution(round)) {
        send_contribution(member, (uint32_t)seat, request->slice, request->epoch, actions);
    }
}

void member_answer_held_requests(struct member *member, struct actions *actions) {
    const bool has_trained = round_has_contribution(&member->round);
    for (uint32_t seat = 0; seat < member->round.open.seat_count; seat++) {
        for (uint32_t i = 0; i < CONTRIBUTION_SLOTS_PER_MEMBER; i++) {
            const struct held_request *row = &member->held.seats[seat].rows[i];
            if (row->slice > 0 && has_trained) {
                send_contribution(member, seat, row->slice - 1, row->epoch, actions);
            }
        }
    }
    held_clear(&member->held);
}

void held_clear(struct member_held *held) {
    *held = (struct member_held){0};
}
