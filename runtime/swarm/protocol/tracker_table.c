/* tracker_table: deadlines from the members' measurements, and the table of a round: weights,
 * owners and hashes. */
#include "runtime/swarm/protocol/tracker_state.h"

#include "base/statistics.h"

/* Derives the deadlines from members that have trained and exchanged. The speed of the other
 * members is not known yet. */
void tracker_derive_timing(struct tracker *tracker) {
    struct tracker_deadlines *deadlines = &tracker->deadlines;
    uint32_t count = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct timing_measured *measured = &tracker->members[row].report.measured;
        if (!tracker->members[row].is_silent && measured->step_ms > 0 &&
            measured->transfer_ms > 0) {
            deadlines->measured[count++] = *measured;
        }
    }
    ASSERT(count <= tracker->record.member_count);
    deadlines->measured_count = count;
    deadlines->timing = count > 0
                            ? timing_derive(deadlines->measured, count, &tracker->settings.training)
                            : tracker->settings.timing;
    ASSERT(deadlines->timing.heartbeat_ms > 0 &&
           deadlines->timing.round_ms >= deadlines->timing.train_ms);
}

static const struct timing_measured *measured_of_seat(const struct tracker *tracker,
                                                      uint32_t seat) {
    static const struct timing_measured unknown = {.upload_kib_s = TIMING_UNKNOWN};
    ASSERT(seat < SWARM_MEMBERS_MAX);
    int row = tracker->seats.row_of_seat[seat];
    return row != NO_SEAT ? &tracker->members[row].report.measured : &unknown;
}

/* The lower median of the known upload rates; 1 if no rate is known. */
static uint64_t median_upload_rate(const struct tracker *tracker, uint64_t seats) {
    int64_t rates[SWARM_MEMBERS_MAX];
    int count = 0;
    SEATS_EACH(seat, seats) {
        uint32_t rate = measured_of_seat(tracker, (uint32_t)seat)->upload_kib_s;
        if (rate != TIMING_UNKNOWN && rate != 0) {
            rates[count++] = rate;
        }
    }
    return count > 0 ? (uint64_t)sorted_value_i64(rates, count, (count - 1) / 2) : 1;
}

/* Measurements of equal uplinks differ. An owner with more slices than its uplink can carry delays
 * all members, and treating similar uplinks as equal costs little. */
static bool is_similar_rate(uint64_t up, uint64_t median) {
    return 3 * up > 2 * median && 2 * up < 3 * median;
}

void tracker_fill_upload_rates(const struct tracker *tracker, uint64_t seats,
                               uint64_t rates[static SWARM_MEMBERS_MAX]) {
    uint64_t median = median_upload_rate(tracker, seats);
    uint64_t total = 0;
    ASSERT(seats != 0 && median > 0);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        uint32_t up =
            seats_contain(seats, seat) ? measured_of_seat(tracker, seat)->upload_kib_s : 0;
        rates[seat] = up == TIMING_UNKNOWN || is_similar_rate(up, median) ? median : up;
        total += rates[seat];
    }
    for (uint32_t seat = 0; total == 0 && seat < SWARM_MEMBERS_MAX; seat++) {
        rates[seat] = seats_contain(seats, seat); /* if no seat may own slices, all may */
    }
}

/* Returns the seats that, according to the report of `seat`, do not answer it. */
static uint64_t reported_unreachable_seats(const struct tracker *tracker, uint32_t seat) {
    int row = tracker->seats.row_of_seat[seat];
    uint64_t seats = 0;
    SEATS_EACH(other_row, row == NO_SEAT ? 0 : tracker->members[row].report.unreachable) {
        int other = tracker->seats.seat_of_row[other_row];
        seats |= other == NO_SEAT ? 0 : seat_bit((uint32_t)other);
    }
    ASSERT((seats & ~roster_seats(&tracker->record.head)) == 0);
    return seats & ~seat_bit(seat);
}

void tracker_find_links(const struct tracker *tracker, uint64_t seats,
                        struct tracker_links *links) {
    uint32_t count = seats_count(seats);
    memset(links, 0, sizeof *links);
    SEATS_EACH(seat, seats) {
        uint64_t unreachable = reported_unreachable_seats(tracker, (uint32_t)seat) & seats;
        links->unreachable[seat] |= unreachable;
        SEATS_EACH(other, unreachable) {
            links->unreachable[other] |= seat_bit(seat);
        }
    }
    SEATS_EACH(seat, seats) {
        uint32_t reached = seats_count(seats & ~links->unreachable[seat]);
        ASSERT(reached > 0 && !seats_contain(links->unreachable[seat], seat));
        links->well_connected |= 2 * reached > count ? seat_bit(seat) : 0;
        links->owner_candidates |= reached == count ? seat_bit(seat) : 0;
    }
    links->well_connected = links->well_connected != 0 ? links->well_connected : seats;
    links->owner_candidates = 2 * seats_count(links->owner_candidates) >= count
                                  ? links->owner_candidates
                                  : links->well_connected;
}

/* Computes the number of slices of each seat: its share by rate, rounded down, plus one for the
 * seats with the largest remainders, lower seats first. */
