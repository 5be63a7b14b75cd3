/* tracker_table: the table of a round: weights, owners, contributors and roots. */
#include "base/statistics.h"
#include "runtime/swarm/tracker_machine/tracker_state.h"

/* The lower median of the known upload rates; 1 if no rate is known. */
static uint64_t median_upload_rate(const struct tracker *tracker, uint64_t seats) {
    int64_t rates[SWARM_MEMBERS_MAX];
    int count = 0;
    SEATS_EACH(seat, seats) {
        uint32_t rate = tracker_upload_rate(tracker, (uint32_t)tracker->seats.row_of_seat[seat]);
        if (rate != 0) {
            rates[count++] = rate;
        }
    }
    return count > 0 ? (uint64_t)sorted_value_i64(rates, count, (count - 1) / 2) : 1;
}

/* Whether an upload rate is so near the median that it is treated as equal. Measurements of equal
 * uplinks differ, and an owner with more slices than its uplink can carry delays all members. */
static bool is_similar_rate(uint64_t up, uint64_t median) {
    return 3 * up > 2 * median && 2 * up < 3 * median;
}

void tracker_fill_upload_rates(const struct tracker *tracker, uint64_t seats,
                               uint64_t rates[static SWARM_MEMBERS_MAX]) {
    uint64_t median = median_upload_rate(tracker, seats);
    ASSERT(seats != 0 && median > 0);
    memset(rates, 0, SWARM_MEMBERS_MAX * sizeof rates[0]);
    SEATS_EACH(seat, seats) {
        uint32_t up = tracker_upload_rate(tracker, (uint32_t)tracker->seats.row_of_seat[seat]);
        rates[seat] = up == 0 || is_similar_rate(up, median) ? median : up;
    }
}

/* Whether the member accepts connections, as it reports. */
static bool is_reachable(const struct tracker *tracker, uint32_t seat) {
    int row = tracker->seats.row_of_seat[seat];
    return row != NO_SEAT && tracker->members[row].report.measured.upload_kib_s != 0;
}

/* Returns the reachable seats that may own slices by their speed. If these are fewer than half of
 * the reachable seats, returns all of them: the measurements are then outdated, and the few fast
 * seats, which may be liars, would own everything. */
uint64_t tracker_owner_candidates(const struct tracker *tracker, uint64_t seats) {
    uint64_t reachable = 0;
    uint64_t fast = 0;
    ASSERT((seats & ~entry_voting_seats(&tracker->record.head)) == 0);
    SEATS_EACH(seat, seats) {
        int row = tracker->seats.row_of_seat[seat];
        reachable |= is_reachable(tracker, (uint32_t)seat) ? seat_bit(seat) : 0;
        fast |=
            row != NO_SEAT && tracker_may_own_slices(tracker, (uint32_t)row) ? seat_bit(seat) : 0;
    }
    seats = reachable != 0 ? reachable : seats; /* if no seat is reachable, all may own slices */
    return 2 * seats_count(seats & fast) >= seats_count(seats) ? seats & fast : seats;
}

/* Returns the seats that `seat` cannot connect to, according to its report. */
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
    uint64_t voters = seats & entry_voting_seats(&tracker->record.head);
    uint32_t count = seats_count(voters);
    memset(links, 0, sizeof *links);
    SEATS_EACH(seat, seats) {
        uint64_t unreachable = reported_unreachable_seats(tracker, (uint32_t)seat) & seats;
        links->unreachable[seat] |= unreachable;
        SEATS_EACH(other, unreachable) {
            links->unreachable[other] |= seat_bit(seat);
        }
    }
    SEATS_EACH(seat, voters) {
        uint32_t reached = seats_count(voters & ~links->unreachable[seat]);
        ASSERT(reached > 0 && !seats_contain(links->unreachable[seat], seat));
        links->well_connected |= 2 * reached > count ? seat_bit(seat) : 0;
        links->owner_candidates |= reached == count ? seat_bit(seat) : 0;
    }
    links->well_connected = links->well_connected != 0 ? links->well_connected : voters;
    links->owner_candidates = 2 * seats_count(links->owner_candidates) >= count
                                  ? links->owner_candidates
                                  : links->well_connected;
}

