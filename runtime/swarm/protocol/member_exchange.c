/* member_exchange: contributions, sums and results of slices: taken, kept, served and added up. */
#include "runtime/swarm/protocol/member_state.h"

#include <string.h>

static int is_zero(const struct hash *hash) {
    static const struct hash zero;
    return hash_equal(hash, &zero);
}

static uint64_t seat_bit(int seat) {
    return seat == NO_SEAT ? 0 : UINT64_C(1) << seat;
}

/* The own contribution is at hand wherever the member is an owner. */
static uint64_t own_contribution(const struct member *member, const struct slice_plan *plan) {
    int is_owner = member->seat != NO_SEAT && (int)plan->owner == member->seat;
    return is_owner && member->has_trained ? plan->expected & seat_bit(member->seat) : 0;
}

/* One slice as the table has it now: a new epoch or owner starts it again. */
static void take_plan(struct member *member, uint32_t slice, const struct slice_plan *plan) {
    struct slice_plan *mine = &member->table.slices[slice];
    struct slice_report *report = &member->reports[slice];
    int is_same =
        report->epoch == plan->epoch && mine->epoch == plan->epoch && mine->owner == plan->owner;
    *mine = *plan;
    if (!is_same) {
        *report = (struct slice_report){.epoch = plan->epoch};
        member_free_slice(member, slice);
    }
    if (!report->held) {
        report->received |= own_contribution(member, plan);
    }
}

void member_handle_table(struct member *member, const struct round_table *table) {
    struct round_table *mine = &member->table;
    size_t count = member->slice_count;
    if (mine->version == 0) {
        memset(mine->slices, 0, count * sizeof(*mine->slices));
        memset(member->reports, 0, count * sizeof(*member->reports));
        mine->declared = table->declared;
        memcpy(mine->members, table->members, sizeof(mine->members));
        memcpy(mine->hashes, table->hashes, SWARM_MEMBERS_MAX * count * sizeof(struct hash));
    }
    member->settled = 0;
    mine->round = table->round;
    mine->version = table->version;
    member->has_proposal = 0;
    member->has_vote = 0;
    const struct slice_plan *summed = &table->slices[member->job_slice];
    if (member->job_kind != ACTION_SUM || (int)summed->owner != member->seat ||
        summed->epoch != mine->slices[member->job_slice].epoch) {
        member_abandon_job(member);
    }
    for (uint32_t s = 0; s < count; s++) {
        take_plan(member, s, &table->slices[s]);
    }
    memset(member->turns, 0, count);
    memset(member->holders, 0, count * sizeof(*member->holders));
}

void member_handle_contribution(struct member *member, const struct message *message,
                                struct actions *actions) {
    if (member->table.version == 0 || message->round != member->round ||
        message->slice >= member->slice_count) {
        return;
    }
    const struct slice_plan *plan = &member->table.slices[message->slice];
    struct slice_report *report = &member->reports[message->slice];
    int seat = member_seat_of(&member->open, &message->from);
    if (seat == NO_SEAT || (int)plan->owner != member->seat || message->epoch != plan->epoch ||
        report->held || (report->received & seat_bit(seat)) != 0) {
        return;
    }
    uint32_t slot = member_slot(member, (uint32_t)seat, message->slice);
    const struct hash *declared =
        &member->table.hashes[(size_t)seat * member->slice_count + message->slice];
    if (slot == NO_SLOT || !hash_equal(&message->hash, declared)) {
        return; /* not asked for; or torn, copied, replayed or unlike what others get */
    }
    member_note_arrival(member, (uint32_t)seat);
    report->received |= seat_bit(seat);
    if (message->is_refused) {
        report->refused |= seat_bit(seat);
        member->peers[seat].slots[slot] = 0;
        return;
    }
    struct action *keep = member_add_action(actions, ACTION_KEEP_BYTES);
    keep->seat = seat;
    keep->slot = slot;
}

static void say_result(struct member *member, const struct identity *to, uint32_t slice,
                       struct actions *actions) {
    const struct slice_report *report = &member->reports[slice];
    const struct entry *wanted = member_target_entry(member);
    struct message message = {.kind = MESSAGE_RESULT,
                              .round = member->reports_round,
                              .slice = slice,
                              .epoch = report->epoch,
                              .contributors = report->contributors,
                              .hash = report->hash};
    if (wanted != NULL && wanted->round == message.round && slice < wanted->slice_count) {
        message.owner = wanted->seats[wanted->slices[slice].owner].id;
    } else if (member->table.round == message.round) {
        message.owner = member->open.seats[member->table.slices[slice].owner].id;
    }
    member_send(member, to, message, actions);
}

/* A result is at hand now: those who asked for it before have it. */
static void serve_wanting(struct member *member, uint32_t slice, struct actions *actions) {
    uint64_t wanting = member->round == member->reports_round ? member->wanting[slice] : 0;
    member->wanting[slice] = 0;
    for (; wanting != 0; wanting &= wanting - 1) {
        uint32_t seat = (uint32_t)__builtin_ctzll(wanting);
        say_result(member, &member->open.seats[seat].id, slice, actions);
    }
}

/* Whether a result is the slice's: of the entry that is wanted, or of the table's epoch and owner.
 * Bytes that a job reads or writes are not replaced under it. */
