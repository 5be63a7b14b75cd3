/* member_request: sends requests to other members, within a window per member, and repeats
 * unanswered requests. */
#include "runtime/swarm/member_machine/member_state.h"

enum {
    /* minimum timeout of requests, in heartbeats: about the time until a member is silent */
    TIMEOUT_MIN_TICKS = 8,
    /* The wait between two repetitions doubles up to this many heartbeats. */
    TIMEOUT_MAX_TICKS = 64,
    TIMEOUT_FACTOR = 4,        /* The timeout is the slowest answer times this factor. */
    SKETCH_TIMEOUT_FACTOR = 2, /* timeout of sketches, in units of the slowest answer */
    RECONNECT_TICKS = 8,       /* Heartbeats allowed for a closed connection to reconnect. */
};

void member_requests_bind(struct member_requests *requests, char **memory, size_t slice_count) {
    requests->holders = carve(memory, slice_count * sizeof *requests->holders);
    requests->requested_from = carve(memory, slice_count);
    requests->attempts = carve(memory, slice_count);
}

static uint32_t larger_ticks(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

uint32_t member_find_slot(const struct member_requests *requests, uint32_t seat, uint32_t slice) {
    ASSERT(seat < SWARM_MEMBERS_MAX && slice < SWARM_SLICES_MAX);
    uint32_t slot = 0;
    while (slot < CONTRIBUTION_SLOTS_PER_MEMBER && requests->peers[seat].slots[slot] != slice + 1) {
        slot++;
    }
    return slot;
}

void member_free_slot(struct member_requests *requests, uint32_t seat, uint32_t slice) {
    uint32_t slot = member_find_slot(requests, seat, slice);
    ASSERT(slot != NO_SLOT);
    requests->peers[seat].slots[slot] = 0;
}

/* Whether an abandoned SUM or RECHECK still reads slots, perhaps of an earlier round. No slot is
 * reused until that job ends. */
static bool has_abandoned_sum(const struct member_job *job) {
    ASSERT(!job->is_backing_off || job->kind == JOB_NONE);
    return (job->kind == JOB_SUM || job->kind == JOB_RECHECK) && job->is_abandoned;
}

static void end_result_request(struct member_requests *requests, uint32_t slice) {
    uint32_t from = requests->requested_from[slice];
    if (from > 0) {
        ASSERT(from <= SWARM_MEMBERS_MAX && requests->peers[from - 1].open_results > 0);
        requests->peers[from - 1].open_results -= 1;
        requests->requested_from[slice] = 0;
    }
}

void member_clear_slice_requests(struct member *member, uint32_t slice) {
    ASSERT(slice < member->slice_count && slice < SWARM_SLICES_MAX);
    end_result_request(&member->requests, slice);
    if (job_reads_slice(&member->job, slice)) {
        return;
    }
    SEATS_EACH(seat, member->requests.slot_seats) {
        if (member_find_slot(&member->requests, (uint32_t)seat, slice) != NO_SLOT) {
            member_free_slot(&member->requests, (uint32_t)seat, slice);
        }
    }
}

static uint32_t timeout_ticks(const struct member_requests *requests, uint32_t seat) {
    ASSERT(seat < SWARM_MEMBERS_MAX);
    uint32_t slowest = larger_ticks(requests->peers[seat].slowest_ticks, requests->slowest_ticks);
    return larger_ticks(TIMEOUT_MIN_TICKS, TIMEOUT_FACTOR * slowest);
}

uint32_t member_requests_timeout_ticks(const struct member *member) {
    ASSERT(TIMEOUT_MIN_TICKS > 0);
    return larger_ticks(TIMEOUT_MIN_TICKS, SKETCH_TIMEOUT_FACTOR * member->requests.slowest_ticks);
}

void member_requests_free_slots(struct member *member) {
    ASSERT(member->job.kind != JOB_SUM && member_target_entry(member) != NULL);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        memset(member->requests.peers[seat].slots, 0, sizeof member->requests.peers[seat].slots);
    }
    member->requests.slot_seats = 0;
}

void member_mark_seat_answered(struct member *member, uint32_t seat) {
    ASSERT(seat < SWARM_MEMBERS_MAX);
    struct member_requests *requests = &member->requests;
    struct member_peer *peer = &requests->peers[seat];
    uint32_t waited = peer->quiet_ticks < requests->countable_ticks ? peer->quiet_ticks
                                                                    : requests->countable_ticks;
    peer->slowest_ticks = larger_ticks(peer->slowest_ticks, waited);
    peer->quiet_ticks = 0;
    peer->retry_ticks = timeout_ticks(requests, seat);
    ASSERT(peer->retry_ticks >= TIMEOUT_MIN_TICKS);
    peer->away_ticks = 0;
    requests->idle_ticks = 0;
}

