/* tracker_accusation: what the voters found false in a proposal. Each voter has checked it alone,
 * so the tracker only counts votes: more than half of the roster decides. */
#include "runtime/swarm/tracker_machine/tracker_accusation.h"

/* The vote of a seat for the current proposal, or NULL. Guests have none. */
static const struct tracker_vote *find_vote(const struct tracker *tracker, uint32_t seat) {
    ASSERT(seat < tracker->record.head.seat_count);
    if (tracker->record.head.seats[seat].is_guest == 1) {
        return NULL;
    }
    int row = tracker->seats.row_of_seat[seat];
    const struct tracker_vote *vote = row != NO_SEAT ? &tracker->members[row].vote : NULL;
    return vote != NULL && vote->has_arrived ? vote : NULL;
}

static bool is_accusation(const struct tracker_vote *vote) {
    ASSERT(vote == NULL || vote->refusal.reason < REFUSAL_REASONS);
    return vote != NULL && hash_is_zero(&vote->root) && refusal_is_accusation(vote->refusal.reason);
}

/* The number of votes that accuse the same seat as this vote: with `is_same_lie`, only those that
 * accuse that seat of the same lie. An honest voter accuses only liars, so a seat is judged by all
 * accusations of any lie together. */
static uint32_t count_accusers(const struct tracker *tracker, const struct tracker_vote *vote,
                               bool is_same_lie) {
    uint32_t accusers = 0;
    ASSERT(is_accusation(vote));
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        const struct tracker_vote *other = find_vote(tracker, seat);
        accusers += is_accusation(other) && other->refusal.suspect == vote->refusal.suspect &&
                    (!is_same_lie || other->refusal.reason == vote->refusal.reason);
    }
    return accusers;
}

/* Returns the accusation that becomes the evidence against the seat that this vote accuses: one of
 * the most frequent lie, and of these the one about the lowest slice. */
static const struct tracker_vote *find_evidence(const struct tracker *tracker,
                                                const struct tracker_vote *vote) {
    const struct tracker_vote *best = vote;
    ASSERT(is_accusation(vote));
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        const struct tracker_vote *other = find_vote(tracker, seat);
        if (!is_accusation(other) || other->refusal.suspect != vote->refusal.suspect) {
            continue;
        }
        uint32_t count = count_accusers(tracker, other, true);
        uint32_t most = count_accusers(tracker, best, true);
        bool is_lower = other->refusal.reason == best->refusal.reason &&
                        other->evidence.slice < best->evidence.slice;
        best = count > most || is_lower ? other : best;
    }
    return best;
}

/* Returns an accusation of the seat that has the most accusers, or NULL if there is none. *count is
 * the number of these accusers. */
static const struct tracker_vote *find_most_shared_accusation(const struct tracker *tracker,
                                                              uint32_t *count) {
    const struct tracker_vote *found = NULL;
    *count = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        const struct tracker_vote *vote = find_vote(tracker, seat);
        uint32_t accusers = is_accusation(vote) ? count_accusers(tracker, vote, false) : 0;
        found = accusers > *count ? vote : found;
        *count = accusers > *count ? accusers : *count;
    }
    ASSERT(*count <= tracker->record.head.seat_count);
    return found;
}

static enum suspension_reason suspension_reason_of_refusal(uint32_t refusal) {
    ASSERT(refusal_is_accusation(refusal));
    return refusal == REFUSAL_SUM      ? SUSPENSION_WRONG_SUM
           : refusal == REFUSAL_SKETCH ? SUSPENSION_WRONG_SKETCH
                                       : SUSPENSION_WITHHELD;
}

/* Whether the slice of an accusation gets another owner. This includes false sketches that the
 * owner signed for its own slice, because they may hide a false sum. If the same member signs false
 * sketches again, the slice gets no other owner, and the round is aborted. */
static bool is_new_owner_needed(const struct tracker *tracker, const struct tracker_vote *vote) {
    const uint32_t suspect = vote->refusal.suspect;
    ASSERT(vote->slice < tracker->settings.slice_count);
    return vote->refusal.reason != REFUSAL_SKETCH ||
           (tracker->proposal.entry.slices[vote->slice].owner == suspect &&
            !seats_contain(tracker->exchange.lying_owners, suspect));
}

uint64_t tracker_lying_owners(const struct tracker *tracker) {
    const uint64_t wrong = tracker->exchange.lying_owners;
    return (tracker_live_voters(tracker) & ~wrong) != 0 ? wrong : 0;
}

/* A disconnected member is not suspended for withholding contributions. It only loses its slices to
 * another owner. Returns whether the round must be aborted. */
