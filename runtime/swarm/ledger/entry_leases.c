/* entry_leases: encodes and checks the fields of an entry that allow a tracker to open a round
 * after a state entry. */
#include "runtime/swarm/ledger/entry.h"

#include <stddef.h>
#include <string.h>

/* ---- bytes ---- */

static void pack_signatures(struct packer *packer, struct entry_leases *leases) {
    struct packer_rows rows = {leases->signatures, sizeof leases->signatures[0], SWARM_MEMBERS_MAX,
                               &leases->resigned};
    pack_bytes_column(packer, "resignation_signatures", rows, 0, SWARM_SIGNATURE_BYTES);
}

static void pack_continue_order(struct packer *packer, struct continue_order *order) {
    const uint32_t count = pack_variable_bin_header(packer, "order_members", &order->count,
                                                    ORDER_MEMBERS_MAX, KEY_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        pack_bin_part(packer, order->members[i], KEY_BYTES);
    }
    if (order->count > 0) {
        pack_bytes(packer, "order_to_continue", order->signature, SIGNATURE_BYTES);
    }
}

void entry_pack_leases(struct packer *packer, struct entry_leases *leases) {
    pack_u64(packer, "start", &leases->start);
    if (leases->start == 0) {
        return;
    }
    pack_bytes(packer, "state", leases->state.bytes, HASH_BYTES);
    pack_u64(packer, "resigned", &leases->resigned);
    pack_signatures(packer, leases);
    pack_continue_order(packer, &leases->order);
}

/* ---- one entry ---- */

static bool are_bytes_zero(const void *bytes, size_t count) {
    const uint8_t *byte = bytes;
    size_t at = 0;
    while (at < count && byte[at] == 0) {
        at++;
    }
    return at == count;
}

static bool has_unused_signatures(const struct entry_leases *leases) {
    bool has_unused = false;
    for (uint32_t i = 0; i < SWARM_MEMBERS_MAX && !has_unused; i++) {
        has_unused = (leases->resigned >> i & 1) == 0 &&
                     !are_bytes_zero(&leases->signatures[i], sizeof leases->signatures[i]);
    }
    return has_unused;
}

const char *entry_leases_error(const struct entry *entry) {
    const struct entry_leases *leases = &entry->leases;
    const bool has_start =
        (entry->kind == ENTRY_OPEN || entry->kind == ENTRY_ABORT) && leases->start != 0;
    if (leases->are_needed > 1 || (leases->are_needed == 1 && entry->kind != ENTRY_GENESIS)) {
        return "states whether the swarm uses leases, but is not a genesis";
    }
    if (!has_start) {
        return are_bytes_zero(leases, offsetof(struct entry_leases, are_needed))
                   ? NULL
                   : "has fields of leases, but does not open or abort a round under the start of "
                     "a tracker";
    }
    if (leases->start > INT64_MAX || has_unused_signatures(leases) ||
        (entry->kind == ENTRY_ABORT && (leases->resigned != 0 || leases->order.count != 0))) {
        return "has a tracker start above 2^63, a signature of an elector that has not resigned, "
               "or resignations in an ABORT";
    }
    if (leases->order.count == 0) {
        return are_bytes_zero(&leases->order, sizeof leases->order)
                   ? NULL
                   : "has an order to continue without a list of members";
    }
    return leases->resigned == 0
               ? continue_order_error(&leases->order)
               : "has both resignations of electors and the operator's order to continue";
}

/* ---- electors ---- */

bool entry_has_rollback_order(const struct entry *entry) {
    return entry->kind == ENTRY_ROLLBACK && !hash_is_zero(&entry->order.newest);
}

bool entry_sets_electors(const struct entry *entry) {
    return entry->kind == ENTRY_GENESIS || entry->kind == ENTRY_COMMIT ||
           entry_has_rollback_order(entry);
}

void electors_of_entry(const struct entry *entry, struct electors *electors) {
    ASSERT(entry_sets_electors(entry));
    memset(electors, 0, sizeof *electors);
    electors->state = entry->hash;
    electors->round = entry->round;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        if (entry->seats[seat].is_guest == 0) {
            electors->ids[electors->count++] = entry->seats[seat].id;
        }
    }
}

