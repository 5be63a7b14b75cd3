/* member_audit: checks a slice of the proposal by its contributions: one whose sketches do not
 * match, one that the tracker names because another voter refused it, or one that this member has
 * drawn. */
#include "runtime/swarm/member_machine/member_state.h"

enum {
    REPEAT_TICKS = 4, /* heartbeats before a request is repeated */
    /* heartbeats: minimum wait for a drawn slice after all other work for the vote */
    DRAWN_TICKS_MIN = 6,
};

void member_audit_init(struct member_audit *audit, const struct hash *secret) {
    audit->secret = *secret;
}

static struct audit_draw make_draw(const struct member *member) {
    return (struct audit_draw){.secret = member->audit.secret,
                               .seed = member->check.seed,
                               .entry = &member->proposal.entry,
                               .seat = member->round.seat,
                               .has_own = member_is_contributor(member),
                               .has_sketches = member->check.has_sketches};
}

static uint32_t audited_owner(const struct member *member) {
    ASSERT(member->audit.slice < member->slice_count);
    return member->proposal.entry.slices[member->audit.slice].owner;
}

/* ---- contributions ---- */

static void request_contributions(struct member *member, struct actions *actions) {
    const struct member_audit *audit = &member->audit;
    const struct entry *entry = &member->proposal.entry;
    ASSERT(audit->is_planned || audit->is_active);
    SEATS_EACH(seat, audit->needed_seats & ~audit->received_seats) {
        struct message message = {.kind = MESSAGE_FETCH_CONTRIBUTION,
                                  .round = entry->round,
                                  .slice = audit->slice,
                                  .epoch = entry->slices[audit->slice].epoch};
        member_send(member, &entry->seats[seat].id, message, actions);
    }
}

/* Plans the audit of a whole sum: to compare all contributions, and to compute the sum again. */
static void plan_whole_sum(struct member *member) {
    struct member_audit *audit = &member->audit;
    const uint64_t contributors = member->proposal.entry.slices[audit->slice].contributors;
    const int seat = member->round.seat;
    const bool has_own = seat != NO_SEAT && member_is_contributor(member);
    audit->compared_seats = contributors;
    audit->needed_seats = contributors & ~(has_own ? seat_bit((uint32_t)seat) : 0);
}

/* Whether the owner's own contribution is in the result of the slice. */
static bool is_owner_added(const struct member *member) {
    const struct entry *entry = &member->proposal.entry;
    const uint32_t owner = audited_owner(member);
    return seats_contain(entry->slices[member->audit.slice].contributors, owner) &&
           entry->members[owner].weight > 0;
}

/* Requests the contributions of a planned audit at once, so that they arrive while the root is
 * computed. While an abandoned SUM still reads the slots for their bytes, arriving contributions
 * are dropped, and requested again. */
void member_audit_plan(struct member *member, uint32_t recheck, struct actions *actions) {
    struct member_audit *audit = &member->audit;
    const struct hash secret = audit->secret;
    const int seat = member->round.seat;
    *audit = (struct member_audit){.secret = secret};
    /* No audit with a sparse codec, because every member computes all means itself. */
    if (recheck == RECHECK_NONE || seat == NO_SEAT || member->sent_values > 0 ||
        member->round.open.seats[seat].is_guest == 1) {
        return;
    }
    const struct audit_draw draw = make_draw(member);
    audit->is_drawn = recheck == RECHECK_DRAWN;
    audit->slice = audit->is_drawn ? 0 : recheck - RECHECK_SLICE;
    if (audit->slice >= member->slice_count ||
        (audit->is_drawn && !audit_draw_slice(&draw, &audit->slice))) {
        return;
    }
    ASSERT(audit->slice < member->slice_count);
    audit->is_planned = true;
    audit->needed_seats = audit_needed_seats(&draw, audit->slice) & ~seat_bit((uint32_t)seat);
    audit->compared_seats = audit->needed_seats;
    if (!member->check.has_sketches || !is_owner_added(member)) {
        plan_whole_sum(member);
    }
    request_contributions(member, actions);
}

static void start_planned_audit(struct member *member, struct actions *actions) {
    struct member_audit *audit = &member->audit;
    ASSERT(!audit->is_active && member->job.kind == JOB_NONE);
    audit->is_active = true;
    audit->ticks = 0;
    if (audit->received_seats == 0) {
        member_requests_free_slots(member);
    }
    request_contributions(member, actions);
}

bool member_audit_start_planned(struct member *member, struct actions *actions) {
    struct member_audit *audit = &member->audit;
    if (!audit->is_planned) {
        return false;
    }
    audit->is_planned = false;
    if (member->check.has_sketches && audit->needed_seats == 0) {
        return false; /* nothing to fetch: this member, the owner, has all contributions */
    }
    if (seats_contain(member->check.missing_seats, audited_owner(member))) {
        plan_whole_sum(member);
    }
    start_planned_audit(member, actions);
    return true;
}