/* Takes slices from owners with more than `most`, and gives them to the other owners, one by
 * one. */
static void limit_owned_slices(uint64_t owners, uint32_t most,
                               uint32_t counts[static SWARM_MEMBERS_MAX]) {
    uint32_t surplus = 0;
    ASSERT(most > 0);
    SEATS_EACH(seat, owners) {
        surplus += counts[seat] > most ? counts[seat] - most : 0;
        counts[seat] = counts[seat] > most ? most : counts[seat];
    }
    while (surplus > 0) {
        SEATS_EACH(seat, surplus > 0 ? owners : 0) {
            uint32_t more = surplus > 0 && counts[seat] < most;
            counts[seat] += more;
            surplus -= more;
        }
    }
}

/* Computes the number of slices of each seat: its share by its rate, rounded down, plus one for
 * each of the seats with the largest remainders, lower seats first. No seat has more than
 * `most`. */
static void divide_slices(uint32_t slice_count, const uint64_t rates[static SWARM_MEMBERS_MAX],
                          uint32_t most, uint32_t counts[static SWARM_MEMBERS_MAX]) {
    uint64_t remainders[SWARM_MEMBERS_MAX];
    uint64_t total = 0;
    uint64_t owners = 0;
    uint32_t left = slice_count;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        total += rates[seat];
        owners |= rates[seat] > 0 ? seat_bit(seat) : 0;
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
    limit_owned_slices(owners, most, counts);
}

/* Returns the maximum number of slices of an owner: twice the share of a seat if all seats owned
 * equally many, or more if the owners are too few for that. */
static uint32_t owned_slices_max(uint32_t slice_count, uint64_t owners, uint64_t seats) {
    uint32_t fair = (2 * slice_count + seats_count(seats) - 1) / seats_count(seats);
    uint32_t needed = (slice_count + seats_count(owners) - 1) / seats_count(owners);
    return fair > needed ? fair : needed;
}

uint64_t tracker_weighted_seats(const struct round_table *table, uint64_t seats) {
    uint64_t weighted = 0;
    SEATS_EACH(seat, seats) {
        weighted |= table->members[seat].weight > 0 ? seat_bit(seat) : 0;
    }
    ASSERT((weighted & ~table->declared_seats) == 0);
    return weighted;
}

/* Returns a seat's declaration, with its weight before the norms are compared. Records whether it
 * repeats a contribution. */
static struct entry_member read_declaration(struct tracker *tracker, uint32_t seat) {
    const struct tracker_member *member = tracker_member_in_seat(tracker, seat);
    const struct training_amount *trained = &member->trained;
    uint64_t weight =
        declared_weight(trained->tokens, trained->samples, tracker->settings.sample_tokens);
    bool is_repeated = weight > 0 && !hash_equal(&member->root, &tracker->settings.zero_root) &&
                       repeats_contain(&tracker->repeats, &member->root, trained->norm);
    tracker->exchange.exclusions[seat] = is_repeated ? SUSPENSION_REPETITION : SUSPENSION_NONE;
    /* An entry stores at most INT64_MAX. */
    uint64_t tokens = trained->tokens < INT64_MAX ? trained->tokens : INT64_MAX;
    return (struct entry_member){.tokens = tokens,
                                 .weight = is_repeated ? 0 : weight,
                                 .samples = trained->samples,
                                 .norm = trained->norm};
}

