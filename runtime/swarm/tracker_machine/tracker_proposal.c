/* tracker_proposal: the proposal of a round, the votes on it, and the COMMIT of a quorum. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

/* Initializes the proposals, whose ids start above those of every earlier incarnation. */
void proposal_init(struct tracker_proposal *proposal, struct entry_slice *slices,
                   uint32_t incarnation) {
    ASSERT(proposal->id == 0);
    proposal->entry.slices = slices;
    proposal->id = (uint64_t)incarnation << 32;
}

void proposal_swap_slices(struct tracker_proposal *proposal, struct entry_slice *slices) {
    ASSERT(proposal->entry.slices != slices);
    proposal->entry.slices = slices;
}

/* Copies the proposal's row of a slice from the report of the owner, or of another holder. */
void tracker_fill_proposal_slice(struct tracker *tracker, uint32_t slice, uint64_t holders) {
    const struct tracker_settings *settings = &tracker->settings;
    const struct round_table *table = &tracker->record.table;
    uint32_t owner = table->slices[slice].owner;
    uint32_t source = seats_contain(holders, owner) ? owner : seats_find_lowest(holders);
    const struct slice_report *report = tracker_find_slice_report(tracker, source, slice);
    ASSERT(report->has_result != 0 && report->epoch == table->slices[slice].epoch);
    ASSERT(owner < tracker->record.head.seat_count);
    uint64_t end = (slice + 1) * settings->slice_elements;
    struct entry_slice *line = &tracker->proposal.entry.slices[slice];
    *line = (struct entry_slice){.begin = slice * settings->slice_elements,
                                 .end = end,
                                 .owner = owner,
                                 .epoch = report->epoch,
                                 .contributors = report->contributors & table->declared_seats,
                                 .hash = report->hash};
    line->end = end < settings->parameter_count ? end : settings->parameter_count;
    SEATS_EACH(seat, line->contributors) {
        line->weight += table->members[seat].weight;
    }
}

void tracker_complete_proposal(struct tracker *tracker) {
    struct entry *entry = &tracker->proposal.entry;
    const struct entry *head = &tracker->record.head;
    ASSERT(head->kind == ENTRY_OPEN && tracker->record.table.round == head->round);
    entry->slice_count = tracker->settings.slice_count;
    uint64_t used = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        used |= entry->slices[s].contributors;
    }
    ASSERT((used & ~roster_seats(head)) == 0);
    entry->kind = ENTRY_COMMIT;
    /* With the incarnation of the OPEN, a restarted tracker proposes the same commit, for which its
     * voters may vote again. */
    entry->incarnation = head->incarnation;
    entry->round = head->round;
    entry->prev = head->hash;
    entry->commits = head->commits + 1;
    entry->chain = tracker->record.chain;
    entry->cursor = head->cursor;
    entry->reference_norm = tracker->record.table.reference_norm;
    entry->seat_count = head->seat_count;
    memcpy(entry->seats, head->seats, sizeof head->seats);
    memcpy(entry->members, tracker->record.table.members, sizeof entry->members);
    entry_derive_fields_from_rows(entry);
    tracker_return_ranges(entry, used);
    tracker->proposal.id += 1;
    tracker->proposal.seed = tracker->proposal.next_seed;
    tracker_begin_recheck(tracker);
    tracker_clear_votes(tracker);
}

void tracker_set_next_seed(struct tracker *tracker, const struct hash *seed) {
    tracker->proposal.next_seed = *seed;
}

void tracker_clear_votes(struct tracker *tracker) {
    ASSERT(tracker->stage.kind != STAGE_VOTE);
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].vote.has_arrived = false;
    }
}

/* Whether the statement that an accusation calls false is by the accused seat, and about this
 * proposal. */
static bool is_about_proposal(const struct tracker *tracker, const struct message *vote) {
    const struct entry *entry = &tracker->proposal.entry;
    const struct entry_slice *slice = &entry->slices[vote->slice];
    uint32_t suspect = vote->ballot.refusal.suspect;
    ASSERT(vote->slice < entry->slice_count);
    if (suspect >= entry->seat_count ||
        memcmp(&vote->owner, &entry->seats[suspect].id, sizeof vote->owner) != 0) {
        return false;
    }
    return vote->ballot.refusal.reason == REFUSAL_SKETCH ||
           (slice->owner == suspect && hash_equal(&slice->hash, &vote->hash));
}

