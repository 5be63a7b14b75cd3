/* member_check: checks the sums of a proposal before this member votes for it. It collects the
 * signed sketches of all contributors, and computes a sum again whose sketch does not match. */
#include "runtime/swarm/member_machine/member_state.h"

enum {
    REPEAT_TICKS = 4,   /* heartbeats before a request is repeated */
    OPTIONAL_TICKS = 4, /* wait for the sketches of members that no owner waits for */
};

void member_check_init(struct member_check *check, bool is_enabled) {
    check->is_enabled = is_enabled;
}

static uint32_t page_count(const struct member *member) {
    ASSERT(member->slice_count <= SWARM_SLICES_MAX);
    return (member->slice_count + SKETCH_PAGE_SLICES - 1) / SKETCH_PAGE_SLICES;
}

static bool has_all_pages(const struct member *member, uint32_t seat) {
    ASSERT(seat < SWARM_MEMBERS_MAX && page_count(member) <= SKETCH_PAGES_MAX);
    return member->check.pages[seat] == (1U << page_count(member)) - 1;
}

/* Whether the check of the current proposal is in progress. */
static bool is_checking(const struct member *member) {
    return member->check.is_enabled && member->proposal.is_current &&
           !member->proposal.vote.is_ready && !member->commit.is_pending;
}

static bool is_contributor(const struct member *member) {
    return round_has_trained(&member->round) && member->round.seat != NO_SEAT;
}

/* ---- sketches ---- */

/* The seed covers the content of the proposal, so that no two proposals share sketches, and random
 * bytes that did not exist when the results were computed. */
static struct hash find_seed(const struct message *proposal) {
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

/* The other seats that contribute with a weight to at least one slice. */
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
    if (!check->is_enabled) {
        return;
    }
    *check = (struct member_check){
        .is_enabled = true, .seed = find_seed(proposal), .silence = check->silence};
    check->needed_seats = find_needed_seats(member);
    request_sketches(member, actions);
}

static void send_sketches(const struct member *member, uint32_t seat, uint32_t slice,
                          struct actions *actions) {
    ASSERT(member->check.has_sketched && slice < member->slice_count);
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
    if (!check->is_enabled || !member->proposal.is_current || seat == NO_SEAT ||
        message->round != member->proposal.entry.round || message->slice >= member->slice_count ||
        message->slice % SKETCH_PAGE_SLICES != 0 ||
        !hash_equal(&message->ballot.seed, &check->seed)) {
        return;
    }
    ASSERT(member->round.is_open);
    if (check->has_sketched) {
        send_sketches(member, (uint32_t)seat, message->slice, actions);
    } else {
        check->waiting_seats |= seat_bit((uint32_t)seat);
    }
}

void member_handle_sketched(struct member *member, struct actions *actions) {
    struct member_check *check = &member->check;
    ASSERT(member->proposal.is_current && !check->has_sketched);
    check->has_sketched = true;
    SEATS_EACH(seat, check->waiting_seats) {
        for (uint32_t page = 0; page < page_count(member); page++) {
            send_sketches(member, (uint32_t)seat, page * SKETCH_PAGE_SLICES, actions);
        }
    }
    check->waiting_seats = 0;
}

