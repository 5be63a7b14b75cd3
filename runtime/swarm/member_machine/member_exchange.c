/* member_exchange: the table of the open round, and the contributions, sums and results that the
 * member exchanges according to it. */
#include "runtime/swarm/member_machine/member_state.h"

enum { DEFERRED_SUMS_MAX = 2 }; /* maximum number of sums that wait for an optional contribution */

static bool is_owner(const struct member *member, const struct slice_plan *plan) {
    return member->round.seat != NO_SEAT && (int)plan->owner == member->round.seat;
}

/* Returns the seat bit of this member if it owns the slice and contributes to it: an owner
 * always has its own contribution. */
static uint64_t own_contribution_bit(const struct member *member, const struct slice_plan *plan) {
    bool has_own = is_owner(member, plan) && round_has_contribution(&member->round);
    uint64_t seats = plan->expected_seats | plan->optional_seats;
    return has_own ? seats & seat_bit((uint32_t)member->round.seat) : 0;
}

void member_clear_table(struct member *member) {
    ASSERT(!member->round.is_open);
    member->table.version = 0;
}

/* Drops the contributions of a slice that are in no slot any more, because a proposal dropped the
 * sum that had read them. The member then requests the contributions again. */
static void drop_lost_contributions(struct member *member, uint32_t slice, uint64_t own) {
    const struct slice_report *report = &member->results.reports[slice];
    ASSERT(report->has_result == 0 && (report->rejected_seats & ~report->received_seats) == 0);
    SEATS_EACH(seat, report->received_seats & ~report->rejected_seats & ~own) {
        if (member_find_slot(&member->requests, (uint32_t)seat, slice) == NO_SLOT) {
            results_drop_contribution(&member->results, slice, (uint32_t)seat);
        }
    }
}

/* Adopts the table's plan for one slice. If the epoch or owner changed, the result and
 * contributions are dropped. */
static void update_plan(struct member *member, uint32_t slice, const struct slice_plan *plan) {
    struct slice_plan *current = &member->table.slices[slice];
    const struct slice_report *report = &member->results.reports[slice];
    bool is_same = report->epoch == plan->epoch && current->epoch == plan->epoch &&
                   current->owner == plan->owner;
    *current = *plan;
    if (!is_same) {
        results_restart_slice(&member->results, slice, plan->epoch);
        member_clear_slice_requests(member, slice);
    }
    ASSERT(report->epoch == plan->epoch);
    if (report->has_result == 0) {
        uint64_t own = own_contribution_bit(member, plan);
        results_add_contributions(&member->results, slice, own);
        drop_lost_contributions(member, slice, own);
    }
}

/* Whether the weights and the reference norm follow from the signed declarations, except that the
 * tracker may withhold a weight, and must reduce the weights of guests to their common limit. */
static bool has_valid_weights(const struct member *member, const struct round_table *table,
                              double reference) {
    const struct entry *open = &member->round.open;
    SEATS_EACH(seat, table->declared_seats) {
        const struct entry_member *declared = &table->members[seat];
        const bool is_guest = open->seats[seat].is_guest == 1;
        const uint64_t full =
            declared_weight(declared->tokens, declared->samples, member->sample_tokens);
        if (declared->samples > seat_samples(&open->seats[seat]) || declared->weight > full ||
            (!is_guest && declared->weight != 0 && declared->weight != full)) {
            return false;
        }
    }
    return norms_error(table->members, open->seat_count, entry_voting_seats(open),
                       open->reference_norm, reference) == NULL;
}

static void copy_first_table(struct member *member, const struct round_table *table,
                             double reference) {
    struct round_table *own_table = &member->table;
    size_t count = member->slice_count;
    memset(own_table->slices, 0, count * sizeof *own_table->slices);
    results_reset(&member->results, member->results.round, member->slice_count);
    own_table->declared_seats = table->declared_seats;
    memcpy(own_table->members, table->members, sizeof own_table->members);
    own_table->reference_norm = reference;
    memcpy(own_table->roots, table->roots, sizeof own_table->roots);
}

/* Returns the seats that no owner waits for: those of slow members, and those without a weight,
 * unless a quorum needs their votes. */
