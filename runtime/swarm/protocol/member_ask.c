/* member_request: what is asked of whom: windows of contributions and results, and asking again. */
#include "runtime/swarm/protocol/member_state.h"

#include <string.h>

enum {
    PATIENCE_LEAST = 8,  /* heartbeats: what the tracker takes to suspect somebody, or a bit more */
    PATIENCE_MOST = 64,  /* asking again, twice as late each time, ends here, or where that is */
    PATIENCE_FACTOR = 4, /* of the slowest that came */
    AWAY_HEARTBEATS = 8, /* a broken channel stands again by then, or is asked again in vain */
};

static uint64_t seat_bit(uint32_t seat) {
    return UINT64_C(1) << seat;
}

static uint32_t more(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

uint32_t member_slot(const struct member *member, uint32_t seat, uint32_t slice) {
    uint32_t slot = 0;
    while (slot < CONTRIBUTION_SLOTS_PER_MEMBER && member->peers[seat].slots[slot] != slice + 1) {
        slot++;
    }
    return slot;
}

/* Its contributions are being read. */
static int is_under_way(const struct member *member, uint32_t slice) {
    return member->job != 0 && member->job_kind == ACTION_SUM && member->job_slice == slice;
}

/* A sum that nobody wants any more still reads slots, perhaps of an earlier round, which are given
 * to nobody until it ends. */
static int reads_others(const struct member *member) {
    return member->job != 0 && member->job_kind == ACTION_SUM && member->job_is_void;
}

static void free_result(struct member *member, uint32_t slice) {
    if (member->asked[slice] > 0) {
        member->peers[member->asked[slice] - 1].results -= 1;
        member->asked[slice] = 0;
    }
}

void member_free_slice(struct member *member, uint32_t slice) {
    free_result(member, slice);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX && !is_under_way(member, slice); seat++) {
        uint32_t slot = member_slot(member, seat, slice);
        if (slot != NO_SLOT) {
            member->peers[seat].slots[slot] = 0;
        }
    }
}

static uint32_t patience(const struct member *member, uint32_t seat) {
    uint32_t slowest = more(member->peers[seat].slowest, member->slowest);
    return more(PATIENCE_LEAST, PATIENCE_FACTOR * slowest);
}

void member_note_arrival(struct member *member, uint32_t seat) {
    struct member_peer *peer = &member->peers[seat];
    uint32_t waited = peer->quiet < member->settled ? peer->quiet : member->settled;
    peer->slowest = more(peer->slowest, waited);
    peer->quiet = 0;
    peer->due = patience(member, seat);
    peer->away = 0;
    member->idle = 0;
}

void member_note_arriving(struct member *member, const struct identity *id) {
    int seat = member_seat_of(member_roster(member), id);
    if (seat != NO_SEAT) {
        member->peers[seat].quiet = 0;
    }
}

void member_request_clear(struct member *member) {
    uint32_t slowest = 0;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        slowest = more(slowest, member->peers[seat].slowest);
    }
    member->slowest = slowest > 0 ? slowest : member->slowest;
    member->idle = 0;
    memset(member->peers, 0, sizeof(member->peers));
    memset(member->asked, 0, member->slice_count);
    memset(member->turns, 0, member->slice_count);
    memset(member->holders, 0, member->slice_count * sizeof(*member->holders));
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        member->peers[seat].due = patience(member, seat);
    }
}

void member_request_set_holders(struct member *member, const uint64_t *holders) {
    for (uint32_t s = 0; s < member->slice_count; s++) {
        uint64_t now = holders != NULL ? holders[s] : 0;
        if (now == member->holders[s]) {
            continue;
        }
        member->holders[s] = now;
        member->turns[s] = 0;
        if (now != 0 && member->asked[s] > 0 && (now & seat_bit(member->asked[s] - 1u)) == 0) {
            free_result(member, s);
        }
    }
}

/* Whether a slot's contribution has not come. */
static int is_awaited(const struct member *member, uint32_t seat, uint32_t slot) {
    uint32_t slice = member->peers[seat].slots[slot] - 1;
    return !is_under_way(member, slice) && (member->reports[slice].received & seat_bit(seat)) == 0;
}

