/* member_check: checks the sums of a proposal before this member votes for it. It collects the
 * signed sketches of all contributors, and audits a slice whose sketch does not match. */
#include "runtime/swarm/member_machine/member_state.h"

enum {
    REPEAT_TICKS = 4,   /* heartbeats before a request is repeated */
    OPTIONAL_TICKS = 4, /* heartbeats to wait for sketches of members that no owner waits for */
};

void member_check_init(struct member_check *check, bool has_sketches) {
    check->has_sketches = has_sketches;
}

static uint32_t page_count(const struct member *member) {
    ASSERT(member->slice_count <= SWARM_SLICES_MAX);
    return (member->slice_count + SKETCH_PAGE_SLICES - 1) / SKETCH_PAGE_SLICES;
}

static bool has_all_pages(const struct member *member, uint32_t seat) {
    ASSERT(seat < SWARM_MEMBERS_MAX && page_count(member) <= SKETCH_PAGES_MAX);
    return member->check.pages[seat] == (1U << page_count(member)) - 1;
}

bool member_is_checking(const struct member *member) {
    return member->proposal.is_current && !member->proposal.vote.is_ready &&
           !member->commit.is_pending;
}

bool member_is_contributor(const struct member *member) {
    return round_has_contribution(&member->round) && member->round.seat != NO_SEAT;
}

/* ---- sketches ---- */

/* Returns the hash of the proposal's content, so that no two proposals share sketches, and of
 * random bytes that were drawn after the results were computed. */
static struct hash compute_sketch_seed(const struct message *proposal) {
    static const char DOMAIN[] = "skep sketches";
    const struct hash content = entry_hash(proposal->entry);
    struct hash_state state;
    ASSERT(proposal->kind == MESSAGE_PROPOSE);
    hash_begin(&state);
    hash_add(&state, DOMAIN, sizeof DOMAIN);
    hash_add(&state, content.bytes, HASH_BYTES);
    hash_add(&state, &proposal->number, sizeof proposal->number);
    hash_add(&state, proposal->ballot.seed.bytes, HASH_BYTES);
    return hash_end(&state);
}

/* Returns the other seats that contribute with a weight above 0 to at least one slice. */
static uint64_t find_needed_seats(const struct member *member) {
    const struct entry *entry = &member->proposal.entry;
    uint64_t seats = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        seats |= entry->slices[s].contributors;
    }
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        bool is_own = (int)seat == member->round.seat;
        seats &= is_own || entry->members[seat].weight == 0 ? ~seat_bit(seat) : UINT64_MAX;
    }
    ASSERT((seats & ~roster_seats(entry)) == 0);
    return seats;
}

static void request_sketches(struct member *member, struct actions *actions) {
    const struct member_check *check = &member->check;
    const struct entry *roster = &member->proposal.entry;
    uint64_t ready = ~member_unreachable_seats(&member->session, roster);
    SEATS_EACH(seat, check->needed_seats & ready) {
        for (uint32_t page = 0; page < page_count(member); page++) {
            if ((check->pages[seat] >> page & 1) != 0) {
                continue;
            }
            ASSERT((int)seat != member->round.seat);
            struct message message = {.kind = MESSAGE_FETCH_SKETCHES,
                                      .round = roster->round,
                                      .slice = page * SKETCH_PAGE_SLICES,
                                      .ballot.seed = check->seed};
            member_send(member, &roster->seats[seat].id, message, actions);
        }
    }
}

void member_check_begin(struct member *member, const struct message *proposal,
                        struct actions *actions) {
    struct member_check *check = &member->check;
    ASSERT(member->proposal.is_current);
    *check = (struct member_check){.has_sketches = check->has_sketches,
                                   .seed = compute_sketch_seed(proposal),
                                   .late_sketches = check->late_sketches};
    if (check->has_sketches) {
        check->needed_seats = find_needed_seats(member);
        request_sketches(member, actions);
    }
    member_audit_plan(member, proposal->ballot.recheck, actions);
}

static void send_sketches(const struct member *member, uint32_t seat, uint32_t slice,
                          struct actions *actions) {
    ASSERT(member->check.has_own_sketches && slice < member->slice_count);
    struct message message = {.kind = MESSAGE_SKETCHES,
                              .round = member->proposal.entry.round,
                              .slice = slice,
                              .ballot.seed = member->check.seed};
    member_send(member, &member->proposal.entry.seats[seat].id, message, actions);
}