static uint64_t find_optional_seats(const struct entry *open, const struct round_table *table,
                                    uint32_t slice_count) {
    uint64_t expected = 0;
    uint64_t weighted = 0;
    for (uint32_t s = 0; s < slice_count; s++) {
        expected |= table->slices[s].expected_seats;
    }
    SEATS_EACH(seat, table->declared_seats) {
        weighted |= table->members[seat].weight > 0 ? seat_bit(seat) : 0;
    }
    const uint64_t voters = expected & entry_voting_seats(open);
    const bool is_quorum = seats_count(voters) >= entry_votes_needed(open);
    return (is_quorum ? roster_seats(open) : weighted) & ~expected;
}

static bool accept_first_table(struct member *member, const struct round_table *table) {
    const struct entry *open = &member->round.open;
    double reference = norms_find_reference(table->members, open->seat_count,
                                            entry_voting_seats(open), open->reference_norm);
    bool is_valid = has_valid_weights(member, table, reference);
    if (is_valid) {
        copy_first_table(member, table, reference);
    }
    return is_valid;
}

/* Returns a slice's plan in a table with the changes since version `base`: that of `table` if it
 * has changed since, else that of the member's own table. */
static const struct slice_plan *find_plan(const struct member *member,
                                          const struct round_table *table, uint32_t base,
                                          uint32_t slice) {
    ASSERT(slice < member->slice_count && base <= member->table.version);
    const struct slice_plan *plan = &table->slices[slice];
    return base == 0 || plan->version > base ? plan : &member->table.slices[slice];
}

/* Whether this member's table has the declarations of all seats whose contributions the slice
 * plans expect or allow. */
static bool expects_only_declared_seats(const struct member *member,
                                        const struct round_table *table, uint32_t base) {
    uint64_t seats = 0;
    for (uint32_t s = 0; s < member->slice_count; s++) {
        const struct slice_plan *plan = find_plan(member, table, base, s);
        seats |= plan->expected_seats | plan->optional_seats;
    }
    return (seats & ~member->table.declared_seats) == 0;
}

/* Whether no guest owns a slice. */
static bool has_voting_owners(const struct member *member, const struct round_table *table,
                              uint32_t base) {
    const uint64_t voters = entry_voting_seats(&member->round.open);
    uint64_t owners = 0;
    for (uint32_t s = 0; s < member->slice_count; s++) {
        owners |= seat_bit(find_plan(member, table, base, s)->owner);
    }
    return (owners & ~voters) == 0;
}

/* Returns whether the member can use the table. The first table of a round must be whole, and is
 * copied. A later one must be based on a version that the member has. */
static bool accept_table(struct member *member, const struct round_table *table, uint32_t base) {
    if (base > member->table.version || !has_voting_owners(member, table, base)) {
        return false;
    }
    return member->table.version == 0 ? accept_first_table(member, table)
                                      : expects_only_declared_seats(member, table, base);
}

/* Counts the contributions of others that the slices of this member may get. */
static uint64_t count_contributions(const struct member *member) {
    uint64_t count = 0;
    for (uint32_t s = 0; s < member->slice_count; s++) {
        const struct slice_plan *plan = &member->table.slices[s];
        const uint64_t seats = plan->expected_seats | plan->optional_seats;
        count += is_owner(member, plan) ? seats_count(seats & ~seat_bit(plan->owner)) : 0;
    }
    return count;
}

void member_handle_table(struct member *member, const struct round_table *table, uint32_t base,
                         struct actions *actions) {
    struct round_table *own_table = &member->table;
    ASSERT(member->round.is_open && table->round == member->round.open.round);
    ASSERT(table->version > own_table->version && !member->commit.is_pending);
    if (!accept_table(member, table, base)) {
        return;
    }
    own_table->round = table->round;
    own_table->version = table->version;
    proposal_withdraw(&member->proposal);
    const struct member_job *job = &member->job;
    const struct slice_plan *summed = find_plan(member, table, base, job->slice);
    if (job->kind != JOB_SUM || !is_owner(member, summed) ||
        summed->epoch != own_table->slices[job->slice].epoch) {
        job_abandon(&member->job);
    }
    for (uint32_t s = 0; s < member->slice_count; s++) {
        update_plan(member, s, find_plan(member, table, base, s));
    }
    member->optional_seats =
        find_optional_seats(&member->round.open, own_table, member->slice_count);
    member_requests_reset_for_table(member);
    repetitions_begin_exchange(&member->repeats, count_contributions(member));
    member_answer_held_requests(member, actions);
}

