/* tracker_write_table: deadlines from what was measured, and a round's table: weights and
 * owners. */
#include "runtime/swarm/protocol/tracker_state.h"

#include <string.h>

static uint64_t seat_bit(uint32_t seat) {
    return UINT64_C(1) << seat;
}

/* Members that have trained and exchanged: what the others would do is not known yet. */
void tracker_derive_timing(struct tracker *tracker) {
    uint32_t count = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct timing_measured *measured = &tracker->members[row].measured;
        if (!tracker->members[row].silent && measured->step_ms > 0 && measured->transfer_ms > 0) {
            tracker->measured[count++] = *measured;
        }
    }
    tracker->measured_count = count;
    tracker->timing = count > 0
                          ? timing_derive(tracker->measured, count, &tracker->settings.training)
                          : tracker->settings.timing;
}

static const struct timing_measured *measured_at(const struct tracker *tracker, uint32_t seat) {
    static const struct timing_measured unknown = {.up_kib_s = TIMING_UNKNOWN};
    int row = tracker->row_of_seat[seat];
    return row != NO_SEAT ? &tracker->members[row].measured : &unknown;
}

/* The lower median of the uploads that are known, by insertion; 1 if none is. */
static uint64_t median_up(const struct tracker *tracker, uint64_t seats) {
    uint32_t sorted[SWARM_MEMBERS_MAX];
    uint32_t count = 0;
    for (; seats != 0; seats &= seats - 1) {
        uint32_t up = measured_at(tracker, (uint32_t)__builtin_ctzll(seats))->up_kib_s;
        if (up == TIMING_UNKNOWN || up == 0) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && sorted[at - 1] > up; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = up;
    }
    return count > 0 ? sorted[(count - 1) / 2] : 1;
}

/* What is measured of equal lines differs: an owner of more slices than its line earns is waited
 * for by all, and it costs little to treat lines as equal that nearly are. */
static int is_like(uint64_t up, uint64_t median) {
    return 3 * up > 2 * median && 2 * up < 3 * median;
}

void tracker_upload_rates(const struct tracker *tracker, uint64_t seats,
                          uint64_t shares[static SWARM_MEMBERS_MAX]) {
    uint64_t median = median_up(tracker, seats);
    uint64_t total = 0;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        uint32_t up = (seats & seat_bit(seat)) != 0 ? measured_at(tracker, seat)->up_kib_s : 0;
        shares[seat] = up == TIMING_UNKNOWN || is_like(up, median) ? median : up;
        total += shares[seat];
    }
    for (uint32_t seat = 0; total == 0 && seat < SWARM_MEMBERS_MAX; seat++) {
        shares[seat] = seats >> seat & 1; /* nobody owns any: then everybody does */
    }
}

/* Seats that do not answer a seat, as it says. */
static uint64_t cut_of(const struct tracker *tracker, uint32_t seat) {
    int row = tracker->row_of_seat[seat];
    uint64_t seats = 0;
    for (uint64_t cut = row == NO_SEAT ? 0 : tracker->members[row].cut; cut != 0; cut &= cut - 1) {
        int other = tracker->seat_of_row[__builtin_ctzll(cut)];
        seats |= other == NO_SEAT ? 0 : seat_bit((uint32_t)other);
    }
    return seats & ~seat_bit(seat);
}

void tracker_links(const struct tracker *tracker, uint64_t seats, struct tracker_links *links) {
    int count = __builtin_popcountll(seats);
    memset(links, 0, sizeof(*links));
    for (uint64_t left = seats; left != 0; left &= left - 1) {
        uint32_t seat = (uint32_t)__builtin_ctzll(left);
        uint64_t cut = cut_of(tracker, seat) & seats;
        links->cut[seat] |= cut;
        for (; cut != 0; cut &= cut - 1) {
            links->cut[__builtin_ctzll(cut)] |= seat_bit(seat);
        }
    }
    for (uint64_t left = seats; left != 0; left &= left - 1) {
        uint32_t seat = (uint32_t)__builtin_ctzll(left);
        int reached = __builtin_popcountll(seats & ~links->cut[seat]);
        links->fit |= 2 * reached > count ? seat_bit(seat) : 0;
        links->owners |= reached == count ? seat_bit(seat) : 0;
    }
    links->fit = links->fit != 0 ? links->fit : seats;
    links->owners = 2 * __builtin_popcountll(links->owners) >= count ? links->owners : links->fit;
}

