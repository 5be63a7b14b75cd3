/* member_results: the results and contributions that this member stores, slice by slice, and the
 * seats that wait for a result. */
#include "runtime/swarm/protocol/member_state.h"

void results_bind(struct member_results *results, char **memory, size_t slice_count) {
    results->reports = carve(memory, slice_count * sizeof *results->reports);
    results->waiting_seats = carve(memory, slice_count * sizeof *results->waiting_seats);
}

void results_load(struct member_results *results, const struct member_initial_state *start) {
    results->round = start->stored_round;
    if (start->stored_round > 0) {
        memcpy(results->reports, start->stored, start->slice_count * sizeof *results->reports);
    }
}

void results_reset(struct member_results *results, uint32_t round, uint32_t slice_count) {
    ASSERT(slice_count > 0 && slice_count <= SWARM_SLICES_MAX);
    results->round = round;
    memset(results->reports, 0, slice_count * sizeof *results->reports);
}

void results_clear_waiting(struct member_results *results, uint32_t slice_count) {
    ASSERT(slice_count > 0 && slice_count <= SWARM_SLICES_MAX);
    memset(results->waiting_seats, 0, slice_count * sizeof *results->waiting_seats);
}

void results_restart_slice(struct member_results *results, uint32_t slice, uint32_t epoch) {
    ASSERT(epoch <= SWARM_EPOCH_MAX);
    results->reports[slice] = (struct slice_report){.epoch = epoch};
}

/* Equal bytes do not prove equal results: a different sum may give the same bytes, and an owner or
 * the tracker may list a contributor that is not in the sum. */
static bool is_listed_result(const struct slice_report *report, const struct entry_slice *named) {
    ASSERT(report->has_result <= 1);
    return report->has_result != 0 && hash_equal(&report->hash, &named->hash) &&
           report->epoch == named->epoch && report->contributors == named->contributors;
}

void results_keep_listed(struct member_results *results, const struct entry *entry) {
    ASSERT(results->round == entry->round);
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        struct slice_report *report = &results->reports[s];
        if (!is_listed_result(report, &entry->slices[s])) {
            report->has_result = 0;
            report->contributors = 0;
            report->hash = (struct hash){{0}};
        }
    }
}

void results_set_result(struct member_results *results, uint32_t slice,
                        const struct slice_report *result) {
    struct slice_report *report = &results->reports[slice];
    ASSERT(report->has_result == 0);
    ASSERT(!hash_is_zero(&result->hash));
    ASSERT(result->epoch <= SWARM_EPOCH_MAX);
    report->has_result = 1;
    report->epoch = result->epoch;
    report->hash = result->hash;
    report->contributors = result->contributors;
}

void results_add_contributions(struct member_results *results, uint32_t slice, uint64_t seats) {
    ASSERT(results->reports[slice].has_result == 0);
    results->reports[slice].received_seats |= seats;
}

void results_reject_contribution(struct member_results *results, uint32_t slice, uint32_t seat) {
    struct slice_report *report = &results->reports[slice];
    ASSERT(seats_contain(report->received_seats, seat) &&
           !seats_contain(report->rejected_seats, seat));
    report->rejected_seats |= seat_bit(seat);
}

void results_drop_contribution(struct member_results *results, uint32_t slice, uint32_t seat) {
    ASSERT(results->reports[slice].has_result == 0);
    results->reports[slice].received_seats &= ~seat_bit(seat);
}

void results_keep_contributions(struct member_results *results, uint32_t slice, uint64_t seats) {
    ASSERT(results->reports[slice].has_result == 0);
    results->reports[slice].received_seats = seats;
    results->reports[slice].rejected_seats = 0;
}

void results_add_waiting_seat(struct member_results *results, uint32_t slice, uint32_t seat) {
    results->waiting_seats[slice] |= seat_bit(seat);
}

uint64_t results_pop_waiting_seats(struct member_results *results, uint32_t slice) {
    ASSERT(results->reports[slice].has_result != 0);
    uint64_t waiting = results->waiting_seats[slice];
    results->waiting_seats[slice] = 0;
    return waiting;
}

bool member_has_all_results(const struct member *member) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < member->slice_count; s++) {
        count += member->results.reports[s].has_result;
    }
    ASSERT(count <= member->slice_count);
    return count == member->slice_count;
}
