/* member_results: the results and contributions that this member stores, slice by slice, and the
 * seats that wait for a result. */
#include "runtime/swarm/member_machine/member_state.h"

void results_bind(struct member_results *results, char **memory, size_t slice_count) {
    results->next_report = 1;
    results->slice_count = (uint32_t)slice_count;
    results->reports = carve(memory, slice_count * sizeof *results->reports);
    results->waiting_seats = carve(memory, slice_count * sizeof *results->waiting_seats);
    results->left_out = carve(memory, slice_count * sizeof *results->left_out);
}

/* Returns a row to be changed, and marks it as changed, so that the next report has it. */
static struct slice_report *change_row(struct member_results *results, uint32_t slice) {
    struct slice_report *row = &results->reports[slice];
    ASSERT(row->changed <= results->next_report);
    row->changed = results->next_report;
    return row;
}

/* Finds the first slice without a result. Most results arrive in the order of the slices, so that
 * passes over the slices without a result are short when they begin with the first of these. */
static void find_first_open(struct member_results *results) {
    while (results->first_open < results->slice_count &&
           results->reports[results->first_open].has_result != 0) {
        results->first_open++;
    }
}

static void reopen_slice(struct member_results *results, uint32_t slice) {
    results->first_open = slice < results->first_open ? slice : results->first_open;
}

/* Sets the row of a slice to zero except for its epoch, which becomes `epoch`. */
static void clear_row(struct member_results *results, uint32_t slice, uint32_t epoch) {
    const struct slice_report *row = &results->reports[slice];
    const struct slice_report cleared = {.epoch = epoch, .changed = row->changed};
    reopen_slice(results, slice);
    if (memcmp(row, &cleared, sizeof cleared) != 0) {
        *change_row(results, slice) =
            (struct slice_report){.epoch = epoch, .changed = results->next_report};
    }
}

void results_load(struct member_results *results, const struct member_initial_state *start) {
    results->round = start->stored_round;
    if (start->stored_round > 0) {
        memcpy(results->reports, start->stored, start->slice_count * sizeof *results->reports);
        for (uint32_t s = 0; s < start->slice_count; s++) {
            results->reports[s].changed = 0;
            (void)change_row(results, s);
        }
        find_first_open(results);
    }
}

void results_reset(struct member_results *results, uint32_t round, uint32_t slice_count) {
    ASSERT(slice_count > 0 && slice_count <= SWARM_SLICES_MAX);
    results->round = round;
    for (uint32_t s = 0; s < slice_count; s++) {
        clear_row(results, s, 0);
    }
}

void results_clear_waiting(struct member_results *results, uint32_t slice_count) {
    ASSERT(slice_count > 0 && slice_count <= SWARM_SLICES_MAX);
    memset(results->waiting_seats, 0, slice_count * sizeof *results->waiting_seats);
    memset(results->left_out, 0, slice_count * sizeof *results->left_out);
}

void results_restart_slice(struct member_results *results, uint32_t slice, uint32_t epoch) {
    ASSERT(epoch <= SWARM_EPOCH_MAX);
    clear_row(results, slice, epoch);
}

/* Whether the stored result of a slice is the one that an entry lists. Compares contributors too:
 * equal bytes do not prove equal results, because a different sum may give the same bytes, and an
 * owner or the tracker may list a contributor that is not in the sum. */
static bool is_listed_result(const struct slice_report *report, const struct entry_slice *named) {
    ASSERT(report->has_result <= 1);
    return report->has_result != 0 && hash_equal(&report->hash, &named->hash) &&
           report->epoch == named->epoch && report->contributors == named->contributors;
}

void results_keep_listed(struct member_results *results, const struct entry *entry) {
    ASSERT(results->round == entry->round);
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        const struct slice_report *stored = &results->reports[s];
        if (stored->has_result != 0 && !is_listed_result(stored, &entry->slices[s])) {
            struct slice_report *report = change_row(results, s);
            report->has_result = 0;
            reopen_slice(results, s);
            report->contributors = 0;
            report->hash = (struct hash){{0}};
        }
    }
}

void results_set_result(struct member_results *results, uint32_t slice,
                        const struct slice_report *result) {
    struct slice_report *report = change_row(results, slice);
    ASSERT(report->has_result == 0);
    ASSERT(!hash_is_zero(&result->hash));
    ASSERT(result->epoch <= SWARM_EPOCH_MAX);
    report->has_result = 1;
    report->epoch = result->epoch;
    report->hash = result->hash;
    report->contributors = result->contributors;
    find_first_open(results);
}