/* How many slices each seat owns: its part of them, rounded down, and one more for those with the
 * largest remainders, lower seats first. */
static void deal(uint32_t slice_count, const uint64_t shares[static SWARM_MEMBERS_MAX],
                 uint32_t counts[static SWARM_MEMBERS_MAX]) {
    uint64_t remainders[SWARM_MEMBERS_MAX];
    uint64_t total = 0;
    uint32_t left = slice_count;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        total += shares[seat];
    }
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        counts[seat] = (uint32_t)(slice_count * shares[seat] / total);
        remainders[seat] = slice_count * shares[seat] % total;
        left -= counts[seat];
    }
    for (; left > 0; left--) {
        uint32_t most = 0;
        for (uint32_t seat = 1; seat < SWARM_MEMBERS_MAX; seat++) {
            most = remainders[seat] > remainders[most] ? seat : most;
        }
        counts[most] += 1;
        remainders[most] = 0;
    }
}

uint64_t tracker_weighted_seats(const struct round_table *table, uint64_t seats) {
    uint64_t weighted = 0;
    for (; seats != 0; seats &= seats - 1) {
        uint32_t seat = (uint32_t)__builtin_ctzll(seats);
        weighted |= table->members[seat].weight > 0 ? seat_bit(seat) : 0;
    }
    return weighted;
}

/* What a seat's work counts: at most what it was given to do. */
static struct entry_member weigh(const struct tracker *tracker, uint32_t seat) {
    const struct entry_seat *at = &tracker->record.head.seats[seat];
    uint64_t tokens = tracker->members[tracker->row_of_seat[seat]].tokens;
    uint64_t samples = 0;
    for (uint32_t r = 0; r < at->range_count; r++) {
        samples += at->ranges[r].end - at->ranges[r].begin;
    }
    uint64_t assigned = samples * tracker->settings.sample_tokens;
    tokens = tokens < INT64_MAX ? tokens : INT64_MAX; /* as an entry holds it */
    return (struct entry_member){tokens, tokens < assigned ? tokens : assigned};
}

void tracker_write_table(struct tracker *tracker, struct actions *actions) {
    tracker_draft_plans(tracker);
    struct round_table *table = &tracker->next.table;
    const struct entry *open = &tracker->record.head;
    uint64_t shares[SWARM_MEMBERS_MAX];
    uint32_t counts[SWARM_MEMBERS_MAX];
    struct tracker_links links;
    table->round = open->round;
    table->version = 1;
    table->declared = 0;
    memset(table->members, 0, sizeof(table->members));
    memcpy(table->signatures, tracker->signatures, sizeof(table->signatures));
    uint64_t live = tracker_live_seats(tracker);
    for (uint32_t seat = 0; seat < open->seat_count; seat++) {
        int row = tracker->row_of_seat[seat];
        if ((live & seat_bit(seat)) != 0 && tracker->members[row].has_declared) {
            table->declared |= seat_bit(seat);
            table->members[seat] = weigh(tracker, seat);
        }
    }
    tracker_links(tracker, table->declared, &links);
    tracker_upload_rates(tracker, links.owners, shares);
    deal(tracker->settings.slice_count, shares, counts);
    uint64_t expected = tracker_weighted_seats(table, table->declared);
    uint32_t owner = 0;
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        while (counts[owner] == 0) {
            owner++;
        }
        counts[owner] -= 1;
        table->slices[s] =
            (struct slice_plan){.owner = owner, .expected = expected & ~links.cut[owner]};
    }
    tracker_write(tracker, RECORD_PLANS | RECORD_DECLARED, actions);
}