static void divide_slices(uint32_t slice_count, const uint64_t rates[static SWARM_MEMBERS_MAX],
                          uint32_t counts[static SWARM_MEMBERS_MAX]) {
    uint64_t remainders[SWARM_MEMBERS_MAX];
    uint64_t total = 0;
    uint32_t left = slice_count;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        total += rates[seat];
    }
    ASSERT(total > 0);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        counts[seat] = (uint32_t)(slice_count * rates[seat] / total);
        remainders[seat] = slice_count * rates[seat] % total;
        left -= counts[seat];
    }
    ASSERT(left < SWARM_MEMBERS_MAX);
    for (; left > 0; left--) {
        uint32_t largest = 0;
        for (uint32_t seat = 1; seat < SWARM_MEMBERS_MAX; seat++) {
            largest = remainders[seat] > remainders[largest] ? seat : largest;
        }
        counts[largest] += 1;
        remainders[largest] = 0;
    }
}

uint64_t tracker_weighted_seats(const struct round_table *table, uint64_t seats) {
    uint64_t weighted = 0;
    SEATS_EACH(seat, seats) {
        weighted |= table->members[seat].weight > 0 ? seat_bit(seat) : 0;
    }
    ASSERT((weighted & ~table->declared_seats) == 0);
    return weighted;
}

uint64_t tracker_assigned_samples(const struct tracker *tracker, uint32_t seat) {
    const struct entry_seat *at = &tracker->record.head.seats[seat];
    uint64_t samples = 0;
    for (uint32_t r = 0; r < at->range_count; r++) {
        ASSERT(at->ranges[r].begin <= at->ranges[r].end);
        samples += at->ranges[r].end - at->ranges[r].begin;
    }
    return samples;
}

/* The weight of a seat's work: its tokens, but at most those of the samples that it trained on. */
static struct entry_member weight_of_seat(struct tracker *tracker, uint32_t seat) {
    const struct training_amount *trained = &tracker_member_in_seat(tracker, seat)->trained;
    uint64_t tokens_max = trained->samples * tracker->settings.sample_tokens;
    uint64_t tokens = trained->tokens;
    tokens = tokens < INT64_MAX ? tokens : INT64_MAX; /* the maximum that an entry can store */
    ASSERT(trained->samples <= tracker_assigned_samples(tracker, seat));
    return (struct entry_member){tokens, tokens < tokens_max ? tokens : tokens_max,
                                 trained->samples};
}

/* Copies the declarations of live seats into the table. */
static void fill_declarations(struct tracker *tracker, struct round_table *table) {
    table->declared_seats = 0;
    memset(table->members, 0, sizeof table->members);
    memset(table->signatures, 0, sizeof table->signatures);
    SEATS_EACH(seat, tracker_live_seats(tracker)) {
        const struct tracker_member *member = tracker_member_in_seat(tracker, (uint32_t)seat);
        if (member->has_declared) {
            table->declared_seats |= seat_bit(seat);
            table->members[seat] = weight_of_seat(tracker, (uint32_t)seat);
            table->signatures[seat] = member->declaration;
        }
    }
}

static void fill_plans(const struct tracker *tracker, struct round_table *table) {
    uint64_t rates[SWARM_MEMBERS_MAX];
    uint32_t counts[SWARM_MEMBERS_MAX];
    struct tracker_links links;
    tracker_find_links(tracker, table->declared_seats, &links);
    tracker_fill_upload_rates(tracker, links.owner_candidates, rates);
    divide_slices(tracker->settings.slice_count, rates, counts);
    uint64_t expected = tracker_weighted_seats(table, table->declared_seats);
    uint32_t owner = 0;
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        while (counts[owner] == 0) {
            owner++;
        }
        counts[owner] -= 1;
        ASSERT(seats_contain(table->declared_seats, owner));
        table->slices[s] = (struct slice_plan){
            .owner = owner, .expected_seats = expected & ~links.unreachable[owner]};
    }
}

void tracker_write_table(struct tracker *tracker, struct actions *actions) {
    ASSERT(tracker->stage.kind == STAGE_TRAIN && tracker->record.head.kind == ENTRY_OPEN);
    tracker_draft_plans(tracker);
    struct round_table *table = &tracker->writer.next.table;
    table->round = tracker->record.head.round;
    table->version = 1;
    fill_declarations(tracker, table);
    fill_plans(tracker, table);
    tracker_write_draft(tracker, RECORD_PLANS | RECORD_DECLARED, actions);
}

void tracker_change_plan(struct tracker *tracker, uint32_t slice, const struct slice_plan *plan) {
    struct round_table *table = &tracker->writer.next.table;
    ASSERT(slice < tracker->settings.slice_count);
    ASSERT(table->slices != tracker->record.table.slices);
    table->slices[slice] = *plan;
    table->version = tracker->record.table.version + 1;
}

void tracker_clear_table(struct tracker *tracker, uint32_t round) {
    struct round_table *table = &tracker->writer.next.table;
    ASSERT(round > table->round);
    table->round = round;
    table->version = 0;
}
