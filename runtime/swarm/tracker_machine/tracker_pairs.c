/* tracker_pairs: pairs of an owner and a contributor whose contributions do not reach this owner,
 * but reach most other owners. Either member may be at fault or lie, so the owner does not wait for
 * the contributor for some rounds: the pair is separated. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

enum {
    /* rounds for which a pair is separated at first; doubled each further time */
    PAIR_ROUNDS_MIN = 8,
    PAIR_ROUNDS_MAX = 512,    /* maximum rounds of a separation */
    FAULTY_PAIRS_DIVISOR = 3, /* a member in pairs with more than 1/3 of the voters is at fault */
};

void tracker_clear_pairs(struct tracker *tracker, uint32_t row) {
    for (uint32_t other = 0; other < SWARM_MEMBERS_MAX; other++) {
        tracker->pairs.contributors[row].owners[other] = (struct tracker_pair){0};
        tracker->pairs.contributors[other].owners[row] = (struct tracker_pair){0};
    }
}

static void separate_pair(struct tracker_pair *pair, uint32_t round) {
    pair->rounds = pair->rounds == 0                ? PAIR_ROUNDS_MIN
                   : pair->rounds < PAIR_ROUNDS_MAX ? 2 * pair->rounds
                                                    : PAIR_ROUNDS_MAX;
    pair->until_round = round + 1 + pair->rounds;
}

void tracker_separate_pairs(struct tracker *tracker) {
    const struct tracker_exchange *exchange = &tracker->exchange;
    ASSERT(tracker->record.head.kind == ENTRY_COMMIT || tracker->record.head.kind == ENTRY_ABORT);
    SEATS_EACH(seat, exchange->expected_seats & ~exchange->late_seats) {
        int row = tracker->seats.row_of_seat[seat];
        SEATS_EACH(owner, row == NO_SEAT ? 0 : exchange->missed_by[seat]) {
            ASSERT(owner != seat);
            int owner_row = tracker->seats.row_of_seat[owner];
            if (owner_row != NO_SEAT) {
                separate_pair(&tracker->pairs.contributors[row].owners[owner_row],
                              tracker->record.head.round);
            }
        }
    }
}

static bool is_pair_separated(const struct tracker *tracker, uint32_t row, uint32_t owner_row) {
    const struct tracker_pair *pair = &tracker->pairs.contributors[row].owners[owner_row];
    return pair->until_round > tracker->record.head.round;
}

/* The seats whose contributions an owner does not wait for. */
uint64_t tracker_separated_seats(const struct tracker *tracker, uint32_t owner) {
    int owner_row = tracker->seats.row_of_seat[owner];
    uint64_t seats = 0;
    SEATS_EACH(seat, owner_row == NO_SEAT ? 0 : roster_seats(&tracker->record.head)) {
        int row = tracker->seats.row_of_seat[seat];
        bool is_apart =
            row != NO_SEAT && is_pair_separated(tracker, (uint32_t)row, (uint32_t)owner_row);
        seats |= is_apart ? seat_bit(seat) : 0;
    }
    ASSERT(!seats_contain(seats, owner));
    return seats;
}

/* Whether a row is separated from more than a third of the voters. */
bool tracker_has_many_pairs(const struct tracker *tracker, uint32_t row) {
    uint32_t partners = 0;
    ASSERT(row < SWARM_MEMBERS_MAX);
    for (uint32_t other = 0; other < tracker->record.member_count; other++) {
        bool is_apart =
            is_pair_separated(tracker, row, other) || is_pair_separated(tracker, other, row);
        partners += is_apart && !tracker_is_guest(tracker, other);
    }
    return FAULTY_PAIRS_DIVISOR * partners > entry_voter_count(&tracker->record.head);
}