static int is_asked_anything(const struct member *member, uint32_t seat) {
    const struct member_peer *peer = &member->peers[seat];
    int asked = peer->results > 0;
    for (uint32_t slot = 0; slot < CONTRIBUTION_SLOTS_PER_MEMBER; slot++) {
        asked |= peer->slots[slot] > 0 && is_awaited(member, seat, slot);
    }
    return asked;
}

/* What is asked of a seat counts as lost. */
static void give_up(struct member *member, uint32_t seat) {
    struct member_peer *peer = &member->peers[seat];
    for (uint32_t slot = 0; slot < CONTRIBUTION_SLOTS_PER_MEMBER; slot++) {
        if (peer->slots[slot] > 0 && is_awaited(member, seat, slot)) {
            peer->slots[slot] = 0;
        }
    }
    for (uint32_t s = 0; peer->results > 0 && s < member->slice_count; s++) {
        if (member->asked[s] == seat + 1) {
            free_result(member, s);
            member->turns[s] += 1;
        }
    }
}

/* No result of a commit came for long, however long it took before: the state itself is asked for,
 * of whoever stands on it. */
static int is_in_vain(struct member *member, uint32_t seat_count) {
    uint32_t longest = PATIENCE_MOST;
    for (uint32_t seat = 0; seat < seat_count; seat++) {
        longest = more(longest, patience(member, seat));
    }
    return ++member->idle >= longest && !member_has_all_results(member);
}

void member_request_tick(struct member *member) {
    uint32_t seat_count = member_roster(member)->seat_count;
    member->settled++;
    for (uint32_t seat = 0; seat < seat_count; seat++) {
        struct member_peer *peer = &member->peers[seat];
        peer->away -= peer->away > 0;
        peer->quiet = is_asked_anything(member, seat) ? peer->quiet + 1 : 0;
        if (peer->quiet >= peer->due) {
            give_up(member, seat);
            peer->due += peer->due < PATIENCE_MOST ? peer->due : PATIENCE_MOST;
        }
    }
    if (member->has_commit && !member->is_astray && member->job == 0) {
        member->is_astray = is_in_vain(member, seat_count);
    }
}

void member_request_peer_closed(struct member *member, const struct identity *id) {
    int seat = member_seat_of(member_roster(member), id);
    if (seat != NO_SEAT) {
        give_up(member, (uint32_t)seat);
        member->peers[seat].quiet = 0;
        member->peers[seat].due = patience(member, (uint32_t)seat);
        member->peers[seat].away = AWAY_HEARTBEATS;
    }
}

void member_request_skip_unreachable(struct member *member) {
    uint64_t cut = member_unreachable_seats(member, member_roster(member));
    for (; cut != 0; cut &= cut - 1) {
        uint32_t seat = (uint32_t)__builtin_ctzll(cut);
        give_up(member, seat);
        member->peers[seat].quiet = 0;
        member->peers[seat].due = patience(member, seat);
    }
}

/* Room for a slice's contribution of a seat: a free slot, or that of a later slice, for the lowest
 * slices must come or no sum is ever complete. NO_SLOT: none. */
static uint32_t find_room(struct member *member, uint32_t seat, uint32_t slice) {
    struct member_peer *peer = &member->peers[seat];
    uint32_t latest = NO_SLOT;
    for (uint32_t slot = 0; slot < CONTRIBUTION_SLOTS_PER_MEMBER; slot++) {
        if (peer->slots[slot] == 0) {
            return slot;
        }
        uint32_t other = peer->slots[slot] - 1;
        if (other > slice && !is_under_way(member, other) &&
            (latest == NO_SLOT || peer->slots[latest] < peer->slots[slot])) {
            latest = slot;
        }
    }
    if (latest != NO_SLOT) {
        member->reports[peer->slots[latest] - 1].received &= ~seat_bit(seat);
    }
    return latest;
}

/* One look at all slices. */
struct asking {
    const struct entry *roster;
    const struct entry *wanted; /* NULL: none */
    uint64_t cut;               /* seats that do not answer */
    uint64_t ready;             /* seats that may be asked at all */
    uint64_t full;              /* of these, without room for another contribution */
    struct actions *actions;
};