/* Returns the seat of a voter in a round as a mask with one bit, or 0 if the voter has no seat. */
static uint64_t find_seat_mask(const struct entry *open, const struct identity *id) {
    uint64_t mask = 0;
    for (uint32_t seat = 0; seat < open->seat_count; seat++) {
        const bool is_voter = open->seats[seat].is_guest == 0;
        const bool is_same = memcmp(&open->seats[seat].id, id, sizeof *id) == 0;
        mask |= is_voter && is_same ? UINT64_C(1) << seat : 0;
    }
    return mask;
}

/* Returns the electors that have not resigned. Those that the operator has excluded are missing. */
static uint64_t find_remaining_electors(const struct electors *electors, uint64_t resigned) {
    uint64_t left = 0;
    for (uint32_t i = 0; i < electors->count; i++) {
        left |= UINT64_C(1) << i;
    }
    return left & ~resigned;
}

static const char *continue_order_seats_error(const struct entry *open) {
    const struct continue_order *order = &open->leases.order;
    for (uint32_t seat = 0; seat < open->seat_count; seat++) {
        if (!continue_order_has_member(order, open->seats[seat].id.bytes)) {
            return "gives a seat to a member that is not listed in the order to continue";
        }
    }
    return 2 * open->seat_count > order->count ? NULL
                                               : "gives seats to at most half of the members that "
                                                 "are listed in the order to continue";
}

const char *electors_error_in_open(const struct electors *electors, const struct entry *open) {
    const struct entry_leases *leases = &open->leases;
    ASSERT(open->kind == ENTRY_OPEN && leases->start != 0 && electors->count <= SWARM_MEMBERS_MAX);
    if (!hash_equal(&leases->state, &electors->state)) {
        return "has leases for a state other than the newest one";
    }
    if (leases->order.count > 0) {
        return continue_order_seats_error(open);
    }
    if (electors->count < SWARM_MEMBERS_MAX && leases->resigned >> electors->count != 0) {
        return "has the resignation of a member that is not an elector";
    }
    const struct needed_votes needed = electors_needed_votes(electors, open);
    return electors->count == 0 || (needed.count > 0 && has_needed_votes(&needed, needed.seats))
               ? NULL
               : "gives seats to too few of the electors that have not resigned: it needs more "
                 "than half of them, or a half that includes the first elector";
}

const char *electors_signatures_error(const struct electors *electors, const struct hash *swarm,
                                      const uint8_t *operator_key, const struct entry *open) {
    const struct entry_leases *leases = &open->leases;
    const struct tracker_start start = {open->incarnation, leases->start};
    if (leases->order.count > 0) {
        return operator_key == NULL || continue_order_is_signed(operator_key, swarm, &leases->state,
                                                                &start, &leases->order)
                   ? NULL
                   : "has an order to continue that the operator did not sign";
    }
    for (uint32_t i = 0; i < electors->count; i++) {
        if ((leases->resigned >> i & 1) != 0 &&
            !resignation_is_signed(electors->ids[i].bytes, swarm, &leases->state,
                                   leases->signatures[i].bytes)) {
            return "has a resignation that its elector did not sign";
        }
    }
    return NULL;
}

struct needed_votes electors_needed_votes(const struct electors *electors,
                                          const struct entry *open) {
    struct needed_votes needed = {.count = open->leases.order.count};
    for (uint32_t seat = 0; needed.count > 0 && seat < open->seat_count; seat++) {
        needed.seats |= UINT64_C(1) << seat;
    }
    if (needed.count > 0) {
        return needed;
    }
    const uint64_t left = find_remaining_electors(electors, open->leases.resigned);
    needed.count = (uint32_t)__builtin_popcountll(left);
    for (uint32_t i = 0; i < electors->count; i++) {
        const uint64_t seat = (left >> i & 1) != 0 ? find_seat_mask(open, &electors->ids[i]) : 0;
        const bool is_first = (left & ((UINT64_C(1) << i) - 1)) == 0;
        needed.seats |= seat;
        needed.first_elector |= is_first ? seat : 0;
    }
    return needed;
}

bool has_needed_votes(const struct needed_votes *needed, uint64_t voters) {
    const uint32_t twice = 2 * (uint32_t)__builtin_popcountll(voters & needed->seats);
    return needed->count == 0 || twice > needed->count ||
           (twice == needed->count && (voters & needed->first_elector) != 0);
}