void member_mark_message_received(struct member *member) {
    member->requests.ticks_without_message = 0;
}

void member_mark_partial_arrival(struct member *member, const struct identity *id) {
    member_mark_message_received(member);
    int seat = roster_find_seat(member_roster(member), id);
    if (seat != NO_SEAT) {
        member->requests.peers[seat].quiet_ticks = 0;
    }
}

void member_requests_clear_holders(struct member *member) {
    memset(member->requests.holders, 0, member->slice_count * sizeof *member->requests.holders);
}

void member_requests_reset_for_table(struct member *member) {
    ASSERT(member->table.version > 0 && !member->proposal.is_current);
    member->requests.countable_ticks = 0;
    memset(member->requests.attempts, 0, member->slice_count);
    member_requests_clear_holders(member);
}

void member_requests_clear(struct member *member) {
    struct member_requests *requests = &member->requests;
    uint32_t slowest = 0;
    ASSERT(member->job.kind != JOB_SUM || member->job.is_abandoned);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        slowest = larger_ticks(slowest, requests->peers[seat].slowest_ticks);
    }
    requests->slowest_ticks = slowest > 0 ? slowest : requests->slowest_ticks;
    requests->idle_ticks = 0;
    memset(requests->peers, 0, sizeof requests->peers);
    memset(requests->awaited_ms, 0, sizeof requests->awaited_ms);
    requests->awaited_seats = 0;
    requests->slot_seats = 0;
    memset(requests->requested_from, 0, member->slice_count);
    memset(requests->attempts, 0, member->slice_count);
    member_requests_clear_holders(member);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        requests->peers[seat].retry_ticks = timeout_ticks(requests, seat);
    }
}

void member_requests_set_holders(struct member *member, const uint64_t *holders) {
    struct member_requests *requests = &member->requests;
    ASSERT(member->proposal.is_current);
    for (uint32_t s = 0; s < member->slice_count; s++) {
        uint64_t current = holders != NULL ? holders[s] : 0;
        if (current == requests->holders[s]) {
            continue;
        }
        requests->holders[s] = current;
        requests->attempts[s] = 0;
        uint32_t from = requests->requested_from[s];
        if (current != 0 && from > 0 && !seats_contain(current, from - 1)) {
            end_result_request(requests, s);
        }
    }
}

/* Whether the contribution for a slot is requested and has not arrived. */
static bool is_contribution_awaited(const struct member *member, uint32_t seat, uint32_t slot) {
    uint32_t slice = member->requests.peers[seat].slots[slot] - 1;
    ASSERT(slice < member->slice_count);
    return !job_reads_slice(&member->job, slice) &&
           !seats_contain(member->results.reports[slice].received_seats, seat);
}

static bool has_open_request(const struct member *member, uint32_t seat) {
    const struct member_peer *peer = &member->requests.peers[seat];
    ASSERT(peer->open_results <= RESULT_REQUESTS_MAX);
    bool is_open = peer->open_results > 0;
    for (uint32_t slot = 0; slot < CONTRIBUTION_SLOTS_PER_MEMBER; slot++) {
        is_open |= peer->slots[slot] > 0 && is_contribution_awaited(member, seat, slot);
    }
    return is_open;
}

/* Adds the time since the last event to the waits for contributions. This time may include pauses
 * of the process and jumps of the clock, because the tracker uses the median over all members. */
void member_requests_add_waited_time(struct member *member, int64_t now_ms) {
    struct member_requests *requests = &member->requests;
    int64_t passed_ms = now_ms - requests->measured_ms;
    ASSERT(passed_ms >= 0);
    SEATS_EACH(seat, requests->awaited_seats) {
        int64_t total_ms = requests->awaited_ms[seat] + passed_ms;
        requests->awaited_ms[seat] = total_ms < UINT32_MAX ? (uint32_t)total_ms : UINT32_MAX;
    }
    requests->measured_ms = now_ms;
}