bool tracker_judge_accusations(struct tracker *tracker) {
    uint32_t accusers = 0;
    const struct entry *head = &tracker->record.head;
    const struct tracker_vote *vote = find_most_shared_accusation(tracker, &accusers);
    if (tracker->stage.kind != STAGE_VOTE || accusers < entry_votes_needed(head)) {
        return false;
    }
    ASSERT(vote->refusal.suspect < head->seat_count);
    vote = find_evidence(tracker, vote);
    bool is_sum = is_new_owner_needed(tracker, vote);
    int row = tracker->seats.row_of_seat[vote->refusal.suspect];
    bool is_excused = row == NO_SEAT ||
                      (vote->refusal.reason == REFUSAL_WITHHELD && tracker->members[row].is_silent);
    if (!is_excused) {
        tracker_suspend_liar(tracker, (uint32_t)row,
                             suspension_reason_of_refusal(vote->refusal.reason), &vote->evidence);
    }
    recheck_confirm_accusation(&tracker->recheck);
    if (is_sum) {
        exchange_mark_lying_owner(&tracker->exchange, vote->refusal.suspect);
    }
    return !is_sum;
}

/* Whether the proposal cannot get a quorum. The tracker first waits for missing votes that could
 * identify a liar, but only as long as it waits for an owner's results. */
bool tracker_is_proposal_refused(const struct tracker *tracker, int64_t now_ms) {
    const struct entry *head = &tracker->record.head;
    const uint32_t voter_count = entry_voter_count(head), quorum = entry_quorum(voter_count);
    uint32_t refusals = 0, awaited = 0, accusers = 0;
    if (tracker->stage.kind != STAGE_VOTE) {
        return false;
    }
    uint64_t live = tracker_live_voters(tracker);
    for (uint32_t seat = 0; seat < head->seat_count; seat++) {
        const struct tracker_vote *found = find_vote(tracker, seat);
        refusals += found != NULL && hash_is_zero(&found->root);
        awaited += found == NULL && seats_contain(live, seat);
    }
    ASSERT(refusals <= voter_count);
    bool is_late = now_ms - tracker->stage.stage_began_ms >= tracker_result_wait_ms(tracker);
    (void)find_most_shared_accusation(tracker, &accusers);
    bool may_name_liar = accusers > 0 && accusers + awaited >= quorum && !is_late;
    return refusals > voter_count - quorum && !may_name_liar;
}

/* The number of other seats whose votes report this seat: as opposed if `is_opposed`, else as
 * silent. */
static uint32_t count_reports(const struct tracker *tracker, uint32_t seat, bool is_opposed) {
    uint32_t reports = 0;
    for (uint32_t voter = 0; voter < tracker->record.head.seat_count; voter++) {
        const struct tracker_vote *vote = voter != seat ? find_vote(tracker, voter) : NULL;
        reports += vote != NULL && seats_contain(is_opposed ? vote->refusal.opposed_seats
                                                            : vote->refusal.silent_seats,
                                                 seat);
    }
    return reports;
}

/* Returns the seats that at least half of the other voters report as silent. More cannot be
 * required, because the votes of a commit may be only those of the silent member and of half of the
 * others. */
uint64_t tracker_find_silent_seats(const struct tracker *tracker) {
    const struct entry *head = &tracker->record.head;
    const uint64_t voters = entry_voting_seats(head);
    uint64_t silent = 0;
    for (uint32_t seat = 0; seat < head->seat_count; seat++) {
        const uint32_t reports = count_reports(tracker, seat, false);
        const uint32_t others = seats_count(voters & ~seat_bit(seat));
        silent |= reports > 0 && 2 * reports >= others ? seat_bit(seat) : 0;
    }
    ASSERT((silent & ~roster_seats(head)) == 0);
    return silent;
}

/* Returns the seats whose contributions more than half of the other voters reported as opposed. A
 * minority of the roster cannot be more than half of the other voters. More than half of all voters
 * cannot be required: the seat itself does not report, and with four voters a commit may have the
 * votes of only two other seats, which are half of the roster. */
uint64_t tracker_find_opposed_seats(const struct tracker *tracker) {
    const struct entry *head = &tracker->record.head;
    const uint64_t voters = entry_voting_seats(head);
    uint64_t opposed = 0;
    for (uint32_t seat = 0; seat < head->seat_count; seat++) {
        const uint32_t others = seats_count(voters & ~seat_bit(seat));
        opposed |= 2 * count_reports(tracker, seat, true) > others ? seat_bit(seat) : 0;
    }
    ASSERT((opposed & ~roster_seats(head)) == 0);
    return opposed;
}

/* Whether the tracker must wait for more votes to decide that a seat is opposed: more than half of
 * the votes of other voters so far report the seat, but not yet more than half of all other voters.
 * The votes of a commit may not suffice, because they can be the vote of the opposed member and
 * those of only half of the others. A minority of the voters can cause this wait only while most of
 * the votes so far are its own. */
bool tracker_is_opposition_undecided(const struct tracker *tracker) {
    const struct entry *head = &tracker->record.head;
    const uint64_t voters = entry_voting_seats(head);
    bool is_open = false;
    for (uint32_t seat = 0; seat < head->seat_count; seat++) {
        const uint32_t reports = count_reports(tracker, seat, true);
        const uint32_t others = seats_count(voters & ~seat_bit(seat));
        uint32_t votes = 0;
        for (uint32_t voter = 0; voter < head->seat_count; voter++) {
            votes += voter != seat && find_vote(tracker, voter) != NULL;
        }
        is_open |= 2 * reports > votes && 2 * reports <= others;
    }
    return is_open;
}