/* Whether the bytes of a contribution are those that the seat declared. */
bool member_is_declared_contribution(const struct member *member, uint32_t seat,
                                     const struct message *message) {
    ASSERT(seat < SWARM_MEMBERS_MAX && message->slice < member->slice_count);
    return contribution_is_proven(&member->table.roots[seat], member->slice_count, message->slice,
                                  &message->hash, message->proof);
}

/* Whether the norm of the received slice is the one that its sender declared. If the hash is the
 * declared one but the norm is not, the contribution is invalid for every owner. */
static bool has_declared_norm(const struct member *member, uint32_t seat,
                              const struct message *message) {
    const double norm = message->proof->norm;
    return message->values.norm == norm &&
           norm_allows_slice(member->table.members[seat].norm, norm);
}

/* Whether a slice that is a relevant part of the contribution repeats one of an earlier round. */
static bool is_repetition(const struct member *member, const struct message *message) {
    return norm_has_effect(member->table.reference_norm, member->slice_count,
                           message->proof->norm) &&
           repetitions_contain(&member->repeats, message->round, &message->from, &message->hash);
}

void member_handle_contribution(struct member *member, const struct message *message,
                                struct actions *actions) {
    uint32_t slice = message->slice;
    if (member->table.version == 0 || message->round != member->round.open.round ||
        slice >= member->slice_count || member_audit_keep_contribution(member, message, actions)) {
        return;
    }
    const struct slice_plan *plan = &member->table.slices[slice];
    const struct slice_report *report = &member->results.reports[slice];
    int from = roster_find_seat(&member->round.open, &message->from);
    if (from == NO_SEAT || !is_owner(member, plan) || message->epoch != plan->epoch ||
        report->has_result != 0 || seats_contain(report->received_seats, (uint32_t)from)) {
        return;
    }
    uint32_t seat = (uint32_t)from;
    uint32_t slot = member_find_slot(&member->requests, seat, slice);
    bool is_proven = member_is_declared_contribution(member, seat, message);
    if (slot == NO_SLOT || !is_proven) {
        /* the contribution was not requested, or is damaged, replayed, or different for other
         * owners */
        return;
    }
    ASSERT(slot < CONTRIBUTION_SLOTS_PER_MEMBER && (int)seat != member->round.seat);
    member_mark_seat_answered(member, seat);
    results_add_contributions(&member->results, slice, seat_bit(seat));
    const bool is_invalid = !has_declared_norm(member, seat, message);
    const bool is_repeated = !is_invalid && is_repetition(member, message);
    repetitions_add(&member->repeats, message->round, &message->from, &message->hash);
    if (is_invalid || is_repeated) {
        results_reject_contribution(&member->results, slice, seat, is_repeated);
        member_free_slot(&member->requests, seat, slice);
        return;
    }
    struct action *keep = actions_add(actions, ACTION_KEEP_BYTES);
    keep->seat = from;
    keep->slot = slot;
}

/* Whether `id` is a slow member of the open round, for which no member waits. Slow members receive
 * results after the other members. */
static bool is_slow_member(const struct member *member, const struct identity *id, uint32_t round) {
    int seat = round_number(&member->round) == round && member->table.version > 0
                   ? roster_find_seat(&member->round.open, id)
                   : NO_SEAT;
    return seat != NO_SEAT && seats_contain(member->optional_seats, (uint32_t)seat);
}

/* Sends the stored result of a slice. `left_out` is the seat, as a mask, of a receiver that has its
 * own contribution. */
static void send_result(const struct member *member, const struct identity *to, uint32_t slice,
                        uint64_t left_out, struct actions *actions) {
    const struct slice_report *report = &member->results.reports[slice];
    const struct entry *target = member_target_entry(member);
    ASSERT(report->has_result != 0 && !hash_is_zero(&report->hash));
    struct message message = {.kind = MESSAGE_RESULT,
                              .round = member->results.round,
                              .slice = slice,
                              .epoch = report->epoch,
                              .contributors = report->contributors,
                              .values.left_out = left_out & report->contributors,
                              .hash = report->hash};
    if (target != NULL && target->round == message.round && slice < target->slice_count) {
        message.owner = target->seats[target->slices[slice].owner].id;
    } else if (member->table.round == message.round) {
        message.owner = member->round.open.seats[member->table.slices[slice].owner].id;
    }
    bool is_slow = is_slow_member(member, to, message.round);
    member_send(member, to, message, actions)->is_for_slow_member = is_slow;
}