/* Sets the weight of the seats whose norm is outside the bounds to 0, and records the reason. */
static void clear_weights_by_norm(struct tracker *tracker, struct round_table *table) {
    static const enum suspension_reason REASONS[] = {
        [NORM_ABOVE_BOUND] = SUSPENSION_LARGE_NORM, [NORM_WITHOUT_EFFECT] = SUSPENSION_NO_EFFECT};
    const struct entry *head = &tracker->record.head;
    enum norm_position positions[SWARM_MEMBERS_MAX];
    table->reference_norm =
        norms_limit_weights(table->members, head->seat_count, entry_voting_seats(head),
                            head->reference_norm, positions);
    for (uint32_t seat = 0; seat < head->seat_count; seat++) {
        if (positions[seat] != NORM_WITHIN_BOUNDS) {
            tracker->exchange.exclusions[seat] = REASONS[positions[seat]];
        }
    }
}

void tracker_restore_exclusions(struct tracker *tracker) {
    static const enum suspension_reason REASONS[] = {[NORM_WITHIN_BOUNDS] = SUSPENSION_REPETITION,
                                                     [NORM_ABOVE_BOUND] = SUSPENSION_LARGE_NORM,
                                                     [NORM_WITHOUT_EFFECT] = SUSPENSION_NO_EFFECT};
    const struct tracker_record *record = &tracker->record;
    const struct round_table *table = &record->table;
    const uint64_t voters = entry_voting_seats(&record->head);
    if (table->version == 0 || table->round != record->head.round ||
        record->head.kind != ENTRY_OPEN) {
        return;
    }
    struct entry_member members[SWARM_MEMBERS_MAX];
    enum norm_position positions[SWARM_MEMBERS_MAX];
    memcpy(members, table->members, sizeof members);
    norms_limit_weights(members, record->head.seat_count, voters, record->head.reference_norm,
                        positions);
    SEATS_EACH(seat, table->declared_seats & voters) {
        const struct entry_member *member = &table->members[seat];
        if (member->weight == 0 &&
            declared_weight(member->tokens, member->samples, tracker->settings.sample_tokens) > 0) {
            tracker->exchange.exclusions[seat] = REASONS[positions[seat]];
        }
    }
}

/* Copies the declarations of live seats into the table, and decides their weights. */
static void fill_declarations(struct tracker *tracker, struct round_table *table) {
    table->declared_seats = 0;
    memset(table->members, 0, sizeof table->members);
    memset(table->signatures, 0, sizeof table->signatures);
    memset(table->roots, 0, sizeof table->roots);
    memset(tracker->exchange.exclusions, 0, sizeof tracker->exchange.exclusions);
    SEATS_EACH(seat, tracker_live_seats(tracker)) {
        const struct tracker_member *member = tracker_member_in_seat(tracker, (uint32_t)seat);
        if (member->has_declared) {
            table->declared_seats |= seat_bit(seat);
            table->members[seat] = read_declaration(tracker, (uint32_t)seat);
            table->signatures[seat] = member->declaration;
            table->roots[seat] = member->root;
        }
    }
    clear_weights_by_norm(tracker, table);
}

/* Sets the seats that contribute to a slice. The owner does not wait for slow seats and seats that
 * are separated from it, unless these are more than half of the voting seats: then the network has
 * changed, or no speed is known yet. An owner always has its own contribution. */
void tracker_plan_seats(const struct tracker *tracker, const struct round_table *table,
                        uint32_t slice, uint64_t seats, struct slice_plan *plan) {
    uint64_t weighted = tracker_weighted_seats(table, seats & table->declared_seats);
    uint64_t separated = tracker_separated_seats(tracker, plan->owner);
    uint64_t voters = weighted & entry_voting_seats(&tracker->record.head);
    uint64_t fast = 0;
    uint64_t optional = 0;
    SEATS_EACH(seat, weighted) {
        int row = tracker->seats.row_of_seat[seat];
        bool is_fast = row != NO_SEAT && tracker_is_fast_enough(tracker, (uint32_t)row) &&
                       !seats_contain(separated, seat);
        bool is_optional =
            row != NO_SEAT && tracker_contributes_to_slice(tracker, (uint32_t)row, slice);
        fast |= is_fast ? seat_bit(seat) : 0;
        optional |= is_optional ? seat_bit(seat) : 0;
    }
    fast |= 2 * seats_count(fast & voters) < seats_count(voters) ? voters : 0;
    fast |= weighted & seat_bit(plan->owner);
    plan->expected_seats = fast;
    plan->optional_seats = optional & ~fast;
}