void member_requests_update_awaited_seats(struct member *member) {
    struct member_requests *requests = &member->requests;
    requests->awaited_seats = 0;
    SEATS_EACH(seat, requests->slot_seats) {
        for (uint32_t slot = 0; slot < CONTRIBUTION_SLOTS_PER_MEMBER; slot++) {
            bool is_awaited = requests->peers[seat].slots[slot] > 0 &&
                              is_contribution_awaited(member, (uint32_t)seat, slot);
            requests->awaited_seats |= is_awaited ? seat_bit(seat) : 0;
        }
    }
}

/* Treats all requests to a seat as lost, so that they are sent again. */
static void time_out_requests(struct member *member, uint32_t seat) {
    struct member_requests *requests = &member->requests;
    struct member_peer *peer = &requests->peers[seat];
    for (uint32_t slot = 0; slot < CONTRIBUTION_SLOTS_PER_MEMBER; slot++) {
        if (peer->slots[slot] > 0 && is_contribution_awaited(member, seat, slot)) {
            peer->slots[slot] = 0;
        }
    }
    for (uint32_t s = 0; peer->open_results > 0 && s < member->slice_count; s++) {
        if (requests->requested_from[s] == seat + 1) {
            end_result_request(requests, s);
            requests->attempts[s] += 1;
        }
    }
    ASSERT(peer->open_results == 0);
}

/* Whether no result of a commit arrived for longer than any earlier answer took. The member then
 * fetches the state from any member that has it. */
static bool are_results_overdue(const struct member *member, uint32_t seat_count) {
    uint32_t longest = TIMEOUT_MAX_TICKS;
    ASSERT(member->commit.is_pending && !member->commit.has_diverged);
    for (uint32_t seat = 0; seat < seat_count; seat++) {
        longest = larger_ticks(longest, timeout_ticks(&member->requests, seat));
    }
    return member->requests.idle_ticks >= longest && !member_has_all_results(member);
}

/* Counts a tick for all open requests, unless nothing arrives from any member, because this
 * member's own network is then down. If that time counted as the time of an answer, this member
 * would wait four times as long for a lost owner in the next round. */
static void count_tick(struct member_requests *requests) {
    requests->ticks_without_message += requests->ticks_without_message < TIMEOUT_MIN_TICKS;
    bool is_cut_off = requests->ticks_without_message == TIMEOUT_MIN_TICKS;
    requests->countable_ticks = is_cut_off ? 0 : requests->countable_ticks + 1;
}

void member_requests_tick(struct member *member) {
    uint32_t seat_count = member_roster(member)->seat_count;
    ASSERT(seat_count <= SWARM_MEMBERS_MAX);
    count_tick(&member->requests);
    for (uint32_t seat = 0; seat < seat_count; seat++) {
        struct member_peer *peer = &member->requests.peers[seat];
        peer->away_ticks -= peer->away_ticks > 0;
        peer->quiet_ticks = has_open_request(member, seat) ? peer->quiet_ticks + 1 : 0;
        ASSERT(peer->quiet_ticks <= peer->retry_ticks && peer->retry_ticks >= TIMEOUT_MIN_TICKS);
        if (peer->quiet_ticks >= peer->retry_ticks) {
            time_out_requests(member, seat);
            peer->retry_ticks +=
                peer->retry_ticks < TIMEOUT_MAX_TICKS ? peer->retry_ticks : TIMEOUT_MAX_TICKS;
        }
    }
    if (member->commit.is_pending && !member->commit.has_diverged && member->job.kind == JOB_NONE) {
        member->requests.idle_ticks++;
        if (are_results_overdue(member, seat_count)) {
            commit_mark_diverged(&member->commit);
        }
    }
}

/* Withdraws all requests to a seat. The seat did not cause their loss, so its timeout starts again.
 * */
static void withdraw_requests(struct member *member, uint32_t seat) {
    struct member_peer *peer = &member->requests.peers[seat];
    time_out_requests(member, seat);
    peer->quiet_ticks = 0;
    peer->retry_ticks = timeout_ticks(&member->requests, seat);
    ASSERT(!has_open_request(member, seat));
}

void member_withdraw_requests_to_peer(struct member *member, const struct identity *id) {
    int seat = roster_find_seat(member_roster(member), id);
    if (seat != NO_SEAT) {
        ASSERT(member->requests.peers[seat].away_ticks <= RECONNECT_TICKS);
        withdraw_requests(member, (uint32_t)seat);
        member->requests.peers[seat].away_ticks = RECONNECT_TICKS;
    }
}