void member_audit_start(struct member *member, uint32_t slice, struct actions *actions) {
    struct member_audit *audit = &member->audit;
    ASSERT(!audit->is_active && slice < member->slice_count);
    *audit =
        (struct member_audit){.secret = audit->secret, .slice = slice, .has_sketch_mismatch = true};
    plan_whole_sum(member);
    start_planned_audit(member, actions);
}

bool member_audit_has_all_contributions(const struct member_audit *audit) {
    ASSERT((audit->received_seats & ~audit->needed_seats) == 0);
    return (audit->needed_seats & ~audit->received_seats) == 0;
}

void member_audit_fill_job(const struct member *member, struct action *action) {
    ASSERT(action->kind == ACTION_RECHECK && member->audit.is_active);
    action->slice = member->audit.slice;
    action->contributors = member->audit.compared_seats;
}

bool member_audit_keep_contribution(struct member *member, const struct message *message,
                                    struct actions *actions) {
    struct member_audit *audit = &member->audit;
    int seat = roster_find_seat(&member->round.open, &message->from);
    if (!member_is_checking(member) || (!audit->is_active && !audit->is_planned) ||
        message->slice != audit->slice || seat == NO_SEAT ||
        !seats_contain(audit->needed_seats, (uint32_t)seat)) {
        return false;
    }
    bool is_free = member->job.kind != JOB_RECHECK && member->job.kind != JOB_SUM &&
                   !seats_contain(audit->received_seats, (uint32_t)seat);
    if (!is_free || !member_is_declared_contribution(member, (uint32_t)seat, message)) {
        return true;
    }
    if (!norm_is_valid(message->values.norm)) {
        /* A contribution whose bytes an honest owner would have rejected proves that the result is
         * false. A planned audit reports that once the audit is active. */
        if (audit->is_active) {
            member_check_end(member, REFUSAL_SUM, audited_owner(member), actions);
        }
        return true;
    }
    if (audit->received_seats == 0) {
        member_requests_free_slots(member);
    }
    audit->received_seats |= seat_bit((uint32_t)seat);
    struct action *keep = actions_add(actions, ACTION_KEEP_BYTES);
    keep->seat = seat;
    keep->slot = 0;
    return true;
}

/* ---- outcomes ---- */

/* Handles the end of a RECHECK job: refuses the proposal, or continues its check. */
void member_handle_rechecked(struct member *member, const struct message_refusal *refusal,
                             struct actions *actions) {
    struct member_audit *audit = &member->audit;
    ASSERT(audit->is_active && refusal->reason < REFUSAL_REASONS);
    if (refusal->reason != REFUSAL_NONE) {
        member_check_end(member, (enum refusal_reason)refusal->reason, refusal->suspect, actions);
        return;
    }
    audit->is_active = false;
    if (audit->has_sketch_mismatch) {
        member_check_pass_slice(member, audit->slice, actions);
    } else {
        member_check_end(member, REFUSAL_NONE, 0, actions);
    }
}

/* Ends an audit whose contributions do not arrive. Only the owner can hide a false sum by not
 * sending its own contribution, so it is accused if that is missing. If this member drew the
 * slice itself and another contribution is missing, it votes without the audit. */
static void end_without_contributions(struct member *member, struct actions *actions) {
    const struct member_audit *audit = &member->audit;
    uint64_t unreachable = member_unreachable_seats(&member->session, &member->proposal.entry);
    uint64_t silent = audit->needed_seats & ~audit->received_seats & ~unreachable;
    ASSERT(audit->is_active);
    if (seats_contain(silent, audited_owner(member))) {
        member_check_end(member, REFUSAL_WITHHELD, audited_owner(member), actions);
    } else {
        member_check_end(member, audit->is_drawn ? REFUSAL_NONE : REFUSAL_UNPROVEN, 0, actions);
    }
}

/* Returns the timeout of the audit. It is short for a drawn slice, because the tracker waits for
 * such an audit only a short time. */
static uint32_t find_timeout_ticks(const struct member *member) {
    const uint32_t slowest = member->requests.slowest_ticks;
    return !member->audit.is_drawn     ? 2 * member_requests_timeout_ticks(member)
           : slowest > DRAWN_TICKS_MIN ? slowest
                                       : DRAWN_TICKS_MIN;
}

void member_audit_tick(struct member *member, struct actions *actions) {
    struct member_audit *audit = &member->audit;
    if ((!audit->is_active && !audit->is_planned) || member_audit_has_all_contributions(audit)) {
        return;
    }
    audit->ticks++;
    if (audit->is_active && audit->ticks > find_timeout_ticks(member) &&
        member->job.kind == JOB_NONE) {
        end_without_contributions(member, actions);
    } else if (audit->ticks % REPEAT_TICKS == 0) {
        request_contributions(member, actions);
    }
}
