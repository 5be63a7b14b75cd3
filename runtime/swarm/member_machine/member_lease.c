/* member_lease: the lease that the member gives with a vote, and the starts of the tracker that
 * it knows (docs/decisions/0023-leases-against-forks.md). */
#include "runtime/swarm/member_machine/member_state.h"

void member_lease_init(struct member_lease *lease, const struct lease *held) {
    lease->held = *held;
    lease->newest = held->start;
    lease->has_durable_resignation = held->is_resignation;
}

/* Records a start of the tracker. Two starts with the same incarnation number are copies of one
 * tracker. */
void member_lease_record_start(struct member_lease *lease, uint32_t incarnation, uint64_t number) {
    const struct tracker_start start = {incarnation, number};
    if (number == 0 || incarnation < lease->newest.incarnation) {
        return;
    }
    if (lease->newest.number != 0 && incarnation == lease->newest.incarnation &&
        number != lease->newest.number) {
        lease->conflict = LEASE_COPIED;
    }
    lease->newest = start;
}

/* Returns the entry for which leases are given. After an operator's order, this is the OPEN with
 * the order, so that earlier leases do not apply. */
static const struct hash *entry_of_leases(const struct entry *open) {
    return open->leases.order.count > 0 ? &open->hash : &open->leases.state;
}

/* Whether a proposal of this start may end the open round. An OPEN with an order is valid for
 * one start only. Another start, with a copy of the store, could otherwise commit the round
 * although the first start has aborted it and opened another. */
static bool is_start_allowed(const struct entry *open, const struct tracker_start *start) {
    const struct tracker_start ordered = {open->incarnation, open->leases.start};
    return start->number != 0 &&
           (open->leases.order.count == 0 || tracker_start_equal(start, &ordered));
}

bool member_give_lease(struct member *member, const struct hash *vote) {
    struct member_lease *lease = &member->lease;
    const struct entry *open = &member->round.open;
    ASSERT(member->round.is_open && member->proposal.is_current);
    if (open->leases.start == 0) {
        return true;
    }
    const struct lease asked = {.state = *entry_of_leases(open),
                                .round = open->round,
                                .start = member->proposal.start,
                                .vote = *vote};
    if (!is_start_allowed(open, &asked.start) ||
        !lease_allows_vote(&lease->held, &asked.state, &asked.start, &asked.vote)) {
        lease->conflict = lease->conflict == LEASE_COPIED ? LEASE_COPIED : LEASE_HELD;
        return false;
    }
    lease->held = lease_after_vote(&lease->held, &asked);
    lease->has_durable_resignation = false;
    return true;
}

/* Resigns from the state entry that the GOODBYE names: the member then votes for no commit after
 * that entry. */
void member_resign(struct member *member, const struct message *goodbye, struct actions *actions) {
    struct member_lease *lease = &member->lease;
    const struct hash *state = &goodbye->hash;
    const bool is_held = lease->held.is_resignation && hash_equal(&lease->held.state, state);
    if (member->job.kind != JOB_NONE || member->job.is_backing_off ||
        !lease_allows_resignation(&lease->held, state) ||
        (is_held && lease->has_durable_resignation)) {
        return; /* not now: the tracker repeats the GOODBYE */
    }
    lease->held = (struct lease){.state = *state, .round = goodbye->round, .is_resignation = true};
    lease->has_durable_resignation = false;
    job_start(&member->job, JOB_RESIGN, actions)->lease = &lease->held;
}

/* Handles the end of a RESIGN job, which has made the resignation durable. */
void member_handle_resigned(struct member *member, struct actions *actions) {
    ASSERT(member->lease.held.is_resignation);
    member->lease.has_durable_resignation = true;
    member_send_resignation(member, actions);
}

void member_send_resignation(const struct member *member, struct actions *actions) {
    const struct member_lease *lease = &member->lease;
    if (lease->has_durable_resignation) {
        member_send(member, NULL,
                    (struct message){.kind = MESSAGE_RESIGN, .hash = lease->held.state}, actions);
    }
}

/* Drops a resignation that is older than this entry, whose state is now current. */
void member_lease_on_current_state(struct member_lease *lease, const struct entry *entry) {
    lease->has_durable_resignation =
        lease->has_durable_resignation && entry->round <= lease->held.round;
}

void member_lease_begin_round(struct member_lease *lease, const struct entry *open) {
    lease->conflict = lease->conflict == LEASE_HELD ? LEASE_FREE : lease->conflict;
    member_lease_record_start(lease, open->incarnation, open->leases.start);
}

void member_lease_end_round(struct member_lease *lease, const struct entry *entry) {
    const struct tracker_start start = {entry->incarnation, entry->leases.start};
    if (entry->kind == ENTRY_ABORT && start.number != 0) {
        lease_release(&lease->held, entry->round, &start);
    }
}

enum lease_conflict member_pop_conflict(struct member *member) {
    const enum lease_conflict found = member->lease.conflict;
    const bool is_new = found != member->lease.returned_conflict;
    member->lease.returned_conflict = found;
    return is_new ? found : LEASE_FREE;
}