void member_withdraw_requests_to_unreachable(struct member *member) {
    SEATS_EACH(seat, member_unreachable_seats(&member->session, member_roster(member))) {
        withdraw_requests(member, (uint32_t)seat);
    }
}

/* Returns a slot for a seat's contribution to a slice: a free slot, or the slot of a later
 * slice, because the sums of the lowest slices must be completed first. Returns NO_SLOT if there
 * is none. */
static uint32_t allocate_slot(struct member *member, uint32_t seat, uint32_t slice) {
    const struct member_peer *peer = &member->requests.peers[seat];
    uint32_t latest = NO_SLOT;
    for (uint32_t slot = 0; slot < CONTRIBUTION_SLOTS_PER_MEMBER; slot++) {
        if (peer->slots[slot] == 0) {
            return slot;
        }
        uint32_t other = peer->slots[slot] - 1;
        ASSERT(other != slice && other < member->slice_count);
        if (other > slice && !job_reads_slice(&member->job, other) &&
            (latest == NO_SLOT || peer->slots[latest] < peer->slots[slot])) {
            latest = slot;
        }
    }
    if (latest != NO_SLOT) {
        results_drop_contribution(&member->results, peer->slots[latest] - 1, seat);
    }
    return latest;
}

/* The state of one pass that sends requests for all slices. */
struct request_pass {
    const struct entry *roster; /* entry whose seats the requests go to */
    const struct entry *target; /* entry whose results are requested; NULL: none */
    uint64_t unreachable;       /* Seats that this member cannot connect to. */
    uint64_t ready;             /* Seats that this member may send requests to. */
    uint64_t full;              /* Ready seats whose contribution slots are all in use. */
    uint64_t busy;              /* Seats with RESULT_REQUESTS_MAX open requests for results. */
    struct actions *actions;    /* receives the requests */
};

static void request_contributions(struct member *member, struct request_pass *pass,
                                  uint32_t slice) {
    const struct slice_plan *plan = &member->table.slices[slice];
    uint64_t missing = (plan->expected_seats | plan->optional_seats) &
                       ~member->results.reports[slice].received_seats;
    ASSERT(member->round.is_open && pass->roster == &member->round.open);
    SEATS_EACH(left, missing & pass->ready & ~pass->full) {
        uint32_t seat = (uint32_t)left;
        ASSERT((int)seat != member->round.seat);
        if (member_find_slot(&member->requests, seat, slice) != NO_SLOT) {
            continue;
        }
        uint32_t slot = allocate_slot(member, seat, slice);
        if (slot == NO_SLOT) {
            /* all slots of the seat are used by lower slices, so later slices get no slot either */
            pass->full |= seat_bit(seat);
            continue;
        }
        member->requests.peers[seat].slots[slot] = slice + 1;
        member->requests.slot_seats |= seat_bit(seat);
        struct message message = {.kind = MESSAGE_FETCH_CONTRIBUTION,
                                  .round = member->round.open.round,
                                  .slice = slice,
                                  .epoch = plan->epoch};
        member_send(member, &member->round.open.seats[seat].id, message, pass->actions);
    }
}

/* Returns the seat to request a slice's result from: first the owner of the slice, then the seats
 * that have the result according to the proposal, then all other seats. Each member starts with a
 * different one of these seats, and tries the owner again once in each pass. Before the proposal,
 * only the owner is asked, unless this member cannot connect to it: if the owner fails, the tracker
 * names another seat. */
static int choose_source(const struct member *member, const struct request_pass *pass,
                         uint32_t slice, uint32_t owner) {
    ASSERT((pass->ready & pass->unreachable) == 0);
    ASSERT(pass->target == NULL || owner < pass->target->seat_count);
    uint64_t holders = member->requests.holders[slice];
    uint64_t others = pass->ready & ~seat_bit(owner);
    uint32_t attempts = member->requests.attempts[slice];
    bool is_owner_ready = seats_contain(pass->ready, owner);
    bool may_use_others = pass->target != NULL || seats_contain(pass->unreachable, owner);
    if (!may_use_others) {
        return is_owner_ready ? (int)owner : NO_SEAT;
    }
    if ((holders & others) != 0 && attempts <= seats_count(holders & others)) {
        others &= holders;
    }
    uint32_t count = seats_count(others);
    ASSERT(count < SWARM_MEMBERS_MAX);
    bool is_only_elsewhere = attempts == 0 && holders != 0 && !seats_contain(holders, owner);
    if (is_owner_ready && (count == 0 || (attempts % (count + 1) == 0 && !is_only_elsewhere))) {
        return (int)owner;
    }
    uint32_t skip = count > 0 ? (attempts + slice + member->id.bytes[0]) % count : 0;
    for (; skip > 0; skip--) {
        others &= others - 1;
    }
    return count > 0 ? (int)seats_find_lowest(others) : NO_SEAT;
}