void member_handle_sketch_request(struct member *member, const struct message *message,
                                  struct actions *actions) {
    struct member_check *check = &member->check;
    int seat = roster_find_seat(&member->round.open, &message->from);
    if (!check->has_sketches || !member->proposal.is_current || seat == NO_SEAT ||
        message->round != member->proposal.entry.round || message->slice >= member->slice_count ||
        message->slice % SKETCH_PAGE_SLICES != 0 ||
        !hash_equal(&message->ballot.seed, &check->seed)) {
        return;
    }
    ASSERT(member->round.is_open);
    if (check->has_own_sketches) {
        send_sketches(member, (uint32_t)seat, message->slice, actions);
    } else {
        check->waiting_seats |= seat_bit((uint32_t)seat);
    }
}

/* Handles the end of a SKETCH job, which has computed this member's own sketches. */
void member_handle_sketched(struct member *member, struct actions *actions) {
    struct member_check *check = &member->check;
    ASSERT(member->proposal.is_current && !check->has_own_sketches);
    check->has_own_sketches = true;
    SEATS_EACH(seat, check->waiting_seats) {
        for (uint32_t page = 0; page < page_count(member); page++) {
            send_sketches(member, (uint32_t)seat, page * SKETCH_PAGE_SLICES, actions);
        }
    }
    check->waiting_seats = 0;
}

/* Handles a page of sketches. While a job reads sketches, received sketches are dropped, even those
 * of a newer proposal. */
void member_handle_sketches(struct member *member, const struct message *message,
                            struct actions *actions) {
    struct member_check *check = &member->check;
    enum job_kind job = member->job.kind;
    if (!member_is_checking(member) || !hash_equal(&message->ballot.seed, &check->seed) ||
        message->round != member->proposal.entry.round || job == JOB_CHECK || job == JOB_RECHECK ||
        message->slice >= member->slice_count || message->slice % SKETCH_PAGE_SLICES != 0) {
        return;
    }
    int seat = roster_find_seat(&member->round.open, &message->from);
    uint32_t page = message->slice / SKETCH_PAGE_SLICES;
    if (seat == NO_SEAT || !seats_contain(check->needed_seats, (uint32_t)seat) ||
        (check->pages[seat] >> page & 1) != 0 ||
        seats_contain(check->missing_seats, (uint32_t)seat)) {
        return;
    }
    ASSERT(page < SKETCH_PAGES_MAX && seat != member->round.seat);
    check->pages[seat] |= (uint8_t)(1U << page);
    check->waited_ticks = 0;
    actions_add(actions, ACTION_KEEP_BYTES)->seat = seat;
}

/* ---- jobs ---- */

static uint64_t find_seats_without_sketches(const struct member *member) {
    uint64_t missing = 0;
    SEATS_EACH(seat, member->check.needed_seats) {
        missing |= has_all_pages(member, (uint32_t)seat) ? 0 : seat_bit(seat);
    }
    ASSERT((missing & ~member->check.needed_seats) == 0);
    return missing;
}

/* Returns the seats whose sketches did not arrive in time for an earlier proposal, and that have
 * sent no sketches since. */
static uint64_t find_earlier_silent_seats(const struct member *member) {
    const struct member_late_sketches *late_sketches = &member->check.late_sketches;
    uint64_t seats = 0;
    for (uint32_t i = 0; i < late_sketches->count; i++) {
        int seat = roster_find_seat(&member->proposal.entry, &late_sketches->ids[i]);
        seats |= seat != NO_SEAT ? seat_bit((uint32_t)seat) : 0;
    }
    return seats;
}

static struct action *start_check_job(struct member *member, enum job_kind kind,
                                      struct actions *actions) {
    const struct member_check *check = &member->check;
    ASSERT(member->proposal.is_current && check->next_slice < member->slice_count);
    struct action *action = job_start(&member->job, kind, actions);
    action->entry = &member->proposal.entry;
    action->slice = check->next_slice;
    action->seat = member_is_contributor(member) ? member->round.seat : NO_SEAT;
    action->seed = check->seed;
    action->silent = check->missing_seats;
    if (action->seat == NO_SEAT && member->round.seat != NO_SEAT) {
        action->silent |= seat_bit((uint32_t)member->round.seat);
    }
    return action;
}

/* Whether this member no longer waits for the missing sketches. */
static bool has_waited_enough(const struct member *member, uint64_t missing) {
    const struct member_check *check = &member->check;
    uint64_t unreachable = member_unreachable_seats(&member->session, &member->proposal.entry);
    uint64_t late = member->optional_seats;
    late &= check->waited_ticks >= OPTIONAL_TICKS ? UINT64_MAX : find_earlier_silent_seats(member);
    return (missing & ~(check->silent_seats | unreachable | late)) == 0;
}