static void ask_contributions(struct member *member, struct asking *asking, uint32_t slice) {
    const struct slice_plan *plan = &member->table.slices[slice];
    uint64_t missing = plan->expected & ~member->reports[slice].received;
    missing &= asking->ready & ~asking->full;
    for (; missing != 0; missing &= missing - 1) {
        uint32_t seat = (uint32_t)__builtin_ctzll(missing);
        if (member_slot(member, seat, slice) != NO_SLOT) {
            continue;
        }
        uint32_t slot = find_room(member, seat, slice);
        if (slot == NO_SLOT) {
            asking->full |= seat_bit(seat); /* of slices before this one, and so for all behind */
            continue;
        }
        member->peers[seat].slots[slot] = slice + 1;
        struct message message = {.kind = MESSAGE_FETCH_CONTRIBUTION,
                                  .round = member->round,
                                  .slice = slice,
                                  .epoch = plan->epoch};
        member_send(member, &member->open.seats[seat].id, message, asking->actions);
    }
}

static uint32_t count_of(uint64_t seats) {
    return (uint32_t)__builtin_popcountll(seats);
}

/* Whom to ask for a slice's result: its owner, who will have it; in vain, those of whom the
 * proposal says that they hold it, then anybody, each member beginning with another, and the owner
 * again after each turn around. Who was cut off silently still looks as if it could be asked.
 * Before the proposal nobody but the owner: the tracker finds out who has it, or who sums it; but
 * if the owner is there for others, they will have it too. */
static int whom_to_ask(const struct member *member, const struct asking *asking, uint32_t slice,
                       uint32_t owner) {
    uint64_t holders = member->holders[slice];
    uint64_t others = asking->ready & ~seat_bit(owner);
    uint32_t turn = member->turns[slice];
    int is_owned = (asking->ready & seat_bit(owner)) != 0;
    int is_there = asking->wanted != NULL || (asking->cut & seat_bit(owner)) != 0;
    if (!is_there) {
        return is_owned ? (int)owner : NO_SEAT;
    }
    if ((holders & others) != 0 && turn <= count_of(holders & others)) {
        others &= holders;
    }
    uint32_t count = count_of(others);
    int is_elsewhere = turn == 0 && holders != 0 && (holders & seat_bit(owner)) == 0;
    if (is_owned && (count == 0 || (turn % (count + 1) == 0 && !is_elsewhere))) {
        return (int)owner;
    }
    uint32_t skip = count > 0 ? (turn + slice + member->id.bytes[0]) % count : 0;
    for (; skip > 0; skip--) {
        others &= others - 1;
    }
    return count > 0 ? __builtin_ctzll(others) : NO_SEAT;
}

static void ask_result(struct member *member, struct asking *asking, uint32_t slice) {
    struct message message = {
        .kind = MESSAGE_FETCH_RESULT, .round = asking->roster->round, .slice = slice};
    uint32_t owner = member->table.slices[slice].owner;
    message.epoch = member->table.slices[slice].epoch;
    if (asking->wanted != NULL) {
        owner = asking->wanted->slices[slice].owner;
        message.epoch = asking->wanted->slices[slice].epoch;
        message.hash = asking->wanted->slices[slice].hash;
    }
    int seat = whom_to_ask(member, asking, slice, owner);
    if (seat == NO_SEAT || member->peers[seat].results >= RESULT_REQUESTS_MAX) {
        return;
    }
    member->peers[seat].results += 1;
    member->asked[slice] = (uint8_t)(seat + 1);
    member_send(member, &asking->roster->seats[seat].id, message, asking->actions);
}

void member_request(struct member *member, struct actions *actions) {
    const struct entry *wanted = member_target_entry(member);
    if (member->has_commit ? member->is_astray : wanted == NULL && member->table.version == 0) {
        return;
    }
    struct asking asking = {member_roster(member), wanted, 0, 0, 0, actions};
    asking.cut = member_unreachable_seats(member, asking.roster);
    for (uint32_t seat = 0; seat < asking.roster->seat_count; seat++) {
        int is_other = !member_is_self(member, &asking.roster->seats[seat].id);
        asking.ready |= is_other && member->peers[seat].away == 0 ? seat_bit(seat) : 0;
    }
    asking.ready &= ~asking.cut;
    asking.full = reads_others(member) ? UINT64_MAX : 0;
    for (uint32_t s = 0; s < member->slice_count; s++) {
        if (member->reports[s].held || is_under_way(member, s)) {
            continue;
        }
        if (wanted == NULL && (int)member->table.slices[s].owner == member->seat) {
            ask_contributions(member, &asking, s);
        } else if (member->asked[s] == 0) {
            ask_result(member, &asking, s);
        }
    }
}