/* Sends a result that has just become available to the seats that requested it earlier. */
static void send_result_to_waiting_seats(struct member *member, uint32_t slice,
                                         struct actions *actions) {
    const struct member_round *round = &member->round;
    uint64_t left_out;
    uint64_t waiting = results_pop_waiting_seats(&member->results, slice, &left_out);
    bool is_of_open_round = round_number(round) == member->results.round;
    SEATS_EACH(seat, is_of_open_round ? waiting : 0) {
        ASSERT(seat < round->open.seat_count);
        send_result(member, &round->open.seats[seat].id, slice, left_out & seat_bit(seat), actions);
    }
}

/* Whether a result is the one that the target entry lists, or has the table's epoch and owner.
 * While a job uses the bytes of a slice, no result replaces them. */
static bool is_expected_result(const struct member *member, const struct message *message,
                               const struct entry *target) {
    uint32_t slice = message->slice;
    const struct member_job *job = &member->job;
    bool is_in_use = job->kind != JOB_NONE && job->kind != JOB_SKETCH &&
                     (job->kind != JOB_SUM || job->slice == slice);
    if (member->results.reports[slice].has_result != 0 || is_in_use) {
        return false;
    }
    if (target != NULL && slice >= target->slice_count) {
        return false; /* a ROLLBACK has no results */
    }
    if (target != NULL) {
        const struct entry_slice *named = &target->slices[slice];
        ASSERT(named->owner < target->seat_count);
        const struct identity *owner = &target->seats[named->owner].id;
        return target->round == message->round && hash_equal(&named->hash, &message->hash) &&
               named->epoch == message->epoch && named->contributors == message->contributors &&
               memcmp(owner, &message->owner, sizeof *owner) == 0;
    }
    const struct slice_plan *plan = &member->table.slices[slice];
    return member->table.version > 0 && message->round == member->round.open.round &&
           message->epoch == plan->epoch && !is_owner(member, plan) &&
           roster_find_seat(&member->round.open, &message->owner) == (int)plan->owner;
}

void member_handle_result(struct member *member, const struct message *message,
                          struct actions *actions) {
    const struct entry *target = member_target_entry(member);
    uint32_t slice = message->slice;
    if (slice >= member->slice_count || !is_expected_result(member, message, target) ||
        !member_is_possible_result(member, message)) {
        return;
    }
    ASSERT(message->round == member->results.round);
    int seat = roster_find_seat(member_roster(member), &message->from);
    if (seat != NO_SEAT) {
        member_mark_seat_answered(member, (uint32_t)seat);
    }
    member_clear_slice_requests(member, slice);
    const struct slice_report result = {
        .epoch = message->epoch, .hash = message->hash, .contributors = message->contributors};
    results_set_result(&member->results, slice, &result);
    actions_add(actions, ACTION_KEEP_BYTES)->seat = NO_SEAT;
    send_result_to_waiting_seats(member, slice, actions);
}

/* Whether a request for a result of the open round asks for it without the sender's own
 * contribution. */
static bool omits_own_contribution(const struct member *member, const struct message *request) {
    const int seat = roster_find_seat(&member->round.open, &request->from);
    return member->sent_values > 0 && seat != NO_SEAT &&
           request->values.left_out == seat_bit((uint32_t)seat);
}

/* Answers a request for a result. A result of the open round that is not stored yet is sent later.
 * A result of an earlier round, requested by its hash, is sent if its bytes are still stored. */
static void answer_result_request(struct member *member, const struct message *request,
                                  struct actions *actions) {
    const struct slice_report *report = &member->results.reports[request->slice];
    const struct member_round *round = &member->round;
    bool is_of_open_round = round->is_open && request->round == round->open.round;
    bool has_result =
        request->round == member->results.round && report->has_result != 0 &&
        (!is_of_open_round || member->table.version > 0 || member_target_entry(member) != NULL);
    bool is_any = hash_is_zero(&request->hash);
    if (has_result &&
        (is_any ? report->epoch == request->epoch : hash_equal(&report->hash, &request->hash))) {
        send_result(member, &request->from, request->slice,
                    is_of_open_round && omits_own_contribution(member, request)
                        ? request->values.left_out
                        : 0,
                    actions);
    } else if (is_of_open_round) {
        int seat = roster_find_seat(&round->open, &request->from);
        if (seat != NO_SEAT) {
            results_add_waiting_seat(&member->results, request->slice, (uint32_t)seat,
                                     omits_own_contribution(member, request));
        }
    } else if (!is_any) {
        struct message reply = {.kind = MESSAGE_RESULT,
                                .round = request->round,
                                .slice = request->slice,
                                .hash = request->hash};
        member_send(member, &request->from, reply, actions);
    }
}

