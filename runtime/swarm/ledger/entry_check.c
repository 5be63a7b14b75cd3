/* entry_check: implements entry_error, which checks one entry without the rest of its chain. */
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/norms.h"

#include <stdbool.h>
#include <string.h>

/* The largest integer that the JSON parsers of common languages accept. */
static const uint64_t NUMBER_MAX = INT64_MAX;

static bool are_bytes_zero(const void *bytes, size_t count) {
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < count; i++) {
        if (byte[i] != 0) {
            return false;
        }
    }
    return true;
}

static const char *cursor_error(const struct data_cursor *cursor) {
    uint64_t min = 0;
    if (cursor->position > NUMBER_MAX) {
        return "has a cursor position above 2^63";
    }
    for (uint32_t i = 0; i < cursor->returned_count; i++) {
        const struct sample_range *range = &cursor->returned[i];
        if (range->begin < min || range->begin >= range->end || range->end > cursor->position) {
            return "lists returned sample ranges that are out of order or above the cursor's "
                   "position";
        }
        min = range->end + 1; /* A gap is required, because adjacent ranges are merged into one. */
    }
    return NULL;
}

static const char *seats_error(const struct entry *entry) {
    if ((entry->kind == ENTRY_GENESIS) != (entry->seat_count == 0)) {
        return entry->seat_count == 0 ? "has no roster"
                                      : "has a roster, but precedes the first round";
    }
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        const struct entry_seat *seat = &entry->seats[i];
        if (seat->is_guest > 1) {
            return "has a seat with a role other than voter and guest";
        }
        for (uint32_t k = 0; k < i; k++) {
            if (memcmp(&entry->seats[k].id, &seat->id, sizeof seat->id) == 0) {
                return "has the same member twice in its roster";
            }
        }
        for (uint32_t k = 0; k < seat->range_count; k++) {
            if (seat->ranges[k].begin >= seat->ranges[k].end || seat->ranges[k].end > NUMBER_MAX) {
                return "has an empty range of samples";
            }
        }
    }
    return entry->seat_count == 0 || entry_voting_seats(entry) != 0
               ? NULL
               : "has a roster that consists of guests only";
}

/* Returns the sum of the contributors' weights, which cannot overflow: each weight is at most 2^63
 * / SWARM_MEMBERS_MAX. */
static uint64_t sum_weights(const struct entry *entry, uint64_t contributors) {
    uint64_t weight = 0;
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        weight += (contributors >> i & 1) != 0 ? entry->members[i].weight : 0;
    }
    return weight;
}

static const char *slice_error(const struct entry *entry, uint32_t index) {
    const struct entry_slice *slice = &entry->slices[index];
    uint64_t begin = index == 0 ? 0 : entry->slices[index - 1].end;
    if (slice->begin != begin || slice->end <= begin || slice->end > NUMBER_MAX) {
        return "has slices with gaps or overlaps";
    }
    if (slice->owner >= entry->seat_count ||
        (entry->seat_count < 64 && slice->contributors >> entry->seat_count != 0)) {
        return "has a slice whose owner or contributor has no seat in its roster";
    }
    if (slice->epoch > SWARM_EPOCH_MAX) {
        return "has a slice whose owner changed more often than the limit allows";
    }
    return slice->weight == sum_weights(entry, slice->contributors)
               ? NULL
               : "has a slice whose weight differs from the sum of its contributors' weights";
}

/* Checks the rows, and that the counts and the root in the commit are those of the rows. */
static const char *rows_error(const struct entry *entry) {
    uint32_t contributed[SWARM_MEMBERS_MAX] = {0}, owned[SWARM_MEMBERS_MAX] = {0};
    const char *error = NULL;
    for (uint32_t i = 0; i < entry->slice_count && error == NULL; i++) {
        error = slice_error(entry, i);
    }
    if (error != NULL || entry->slice_count == 0) {
        return error;
    }
    entry_count_results(entry, contributed, owned);
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        if (entry->members[i].contributed != contributed[i] ||
            entry->members[i].owned != owned[i]) {
            return "has a member whose number of contributed or owned slices differs from the list "
                   "of slices";
        }
    }
    const struct hash root = entry_results_root(entry);
    return hash_equal(&root, &entry->results)
               ? NULL
               : "has a list of slices that does not match the root of its results";
}

static const char *member_error(const struct entry *entry, uint32_t index) {
    const struct entry_seat *seat = &entry->seats[index];
    const struct entry_member *member = &entry->members[index];
    uint64_t assigned = 0;
    for (uint32_t k = 0; k < seat->range_count; k++) {
        assigned += seat->ranges[k].end - seat->ranges[k].begin;
    }
    if (member->samples > assigned) {
        return "has a member that trained on more samples than the round assigned to it";
    }
    if (member->tokens > NUMBER_MAX || member->weight > NUMBER_MAX / SWARM_MEMBERS_MAX) {
        return "has a weight or a number of tokens above the limit";
    }
    if (member->contributed > entry->result_count) {
        return "has a member that contributed to more slices than the round has";
    }
    if (seat->is_guest == 1 && member->owned > 0) {
        return "has a guest that owned slices, which only voters may";
    }
    return norm_is_valid(member->norm)
               ? NULL
               : "has a member whose norm is not a finite number of at least 0";
}