/* Returns the vote of a member that refuses the proposal, with the evidence of an accusation. */
static struct tracker_vote read_refusing_vote(const struct tracker *tracker,
                                              const struct message *vote) {
    const struct message_ballot *ballot = &vote->ballot;
    struct tracker_vote refusal = {.has_arrived = true, .refusal = ballot->refusal};
    bool is_accusation = refusal_is_accusation(ballot->refusal.reason);
    bool is_sketch = ballot->refusal.reason == REFUSAL_SKETCH;
    uint32_t page = vote->slice / SKETCH_PAGE_SLICES * SKETCH_PAGE_SLICES;
    ASSERT(hash_is_zero(&vote->root));
    if (is_accusation && is_about_proposal(tracker, vote)) {
        refusal.slice = vote->slice;
        refusal.evidence = (struct entry_evidence){.slice = is_sketch ? page : vote->slice,
                                                   .hash = vote->hash,
                                                   .signature = vote->signature};
        if (is_sketch) {
            refusal.evidence.seed = ballot->seed;
        } else {
            refusal.evidence.epoch = vote->epoch;
            refusal.evidence.contributors = vote->contributors;
        }
    } else if (is_accusation) {
        refusal.refusal.reason = REFUSAL_UNPROVEN;
    }
    return refusal;
}

static bool is_voter(const struct tracker *tracker, uint32_t row) {
    int seat = tracker->seats.seat_of_row[row];
    return seat != NO_SEAT && tracker->record.head.seats[seat].is_guest == 0;
}

/* Whether the vote is for the proposal of this start. A copy of this tracker may have proposed the
 * same entry under the same number. A member that sends its vote for the copy's proposal to this
 * tracker has not given this tracker a lease. */
static bool is_for_proposal(const struct tracker *tracker, const struct message *vote) {
    return tracker->stage.kind == STAGE_VOTE && vote->number == tracker->proposal.id &&
           vote->ballot.start == tracker->leases.start;
}

void tracker_handle_vote(struct tracker *tracker, uint32_t row, const struct message *message) {
    if (is_for_proposal(tracker, message) && is_voter(tracker, row)) {
        ASSERT(tracker->proposal.entry.round == tracker->record.head.round);
        const struct tracker_vote vote = {
            .has_arrived = true,
            .refusal = {.silent_seats = message->ballot.refusal.silent_seats,
                        .opposed_seats = message->ballot.refusal.opposed_seats},
            .root = message->root,
            .hash = message->hash,
            .signature = message->signature};
        tracker->members[row].vote =
            hash_is_zero(&message->root) ? read_refusing_vote(tracker, message) : vote;
        leases_mark_vote(&tracker->leases, row,
                         tracker->members[row].vote.refusal.reason == REFUSAL_PROMISED);
    }
}

static uint64_t find_equal_votes(const struct tracker *tracker, const struct tracker_vote *vote) {
    ASSERT(vote->has_arrived);
    uint64_t equal = 0;
    SEATS_EACH(seat, entry_voting_seats(&tracker->record.head)) {
        int row = tracker->seats.row_of_seat[seat];
        const struct tracker_vote *other = row != NO_SEAT ? &tracker->members[row].vote : NULL;
        if (other != NULL && other->has_arrived && hash_equal(&other->hash, &vote->hash) &&
            hash_equal(&other->root, &vote->root)) {
            equal |= seat_bit(seat);
        }
    }
    return equal;
}

static void commit_round(struct tracker *tracker, const struct tracker_vote *vote, uint64_t seats,
                         struct actions *actions) {
    struct entry *entry = tracker_draft_entry(tracker, ENTRY_COMMIT);
    ASSERT(tracker->proposal.entry.round == tracker->record.head.round);
    /* shares the proposal's array of slices, which is read until the COMMIT is durable */
    *entry = tracker->proposal.entry;
    entry->root = vote->root;
    entry->hash = vote->hash;
    SEATS_EACH(seat, seats) {
        struct entry_signature *signature = &entry->signatures[entry->signature_count++];
        signature->seat = (uint32_t)seat;
        signature->signature = tracker_member_in_seat(tracker, (uint32_t)seat)->vote.signature;
    }
    tracker_write_draft(tracker, RECORD_HEAD, actions);
}

void tracker_count_votes(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    const struct entry *head = &tracker->record.head;
    ASSERT(tracker->stage.kind == STAGE_VOTE);
    SEATS_EACH(seat, entry_voting_seats(head)) {
        int row = tracker->seats.row_of_seat[seat];
        if (row == NO_SEAT || !tracker->members[row].vote.has_arrived ||
            hash_is_zero(&tracker->members[row].vote.root)) {
            continue;
        }
        const struct tracker_vote *vote = &tracker->members[row].vote;
        uint64_t votes = find_equal_votes(tracker, vote);
        if (seats_count(votes) >= entry_votes_needed(head) &&
            tracker_can_seats_commit(tracker, votes)) {
            if (!tracker_advance_recheck(tracker, now_ms)) {
                commit_round(tracker, vote, votes, actions);
            }
            return;
        }
    }
}