void results_add_contributions(struct member_results *results, uint32_t slice, uint64_t seats) {
    ASSERT(results->reports[slice].has_result == 0);
    if ((seats & ~results->reports[slice].received_seats) != 0) {
        change_row(results, slice)->received_seats |= seats;
    }
}

void results_reject_contribution(struct member_results *results, uint32_t slice, uint32_t seat,
                                 bool is_repeated) {
    struct slice_report *report = change_row(results, slice);
    ASSERT(seats_contain(report->received_seats, seat) &&
           !seats_contain(report->rejected_seats, seat));
    report->rejected_seats |= seat_bit(seat);
    report->repeated_seats |= is_repeated ? seat_bit(seat) : 0;
}

void results_drop_contribution(struct member_results *results, uint32_t slice, uint32_t seat) {
    ASSERT(results->reports[slice].has_result == 0);
    change_row(results, slice)->received_seats &= ~seat_bit(seat);
}

void results_set_contributions(struct member_results *results, uint32_t slice, uint64_t seats) {
    ASSERT(results->reports[slice].has_result == 0);
    struct slice_report *report = change_row(results, slice);
    report->received_seats = seats;
    report->rejected_seats = 0;
    report->repeated_seats = 0;
}

void results_add_waiting_seat(struct member_results *results, uint32_t slice, uint32_t seat,
                              bool is_left_out) {
    results->waiting_seats[slice] |= seat_bit(seat);
    results->left_out[slice] &= ~seat_bit(seat);
    results->left_out[slice] |= is_left_out ? seat_bit(seat) : 0;
}

uint64_t results_pop_waiting_seats(struct member_results *results, uint32_t slice,
                                   uint64_t *left_out) {
    ASSERT(results->reports[slice].has_result != 0);
    uint64_t waiting = results->waiting_seats[slice];
    *left_out = results->left_out[slice];
    results->waiting_seats[slice] = 0;
    results->left_out[slice] = 0;
    return waiting;
}

/* Begins the report after report `number`. Returns whether a row has changed since `confirmed`. */
bool results_begin_report(struct member_results *results, uint32_t slice_count, uint64_t number,
                          uint64_t confirmed) {
    uint32_t rows = 0;
    uint32_t results_left = REPORT_RESULTS_MAX;
    ASSERT(results->next_report == number && confirmed < number);
    for (uint32_t s = 0; s < slice_count; s++) {
        struct slice_report *row = &results->reports[s];
        bool is_due = row->changed > confirmed;
        bool is_postponed = is_due && row->has_result != 0 && results_left == 0;
        rows += is_due && !is_postponed;
        results_left -= is_due && row->has_result != 0 && !is_postponed;
        row->changed += is_postponed ? number + 1 - row->changed : 0;
    }
    results->next_report = number + 1;
    return rows > 0;
}

/* Whether the list of a sparse codec has only contributions that their members declared, with the
 * weights and limits of the table: an owner can leave a contribution out, and cannot change one. */
static bool is_declared_list(const struct member *member, const struct message *message) {
    const struct round_table *table = &member->table;
    const struct listed_contribution *listed = message->values.listed;
    bool is_declared = message->values.value_limit ==
                       norms_value_limit(table->reference_norm, member->sent_values);
    SEATS_EACH(seat, message->contributors) {
        const struct entry_member *declared = &table->members[seat];
        const struct contribution_part *part = &listed->part;
        is_declared = is_declared && part->weight == declared->weight &&
                      part->clip == norms_clip_factor(declared->norm, table->reference_norm) &&
                      listed->norm == part->proof.norm &&
                      norm_allows_slice(declared->norm, listed->norm) &&
                      contribution_is_proven(&table->roots[seat], member->slice_count,
                                             message->slice, &listed->hash, &part->proof);
        listed++;
    }
    return is_declared;
}

/* Whether a mean of the contributions can have the norm of this result, or, with a sparse codec,
 * whether all contributions in the list were declared. A result that a quorum has committed is not
 * checked. */
bool member_is_possible_result(const struct member *member, const struct message *message) {
    const struct round_table *table = &member->table;
    if (member->commit.is_pending || table->version == 0) {
        return true;
    }
    return member->sent_values > 0
               ? is_declared_list(member, message)
               : norm_allows_result(table->reference_norm, message->values.norm);
}

bool member_has_all_results(const struct member *member) {
    ASSERT(member->results.first_open <= member->slice_count);
    return member->results.first_open == member->slice_count;
}