static const char *entry_results_error(const struct entry *entry) {
    uint64_t owned = 0;
    if (entry->kind != ENTRY_COMMIT) {
        return entry->slice_count == 0 && entry->result_count == 0 &&
                       are_bytes_zero(&entry->results, sizeof entry->results) &&
                       are_bytes_zero(&entry->chain, sizeof entry->chain)
                   ? NULL
                   : "has slices or the hash of a chain state, but is not a commit";
    }
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        const char *error = member_error(entry, i);
        if (error != NULL) {
            return error;
        }
        owned += entry->members[i].owned;
    }
    if (entry->result_count == 0) {
        return "has no slices";
    }
    if (owned != entry->result_count) {
        return "has members whose numbers of owned slices do not add up to its number of slices";
    }
    return entry->slice_count == 0 || entry->slice_count == entry->result_count
               ? rows_error(entry)
               : "lists only some of its slices";
}

static const char *signatures_error(const struct entry *entry) {
    if (entry->kind != ENTRY_COMMIT) {
        bool one = entry->signature_count <= 1 &&
                   (entry->signature_count == 0 || entry->signatures[0].seat == 0);
        return one ? NULL : "has signatures other than the tracker's";
    }
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        uint32_t seat = entry->signatures[i].seat;
        if (seat >= entry->seat_count || (i > 0 && seat <= entry->signatures[i - 1].seat)) {
            return "has signatures that are not in the order of the seats";
        }
        if (entry->seats[seat].is_guest == 1) {
            return "has the vote of a guest";
        }
    }
    return NULL;
}

static const char *suspension_error(const struct entry *entry) {
    const struct entry_suspension *suspension = &entry->suspension;
    if (entry->kind != ENTRY_SUSPEND) {
        return are_bytes_zero(suspension, sizeof *suspension)
                   ? NULL
                   : "has the fields of a suspension, but is not a SUSPEND entry";
    }
    if (suspension->reason == SUSPENSION_NONE || suspension->reason >= SUSPENSION_REASONS) {
        return "suspends a member for an unknown reason";
    }
    if (suspension->until_round <= entry->round) {
        return "suspends a member until a round that has already ended";
    }
    const struct entry_evidence *evidence = &suspension->evidence;
    if (!entry_has_evidence(suspension)) {
        return are_bytes_zero(evidence, sizeof *evidence)
                   ? NULL
                   : "has evidence, but a suspension for its reason must not have any";
    }
    return evidence->slice < SWARM_SLICES_MAX && evidence->epoch <= SWARM_EPOCH_MAX
               ? NULL
               : "has evidence with a slice or an epoch above its limit";
}

static const char *unused_field_error(const struct entry *entry) {
    bool genesis = entry->kind == ENTRY_GENESIS;
    if (!norm_is_valid(entry->reference_norm) || (genesis && entry->reference_norm != 0)) {
        return "has a reference norm that is not a finite number of at least 0";
    }
    if (genesis && (entry->round != 0 || entry->commits != 0 ||
                    !are_bytes_zero(&entry->prev, sizeof entry->prev))) {
        return "is a genesis, but not the first entry";
    }
    if (entry->kind == ENTRY_COMMIT && entry->commits == 0) {
        return "is a commit, but has a commit count of 0";
    }
    bool has_order = !are_bytes_zero(&entry->order, sizeof entry->order);
    if (has_order && entry->kind != ENTRY_ROLLBACK) {
        return "has the operator's order to roll back, but is not a rollback";
    }
    if (has_order && are_bytes_zero(&entry->order.newest, sizeof entry->order.newest)) {
        return "has an order to roll back that does not give the newest state";
    }
    if (!genesis && !are_bytes_zero(&entry->manifest, sizeof entry->manifest)) {
        return "has the hash of a manifest, but is not a genesis";
    }
    if (entry->kind != ENTRY_OPEN && entry->train_ms != 0) {
        return "has a deadline, but does not open a round";
    }
    return NULL;
}

static const char *documents_error(const struct entry *entry) {
    const struct delegation *delegation = &entry->documents.delegation;
    const struct roster_epoch *roster = &entry->documents.roster;
    if (delegation->serial > NUMBER_MAX || delegation->expires_s > NUMBER_MAX ||
        roster->serial > NUMBER_MAX) {
        return "has a document of the operator with a number above 2^63";
    }
    if ((entry->kind == ENTRY_COMMIT || delegation->serial == 0) &&
        !are_bytes_zero(delegation, sizeof *delegation)) {
        return "has a delegation without a serial, or is a commit, which cannot have one";
    }
    if (entry->kind != ENTRY_OPEN || roster->serial == 0) {
        return are_bytes_zero(roster, sizeof *roster)
                   ? NULL
                   : "has a roster epoch without a serial, or does not open a round";
    }
    return roster_epoch_error(roster);
}

static bool are_counts_valid(const struct entry *entry) {
    bool fit = (uint32_t)entry->kind <= ENTRY_SUSPEND && entry->seat_count <= SWARM_MEMBERS_MAX &&
               entry->slice_count <= SWARM_SLICES_MAX && entry->result_count <= SWARM_SLICES_MAX &&
               entry->signature_count <= SWARM_MEMBERS_MAX &&
               entry->leases.order.count <= ORDER_MEMBERS_MAX &&
               entry->cursor.returned_count <= SWARM_RETURNED_RANGES_MAX;
    for (uint32_t i = 0; fit && i < entry->seat_count; i++) {
        fit = entry->seats[i].range_count <= SWARM_SEAT_RANGES_MAX;
    }
    return fit;
}

const char *entry_error(const struct entry *entry) {
    static const char *(*const CHECKS[])(const struct entry *) = {
        unused_field_error, documents_error,     suspension_error, seats_error,
        entry_leases_error, entry_results_error, signatures_error};
    if (!are_counts_valid(entry)) {
        return "has a list that is longer than its limit";
    }
    const char *error = cursor_error(&entry->cursor);
    for (size_t i = 0; i < ARRAY_COUNT(CHECKS) && error == NULL; i++) {
        error = CHECKS[i](entry);
    }
    return error;
}