/* Returns the seat of this member as a mask, if the sender of a result of the pass need not repeat
 * this member's own contribution. */
static uint64_t find_left_out(const struct member *member, const struct request_pass *pass) {
    const bool has_own = member->sent_values > 0 && round_has_contribution(&member->round) &&
                         member->round.seat != NO_SEAT &&
                         pass->roster->round == round_number(&member->round);
    return has_own ? seat_bit((uint32_t)member->round.seat) : 0;
}

static void request_result(struct member *member, struct request_pass *pass, uint32_t slice) {
    struct member_requests *requests = &member->requests;
    ASSERT(member->results.reports[slice].has_result == 0);
    struct message message = {
        .kind = MESSAGE_FETCH_RESULT, .round = pass->roster->round, .slice = slice};
    const struct slice_plan *plan = &member->table.slices[slice];
    uint64_t contributors = plan->expected_seats | plan->optional_seats;
    uint32_t owner = plan->owner;
    message.epoch = plan->epoch;
    if (pass->target != NULL) {
        contributors = pass->target->slices[slice].contributors;
        owner = pass->target->slices[slice].owner;
        message.epoch = pass->target->slices[slice].epoch;
        message.hash = pass->target->slices[slice].hash;
    }
    message.values.left_out = find_left_out(member, pass);
    message.values.expected = seats_count(contributors & ~message.values.left_out);
    int seat = choose_source(member, pass, slice, owner);
    if (seat == NO_SEAT || requests->peers[seat].open_results >= RESULT_REQUESTS_MAX) {
        return;
    }
    ASSERT(seats_contain(pass->ready, (uint32_t)seat) && requests->requested_from[slice] == 0);
    requests->peers[seat].open_results += 1;
    bool is_busy = requests->peers[seat].open_results >= RESULT_REQUESTS_MAX;
    pass->busy |= is_busy ? seat_bit((uint32_t)seat) : 0;
    requests->requested_from[slice] = (uint8_t)(seat + 1);
    member_send(member, &pass->roster->seats[seat].id, message, pass->actions);
}

/* Whether a further request may be sent. In a large exchange all requests are usually open, and
 * the pass over the slices then ends. */
static bool may_request(const struct request_pass *pass) {
    return (pass->ready & ~(pass->full & pass->busy)) != 0;
}

void member_send_requests(struct member *member, struct actions *actions) {
    const struct entry *target = member_target_entry(member);
    if (member->commit.is_pending ? member->commit.has_diverged
                                  : target == NULL && member->table.version == 0) {
        return;
    }
    struct request_pass pass = {.roster = member_roster(member), .target = target};
    ASSERT(target == NULL || (pass.roster == target && target->slice_count == member->slice_count));
    pass.actions = actions;
    pass.unreachable = member_unreachable_seats(&member->session, pass.roster);
    for (uint32_t seat = 0; seat < pass.roster->seat_count; seat++) {
        bool is_other = !member_is_self(member, &pass.roster->seats[seat].id);
        bool is_away = member->requests.peers[seat].away_ticks > 0;
        bool is_busy = member->requests.peers[seat].open_results >= RESULT_REQUESTS_MAX;
        pass.ready |= is_other && !is_away ? seat_bit(seat) : 0;
        pass.busy |= is_busy ? seat_bit(seat) : 0;
    }
    pass.ready &= ~pass.unreachable;
    ASSERT((pass.ready & ~roster_seats(pass.roster)) == 0);
    pass.full = target != NULL || has_abandoned_sum(&member->job) ? UINT64_MAX : 0;
    for (uint32_t s = member->results.first_open; s < member->slice_count && may_request(&pass);
         s++) {
        if (member->results.reports[s].has_result != 0 || job_reads_slice(&member->job, s)) {
            continue;
        }
        if (target == NULL && (int)member->table.slices[s].owner == member->round.seat) {
            request_contributions(member, &pass, s);
        } else if (member->requests.requested_from[s] == 0 && (pass.ready & ~pass.busy) != 0) {
            request_result(member, &pass, s);
        }
    }
}