void plan_drop_seats(struct slice_plan *plan, uint64_t seats) {
    plan->expected_seats &= ~seats;
    plan->optional_seats &= ~seats;
}

/* Whether this report can be that of an honest owner, if the seat is the owner. An honest owner
 * waits for all expected contributions, so only those that it rejected may be missing. It never
 * rejects those of more than half of the voters, because fewer than a third of the voters lie. */
bool tracker_allows_result(const struct tracker *tracker, uint32_t seat, uint32_t slice,
                           const struct slice_report *report) {
    const struct slice_plan *plan = &tracker->record.table.slices[slice];
    const uint64_t voters = plan->expected_seats & entry_voting_seats(&tracker->record.head);
    ASSERT(slice < tracker->settings.slice_count);
    return seat != plan->owner ||
           ((plan->expected_seats & ~(report->contributors | report->rejected_seats)) == 0 &&
            2 * seats_count(voters & report->contributors) >= seats_count(voters));
}

/* Returns the seats that trained but have no weight, because of their norm or a comparison with
 * earlier rounds. */
static uint64_t find_weightless_seats(const struct round_table *table) {
    uint64_t excluded = 0;
    SEATS_EACH(seat, table->declared_seats) {
        const struct entry_member *declared = &table->members[seat];
        bool is_excluded = declared->weight == 0 && declared->tokens > 0 && declared->samples > 0;
        excluded |= is_excluded ? seat_bit(seat) : 0;
    }
    return excluded;
}

/* Plans all slices of the first table. A seat without a weight owns slices only if no other seat
 * can. */
static void fill_plans(const struct tracker *tracker, struct round_table *table) {
    uint64_t rates[SWARM_MEMBERS_MAX];
    uint32_t counts[SWARM_MEMBERS_MAX];
    struct tracker_links links;
    uint32_t slice_count = tracker->settings.slice_count;
    tracker_find_links(tracker, table->declared_seats, &links);
    uint64_t candidates = tracker_owner_candidates(tracker, links.owner_candidates);
    uint64_t owners = candidates & ~find_weightless_seats(table);
    owners = owners != 0 ? owners : candidates;
    tracker_fill_upload_rates(tracker, owners, rates);
    divide_slices(
        slice_count, rates,
        owned_slices_max(slice_count, owners,
                         table->declared_seats & entry_voting_seats(&tracker->record.head)),
        counts);
    uint32_t owner = 0;
    for (uint32_t s = 0; s < slice_count; s++) {
        while (counts[owner] == 0) {
            owner++;
        }
        counts[owner] -= 1;
        ASSERT(seats_contain(table->declared_seats, owner));
        table->slices[s] = (struct slice_plan){.owner = owner, .version = 1};
        tracker_plan_seats(tracker, table, s, table->declared_seats & ~links.unreachable[owner],
                           &table->slices[s]);
    }
}

void tracker_write_table(struct tracker *tracker, struct actions *actions) {
    ASSERT(tracker->stage.kind == STAGE_TRAIN && tracker->record.head.kind == ENTRY_OPEN);
    tracker_begin_draft_with_plans(tracker);
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
    table->version = tracker->record.table.version + 1;
    table->slices[slice] = *plan;
    table->slices[slice].version = table->version;
}

void table_mark_all_new(struct round_table *table, uint32_t slice_count) {
    ASSERT(slice_count <= SWARM_SLICES_MAX);
    for (uint32_t s = 0; s < slice_count; s++) {
        table->slices[s].version = table->version;
    }
}

void tracker_clear_table(struct tracker *tracker, uint32_t round) {
    struct round_table *table = &tracker->writer.next.table;
    ASSERT(round > table->round);
    table->round = round;
    table->version = 0;
}