bool member_check_start_job(struct member *member, struct actions *actions) {
    struct member_check *check = &member->check;
    if (!member->proposal.is_current) {
        return false;
    }
    if (check->has_sketches && !check->has_own_sketches && member_is_contributor(member)) {
        (void)start_check_job(member, JOB_SKETCH, actions);
        return true;
    }
    if (!member_is_checking(member) || !member->proposal.vote.is_stored) {
        return false;
    }
    if (member->audit.is_active) {
        const bool has_all = member_audit_has_all_contributions(&member->audit);
        if (has_all) {
            member_audit_fill_job(member, start_check_job(member, JOB_RECHECK, actions));
        }
        return has_all;
    }
    ASSERT(check->has_sketches);
    uint64_t missing = find_seats_without_sketches(member);
    if (!has_waited_enough(member, missing)) {
        return false;
    }
    check->missing_seats = missing;
    (void)start_check_job(member, JOB_CHECK, actions);
    return true;
}

/* Stores which members sent no sketches in time, until their sketches arrive in time again. */
static void remember_silence(struct member *member) {
    const struct entry *roster = &member->proposal.entry;
    const struct member_late_sketches before = member->check.late_sketches;
    struct member_late_sketches *late_sketches = &member->check.late_sketches;
    late_sketches->count = 0;
    SEATS_EACH(seat, member->check.missing_seats) {
        late_sketches->ids[late_sketches->count++] = roster->seats[seat].id;
    }
    for (uint32_t i = 0; i < before.count && late_sketches->count < SWARM_MEMBERS_MAX; i++) {
        int seat = roster_find_seat(roster, &before.ids[i]);
        if (seat == NO_SEAT || !seats_contain(member->check.needed_seats, (uint32_t)seat)) {
            late_sketches->ids[late_sketches->count++] = before.ids[i];
        }
    }
    ASSERT(late_sketches->count <= SWARM_MEMBERS_MAX);
}

void member_check_end(struct member *member, enum refusal_reason reason, uint32_t suspect,
                      struct actions *actions) {
    const struct message_refusal refusal = {.reason = reason,
                                            .suspect = suspect,
                                            .silent_seats = member->check.silent_seats,
                                            .opposed_seats = member->check.opposed_seats};
    ASSERT(suspect < SWARM_MEMBERS_MAX && reason < REFUSAL_REASONS);
    remember_silence(member);
    member_end_check(member, &refusal, actions);
}

/* Called when all sketches match: begins a planned audit, or else ends the check. */
static void pass_sketches(struct member *member, struct actions *actions) {
    if (!member_audit_start_planned(member, actions)) {
        member_check_end(member, REFUSAL_NONE, 0, actions);
    }
}

void member_check_on_results_stored(struct member *member, struct actions *actions) {
    ASSERT(member->proposal.vote.is_stored && !member->proposal.vote.is_ready);
    if (!member->check.has_sketches) {
        pass_sketches(member, actions);
    }
}

/* Handles the end of a CHECK job: starts an audit of the slice whose sketches do not match.
 * slice_count: all slices match. */
void member_handle_checked(struct member *member, uint32_t slice, uint64_t opposed,
                           struct actions *actions) {
    ASSERT(slice <= member->slice_count && slice >= member->check.next_slice);
    if (slice == member->slice_count) {
        member->check.opposed_seats = opposed;
        pass_sketches(member, actions);
    } else {
        member_audit_start(member, slice, actions);
    }
}

/* Continues the check after a slice whose sketch does not match although all statements about it
 * are true, because its values are unusual. */
void member_check_pass_slice(struct member *member, uint32_t slice, struct actions *actions) {
    ASSERT(member_is_checking(member) && slice < member->slice_count);
    if (slice + 1 == member->slice_count) {
        pass_sketches(member, actions);
    } else {
        member->check.next_slice = slice + 1;
    }
}

/* ---- time ---- */

/* Counts the wait for sketches, which begins when this member has nothing else to do for its
 * vote. The wait is short for members whose sketches did not arrive in time for an earlier
 * proposal. */
void member_check_tick(struct member *member, struct actions *actions) {
    struct member_check *check = &member->check;
    if (!member_is_checking(member)) {
        return;
    }
    member_audit_tick(member, actions);
    if (member->audit.is_active || !check->has_sketches || !member_is_checking(member)) {
        return;
    }
    check->ticks++;
    if (check->ticks % REPEAT_TICKS == 0) {
        request_sketches(member, actions);
    }
    check->waited_ticks += member->job.kind == JOB_NONE && member->proposal.vote.is_stored;
    uint64_t overdue = check->waited_ticks > member_requests_timeout_ticks(member) ? UINT64_MAX
                       : check->waited_ticks > REPEAT_TICKS ? find_earlier_silent_seats(member)
                                                            : 0;
    check->silent_seats |= find_seats_without_sketches(member) & overdue & ~member->optional_seats &
                           ~member_unreachable_seats(&member->session, &member->proposal.entry);
    ASSERT((check->silent_seats & ~check->needed_seats) == 0);
}