/* Answers a request for a contribution or a result. */
void member_handle_data_request(struct member *member, const struct message *message,
                                struct actions *actions) {
    if (message->slice >= member->slice_count) {
        return;
    }
    if (message->kind == MESSAGE_FETCH_CONTRIBUTION) {
        member_handle_contribution_request(member, message, actions);
    } else {
        answer_result_request(member, message, actions);
    }
}

static void start_sum(struct member *member, uint32_t slice, struct actions *actions) {
    const struct slice_report *report = &member->results.reports[slice];
    struct member_job sum = {.slice = slice,
                             .contributors = report->received_seats & ~report->rejected_seats};
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        sum.slots[seat] = (uint8_t)member_find_slot(&member->requests, seat, slice);
        ASSERT(!seats_contain(sum.contributors, seat) || (int)seat == member->round.seat ||
               sum.slots[seat] != NO_SLOT);
    }
    struct action *action = job_start_sum(&member->job, &sum, actions);
    action->round = member->round.open.round;
    action->epoch = member->table.slices[slice].epoch;
    action->seat = member->round.seat;
    action->table = &member->table;
    action->entry = &member->round.open;
}

/* Starts the next sum. Optional contributions never delay the exchange: while this member waits for
 * expected ones of other slices, it defers a few sums that still lack an optional one. More
 * deferred sums would occupy the contribution slots of all seats. */
void member_start_next_sum(struct member *member, struct actions *actions) {
    ASSERT(member->table.version > 0 && member->round.seat != NO_SEAT);
    uint32_t first_deferred = 0;
    uint32_t deferred = 0;
    bool is_waiting = false; /* a slice that this member owns lacks an expected contribution */
    for (uint32_t s = member->results.first_open; s < member->slice_count; s++) {
        const struct slice_plan *plan = &member->table.slices[s];
        const struct slice_report *report = &member->results.reports[s];
        if (!is_owner(member, plan) || report->has_result != 0) {
            continue;
        }
        if ((plan->expected_seats & ~report->received_seats) != 0) {
            is_waiting = true;
        } else if ((plan->optional_seats & ~report->received_seats) == 0) {
            start_sum(member, s, actions);
            return;
        } else {
            first_deferred = deferred++ == 0 ? s : first_deferred;
        }
    }
    if (deferred > DEFERRED_SUMS_MAX || (deferred > 0 && !is_waiting)) {
        start_sum(member, first_deferred, actions);
    }
}

/* Handles the end of an abandoned SUM. If this member still has to sum the slice, it requests
 * the contributions again. */
void member_handle_abandoned_sum(struct member *member) {
    uint32_t slice = member->job.slice;
    ASSERT(member->job.kind == JOB_NONE && slice < member->slice_count);
    member_clear_slice_requests(member, slice);
    if (member->results.reports[slice].has_result == 0 && member->table.version > 0) {
        results_set_contributions(&member->results, slice,
                                  own_contribution_bit(member, &member->table.slices[slice]));
    }
}

static bool has_sums_left(const struct member *member) {
    ASSERT(member->table.version > 0 && member->round.is_open);
    bool owes = false;
    for (uint32_t s = member->results.first_open; s < member->slice_count && !owes; s++) {
        owes = is_owner(member, &member->table.slices[s]) &&
               member->results.reports[s].has_result == 0;
    }
    return owes;
}

/* Handles the end of a SUM job, which has computed the result with this hash. */
void member_handle_sum(struct member *member, const struct hash *hash, struct actions *actions) {
    uint32_t slice = member->job.slice;
    ASSERT(member->job.kind == JOB_NONE && member->table.version > 0);
    ASSERT(is_owner(member, &member->table.slices[slice]));
    const struct slice_report result = {.epoch = member->results.reports[slice].epoch,
                                        .hash = *hash,
                                        .contributors = member->job.contributors};
    ASSERT(result.epoch == member->table.slices[slice].epoch);
    results_set_result(&member->results, slice, &result);
    member_clear_slice_requests(member, slice);
    send_result_to_waiting_seats(member, slice, actions);
    if (!has_sums_left(member)) {
        member_send_report(member, actions);
    }
}