static int is_result(const struct member *member, const struct message *message,
                     const struct entry *wanted) {
    uint32_t slice = message->slice;
    int is_read =
        member->job != 0 && (member->job_kind != ACTION_SUM || member->job_slice == slice);
    if (member->reports[slice].held || is_read) {
        return 0;
    }
    if (wanted != NULL && slice >= wanted->slice_count) {
        return 0; /* a rollback has none */
    }
    if (wanted != NULL) {
        const struct entry_slice *line = &wanted->slices[slice];
        const struct identity *owner = &wanted->seats[line->owner].id;
        return wanted->round == message->round && hash_equal(&line->hash, &message->hash) &&
               line->epoch == message->epoch && line->contributors == message->contributors &&
               memcmp(owner, &message->owner, sizeof(*owner)) == 0;
    }
    const struct slice_plan *plan = &member->table.slices[slice];
    return member->table.version > 0 && message->round == member->round &&
           message->epoch == plan->epoch && (int)plan->owner != member->seat &&
           member_seat_of(&member->open, &message->owner) == (int)plan->owner;
}

void member_handle_result(struct member *member, const struct message *message,
                          struct actions *actions) {
    const struct entry *wanted = member_target_entry(member);
    uint32_t slice = message->slice;
    if (slice >= member->slice_count || !is_result(member, message, wanted)) {
        return;
    }
    int seat = member_seat_of(member_roster(member), &message->from);
    if (seat != NO_SEAT) {
        member_note_arrival(member, (uint32_t)seat);
    }
    member_free_slice(member, slice);
    struct slice_report *report = &member->reports[slice];
    report->held = 1;
    report->epoch = message->epoch;
    report->hash = message->hash;
    report->contributors = message->contributors;
    member_add_action(actions, ACTION_KEEP_BYTES)->seat = NO_SEAT;
    serve_wanting(member, slice, actions);
}

/* A contribution goes to whoever sits in the round and asks: it is checked against the table by its
 * receiver, whose table may be newer than the one here. */
static void serve_contribution(struct member *member, const struct message *message,
                               struct actions *actions) {
    if (member->round == 0 || message->round != member->round || !member->has_trained ||
        member->seat == NO_SEAT || member_seat_of(&member->open, &message->from) == NO_SEAT) {
        return;
    }
    struct message reply = {.kind = MESSAGE_CONTRIBUTION,
                            .round = member->round,
                            .slice = message->slice,
                            .epoch = message->epoch,
                            .hash = member->hashes[message->slice]};
    member_send(member, &message->from, reply, actions);
}

/* A result that is not here yet is promised to who sits in the round; by hash, one of an earlier
 * round goes out if its bytes are still kept. */
static void serve_result(struct member *member, const struct message *message,
                         struct actions *actions) {
    const struct slice_report *report = &member->reports[message->slice];
    int is_present = message->round == member->reports_round && report->held &&
                     (member->round == 0 || message->round != member->round ||
                      member->table.version > 0 || member_target_entry(member) != NULL);
    int is_any = is_zero(&message->hash);
    if (is_present &&
        (is_any ? report->epoch == message->epoch : hash_equal(&report->hash, &message->hash))) {
        say_result(member, &message->from, message->slice, actions);
    } else if (member->round > 0 && message->round == member->round) {
        int seat = member_seat_of(&member->open, &message->from);
        member->wanting[message->slice] |= seat == NO_SEAT ? 0 : seat_bit(seat);
    } else if (!is_any) {
        struct message reply = {.kind = MESSAGE_RESULT,
                                .round = message->round,
                                .slice = message->slice,
                                .hash = message->hash};
        member_send(member, &message->from, reply, actions);
    }
}

void member_handle_fetch(struct member *member, const struct message *message,
                         struct actions *actions) {
    if (message->slice >= member->slice_count) {
        return;
    }
    if (message->kind == MESSAGE_FETCH_CONTRIBUTION) {
        serve_contribution(member, message, actions);
    } else {
        serve_result(member, message, actions);
    }
}

void member_sum_next(struct member *member, struct actions *actions) {
    for (uint32_t s = 0; s < member->slice_count; s++) {
        const struct slice_plan *plan = &member->table.slices[s];
        const struct slice_report *report = &member->reports[s];
        if ((int)plan->owner != member->seat || report->held ||
            (plan->expected & ~report->received) != 0) {
            continue;
        }
        struct action *sum = member_start_job(member, ACTION_SUM, actions);
        member->job_slice = s;
        member->job_contributors = report->received & ~report->refused;
        for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
            member->job_slots[seat] = (uint8_t)member_slot(member, seat, s);
        }
        sum->round = member->round;
        sum->slice = s;
        sum->epoch = plan->epoch;
        sum->contributors = member->job_contributors;
        sum->seat = member->seat;
        sum->slots = member->job_slots;
        sum->table = &member->table;
        sum->entry = &member->open;
        return;
    }
}

/* Its contributions are asked for again if the slice is still summed here. */
void member_sum_dropped(struct member *member) {
    uint32_t slice = member->job_slice;
    struct slice_report *report = &member->reports[slice];
    member_free_slice(member, slice);
    if (!report->held && member->table.version > 0) {
        report->received = own_contribution(member, &member->table.slices[slice]);
        report->refused = 0;
    }
}

static int owes_sums(const struct member *member) {
    uint32_t owed = 0;
    for (uint32_t s = 0; s < member->slice_count; s++) {
        owed += (int)member->table.slices[s].owner == member->seat && !member->reports[s].held;
    }
    return owed > 0;
}

void member_summed(struct member *member, const struct hash *hash, struct actions *actions) {
    uint32_t slice = member->job_slice;
    struct slice_report *report = &member->reports[slice];
    report->held = 1;
    report->hash = *hash;
    report->contributors = member->job_contributors;
    member_free_slice(member, slice);
    serve_wanting(member, slice, actions);
    if (!owes_sums(member)) {
        member_report(member, actions);
    }
}