/* While a job reads sketches, none are replaced: not even by those of a newer proposal. */
void member_handle_sketches(struct member *member, const struct message *message,
                            struct actions *actions) {
    struct member_check *check = &member->check;
    enum job_kind job = member->job.kind;
    if (!is_checking(member) || !hash_equal(&message->ballot.seed, &check->seed) ||
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

static uint64_t missing_sketches(const struct member *member) {
    uint64_t missing = 0;
    SEATS_EACH(seat, member->check.needed_seats) {
        missing |= has_all_pages(member, (uint32_t)seat) ? 0 : seat_bit(seat);
    }
    ASSERT((missing & ~member->check.needed_seats) == 0);
    return missing;
}

/* The seats for which this member waited in vain before, and that have sent nothing since. */
static uint64_t find_earlier_silent(const struct member *member) {
    const struct member_silence *silence = &member->check.silence;
    uint64_t seats = 0;
    for (uint32_t i = 0; i < silence->count; i++) {
        int seat = roster_find_seat(&member->proposal.entry, &silence->ids[i]);
        seats |= seat != NO_SEAT ? seat_bit((uint32_t)seat) : 0;
    }
    return seats;
}

static struct action *start_job(struct member *member, enum job_kind kind,
                                struct actions *actions) {
    const struct member_check *check = &member->check;
    ASSERT(member->proposal.is_current && check->next_slice < member->slice_count);
    struct action *action = job_start(&member->job, kind, actions);
    action->entry = &member->proposal.entry;
    action->slice = check->next_slice;
    action->seat = is_contributor(member) ? member->round.seat : NO_SEAT;
    action->seed = check->seed;
    action->silent = check->missing_seats;
    if (action->seat == NO_SEAT && member->round.seat != NO_SEAT) {
        action->silent |= seat_bit((uint32_t)member->round.seat);
    }
    return action;
}

bool member_check_start_job(struct member *member, struct actions *actions) {
    struct member_check *check = &member->check;
    if (!check->is_enabled || !member->proposal.is_current) {
        return false;
    }
    if (!check->has_sketched && is_contributor(member)) {
        (void)start_job(member, JOB_SKETCH, actions);
        return true;
    }
    if (!is_checking(member) || !member->proposal.vote.is_stored) {
        return false;
    }
    if (check->is_auditing) {
        bool has_all = (check->audit_seats & ~check->received_seats) == 0;
        return has_all && start_job(member, JOB_RECHECK, actions) != NULL;
    }
    uint64_t unreachable = member_unreachable_seats(&member->session, &member->proposal.entry);
    uint64_t missing = missing_sketches(member);
    uint64_t late = member->optional_seats;
    late &= check->waited_ticks >= OPTIONAL_TICKS ? UINT64_MAX : find_earlier_silent(member);
    if ((missing & ~(check->silent_seats | unreachable | late)) != 0) {
        return false;
    }
    check->missing_seats = missing;
    (void)start_job(member, JOB_CHECK, actions);
    return true;
}

/* Remembers which members were silent, until their sketches arrive in time again. */
static void remember_silence(struct member *member) {
    const struct entry *roster = &member->proposal.entry;
    const struct member_silence before = member->check.silence;
    struct member_silence *silence = &member->check.silence;
    silence->count = 0;
    SEATS_EACH(seat, member->check.missing_seats) {
        silence->ids[silence->count++] = roster->seats[seat].id;
    }
    for (uint32_t i = 0; i < before.count && silence->count < SWARM_MEMBERS_MAX; i++) {
        int seat = roster_find_seat(roster, &before.ids[i]);
        if (seat == NO_SEAT || !seats_contain(member->check.needed_seats, (uint32_t)seat)) {
            silence->ids[silence->count++] = before.ids[i];
        }
    }
    ASSERT(silence->count <= SWARM_MEMBERS_MAX);
}

static void end_check(struct member *member, enum refusal_reason reason, uint32_t suspect,
                      struct actions *actions) {
    const struct message_refusal refusal = {
        .reason = reason, .suspect = suspect, .silent_seats = member->check.silent_seats};
    ASSERT(suspect < SWARM_MEMBERS_MAX && reason < REFUSAL_REASONS);
    remember_silence(member);
    member_end_check(member, &refusal, actions);
}

/* ---- audits ---- */

static void request_contributions(struct member *member, struct actions *actions) {
    const struct member_check *check = &member->check;
    const struct entry *entry = &member->proposal.entry;
    ASSERT(check->is_auditing);
    SEATS_EACH(seat, check->audit_seats & ~check->received_seats) {
        struct message message = {.kind = MESSAGE_FETCH_CONTRIBUTION,
                                  .round = entry->round,
                                  .slice = check->next_slice,
                                  .epoch = entry->slices[check->next_slice].epoch};
        member_send(member, &entry->seats[seat].id, message, actions);
    }
}

static void begin_audit(struct member *member, uint32_t slice, struct actions *actions) {
    struct member_check *check = &member->check;
    const struct entry *entry = &member->proposal.entry;
    ASSERT(!check->is_auditing && slice < entry->slice_count);
    check->is_auditing = true;
    check->next_slice = slice;
    check->audit_ticks = 0;
    check->received_seats = 0;
    check->audit_seats = entry->slices[slice].contributors;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        bool has_own = (int)seat == member->round.seat && is_contributor(member);
        check->audit_seats &= has_own ? ~seat_bit(seat) : UINT64_MAX;
    }
    member_requests_free_slots(member);
    request_contributions(member, actions);
}

static uint32_t audited_owner(const struct member *member) {
    ASSERT(member->check.is_auditing && member->check.next_slice < member->slice_count);
    return member->proposal.entry.slices[member->check.next_slice].owner;
}

static void accuse_owner(struct member *member, struct actions *actions) {
    ASSERT(!member->proposal.vote.is_ready);
    end_check(member, REFUSAL_SUM, audited_owner(member), actions);
}

bool member_check_keep_contribution(struct member *member, const struct message *message,
                                    struct actions *actions) {
    struct member_check *check = &member->check;
    int seat = roster_find_seat(&member->round.open, &message->from);
    if (!is_checking(member) || !check->is_auditing || message->slice != check->next_slice ||
        seat == NO_SEAT || !seats_contain(check->audit_seats, (uint32_t)seat)) {
        return false;
    }
    bool is_free = member->job.kind != JOB_RECHECK && member->job.kind != JOB_SUM &&
                   !seats_contain(check->received_seats, (uint32_t)seat);
    if (!is_free || !member_is_declared(member, (uint32_t)seat, message)) {
        return true;
    }
    if (!norm_is_valid(message->slice_norm)) {
        accuse_owner(member, actions); /* An honest owner rejects such bytes. */
    } else {
        check->received_seats |= seat_bit((uint32_t)seat);
        struct action *keep = actions_add(actions, ACTION_KEEP_BYTES);
        keep->seat = seat;
        keep->slot = 0;
    }
    return true;
}

void member_handle_checked(struct member *member, uint32_t slice, struct actions *actions) {
    ASSERT(slice <= member->slice_count && slice >= member->check.next_slice);
    if (slice == member->slice_count) {
        end_check(member, REFUSAL_NONE, 0, actions);
    } else {
        begin_audit(member, slice, actions);
    }
}

/* If all statements about the slice are true, its values are unusual, and the check continues. */
void member_handle_rechecked(struct member *member, const struct message_refusal *refusal,
                             struct actions *actions) {
    struct member_check *check = &member->check;
    ASSERT(check->is_auditing && refusal->reason < REFUSAL_REASONS);
    if (refusal->reason != REFUSAL_NONE) {
        end_check(member, (enum refusal_reason)refusal->reason, refusal->suspect, actions);
        return;
    }
    check->is_auditing = false;
    if (check->next_slice + 1 == member->slice_count) {
        end_check(member, REFUSAL_NONE, 0, actions);
    } else {
        check->next_slice += 1;
    }
}

/* ---- time ---- */

static void tick_audit(struct member *member, struct actions *actions) {
    struct member_check *check = &member->check;
    ASSERT(check->is_auditing);
    check->audit_ticks++;
    if (member->job.kind == JOB_RECHECK && !member->job.is_abandoned) {
        return;
    }
    if (check->audit_ticks > 2 * member_requests_patience(member)) {
        /* Only the owner needs its own contribution for the sum, so it alone could hide a wrong sum
         * by not sending that contribution. */
        uint64_t unreachable = member_unreachable_seats(&member->session, &member->proposal.entry);
        uint64_t silent = check->audit_seats & ~check->received_seats & ~unreachable;
        if (seats_contain(silent, audited_owner(member))) {
            accuse_owner(member, actions);
        } else {
            end_check(member, REFUSAL_DOUBT, 0, actions);
        }
    } else if (check->audit_ticks % REPEAT_TICKS == 0) {
        request_contributions(member, actions);
    }
}

/* The wait for sketches begins when this member has nothing else to do for its vote. It is short
 * for those that withheld them before. */
void member_check_tick(struct member *member, struct actions *actions) {
    struct member_check *check = &member->check;
    if (!is_checking(member)) {
        return;
    }
    if (check->is_auditing) {
        tick_audit(member, actions);
        return;
    }
    check->ticks++;
    if (check->ticks % REPEAT_TICKS == 0) {
        request_sketches(member, actions);
    }
    check->waited_ticks += member->job.kind == JOB_NONE && member->proposal.vote.is_stored;
    uint64_t overdue = check->waited_ticks > member_requests_patience(member) ? UINT64_MAX
                       : check->waited_ticks > REPEAT_TICKS ? find_earlier_silent(member)
                                                            : 0;
    check->silent_seats |= missing_sketches(member) & overdue & ~member->optional_seats &
                           ~member_unreachable_seats(&member->session, &member->proposal.entry);
    ASSERT((check->silent_seats & ~check->needed_seats) == 0);
}
