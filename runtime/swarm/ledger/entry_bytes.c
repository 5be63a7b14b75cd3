#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/merkle.h"

#include <string.h>

_Static_assert(sizeof(struct sample_range) == ENTRY_RANGE_BYTES, "ranges are packed as they are");

/* An entry to pack, and the maximum number of slices that a reader has room for. */
struct packed_entry {
    struct entry *entry;
    uint32_t slice_capacity;
    enum entry_form form; /* whether the rows in entry->slices are written */
};

static void pack_ranges(struct packer *packer, const char *name, struct sample_range *ranges,
                        uint32_t *count, uint32_t max) {
    pack_variable_bin_header(packer, name, count, max, ENTRY_RANGE_BYTES);
    for (uint32_t i = 0; i < *count; i++) {
        ranges[i].begin = pack_bin_number(packer, ranges[i].begin, 8);
        ranges[i].end = pack_bin_number(packer, ranges[i].end, 8);
    }
}

static void pack_seats(struct packer *packer, struct entry *entry) {
    uint32_t count =
        pack_element_count(packer, "seat_count", &entry->seat_count, SWARM_MEMBERS_MAX);
    struct packer_rows seats = {entry->seats, sizeof *entry->seats, .count = count};
    pack_bytes_column(packer, "seats", seats, offsetof(struct entry_seat, id),
                      SWARM_IDENTITY_BYTES);
    pack_u32_column(packer, "sessions", seats, offsetof(struct entry_seat, session), 4);
    pack_u32_column(packer, "guests", seats, offsetof(struct entry_seat, is_guest), 1);
    pack_array_header(packer, "ranges", count);
    for (uint32_t i = 0; i < count; i++) {
        pack_ranges(packer, NULL, entry->seats[i].ranges, &entry->seats[i].range_count,
                    SWARM_SEAT_RANGES_MAX);
    }
}

static void pack_results(struct packer *packer, struct entry *entry) {
    struct packer_rows members = {entry->members, sizeof *entry->members,
                                  .count = entry->seat_count};
    pack_u64_column(packer, "tokens", members, offsetof(struct entry_member, tokens));
    pack_u64_column(packer, "weights", members, offsetof(struct entry_member, weight));
    pack_u64_column(packer, "samples", members, offsetof(struct entry_member, samples));
    pack_f64_column(packer, "norms", members, offsetof(struct entry_member, norm));
    pack_u32_column(packer, "contributed", members, offsetof(struct entry_member, contributed), 4);
    pack_u32_column(packer, "owned", members, offsetof(struct entry_member, owned), 4);
    (void)pack_element_count(packer, "slice_count", &entry->result_count, SWARM_SLICES_MAX);
    pack_bytes(packer, "results", entry->results.bytes, HASH_BYTES);
    pack_bytes(packer, "chain", entry->chain.bytes, HASH_BYTES);
}

void entry_pack_rows(struct packer *packer, struct entry *entry, uint32_t slice_capacity) {
    uint32_t count = pack_element_count(packer, "row_count", &entry->slice_count, slice_capacity);
    struct packer_rows slices = {entry->slices, sizeof *entry->slices, .count = count};
    if (count == 0) {
        return;
    }
    if (packer_is_reading(packer)) {
        memset(entry->slices, 0, count * sizeof *entry->slices);
    }
    pack_u64_column(packer, "begins", slices, offsetof(struct entry_slice, begin));
    pack_u64_column(packer, "ends", slices, offsetof(struct entry_slice, end));
    pack_u32_column(packer, "owners", slices, offsetof(struct entry_slice, owner), 1);
    pack_u32_column(packer, "epochs", slices, offsetof(struct entry_slice, epoch), 2);
    pack_u64_column(packer, "contributors", slices, offsetof(struct entry_slice, contributors));
    pack_u64_column(packer, "slice_weights", slices, offsetof(struct entry_slice, weight));
    pack_bytes_column(packer, "hashes", slices, offsetof(struct entry_slice, hash), HASH_BYTES);
}

static void pack_rollback_order(struct packer *packer, struct rollback_order *order) {
    pack_bytes(packer, "order_newest", order->newest.bytes, HASH_BYTES);
    pack_bytes(packer, "order_signature", order->signature.bytes, SWARM_SIGNATURE_BYTES);
}

static void pack_delegation(struct packer *packer, struct delegation *delegation) {
    pack_u64(packer, "delegation", &delegation->serial);
    if (delegation->serial != 0) {
        pack_u64(packer, "expires_s", &delegation->expires_s);
        pack_bytes(packer, "tracker_curve", delegation->tracker.curve, KEY_BYTES);
        pack_bytes(packer, "tracker_sign", delegation->tracker.sign, KEY_BYTES);
        pack_bytes(packer, "delegation_signature", delegation->signature, SIGNATURE_BYTES);
    }
}

static void pack_roster_epoch(struct packer *packer, struct roster_epoch *roster) {
    pack_u64(packer, "roster", &roster->serial);
    if (roster->serial == 0) {
        return;
    }
    pack_u32(packer, "is_open", &roster->is_open);
    const uint32_t count = pack_variable_bin_header(packer, "roster_members", &roster->count,
                                                    ROSTER_KEYS_MAX, KEY_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        pack_bin_part(packer, roster->members[i], KEY_BYTES);
    }
    pack_bytes(packer, "roster_signature", roster->signature, SIGNATURE_BYTES);
}

static void pack_suspension(struct packer *packer, struct entry_suspension *suspension) {
    pack_bytes(packer, "suspended", suspension->id.bytes, SWARM_IDENTITY_BYTES);
    pack_u32(packer, "reason", &suspension->reason);
    pack_u32(packer, "until_round", &suspension->until_round);
    if (entry_has_evidence(suspension)) {
        struct entry_evidence *evidence = &suspension->evidence;
        pack_u32(packer, "slice", &evidence->slice);
        pack_u32(packer, "epoch", &evidence->epoch);
        pack_u64(packer, "contributors", &evidence->contributors);
        pack_bytes(packer, "statement_hash", evidence->hash.bytes, HASH_BYTES);
        pack_bytes(packer, "seed", evidence->seed.bytes, HASH_BYTES);
        pack_bytes(packer, "statement_signature", evidence->signature.bytes, SWARM_SIGNATURE_BYTES);
    }
}

/* Packs the fields that the hash covers. */
static void pack_hashed_fields(struct packer *packer, void *object) {
    struct entry *entry = object;
    uint32_t version = SWARM_PROTOCOL_VERSION;
    uint32_t kind = entry->kind;
    pack_u32(packer, "protocol", &version);
    pack_u32(packer, "kind", &kind);
    if (version != SWARM_PROTOCOL_VERSION || kind > ENTRY_SUSPEND) {
        packer_fail(packer, "has an unknown version or kind");
        return;
    }
    if (packer_is_reading(packer)) {
        entry->kind = kind;
    }
    pack_u32(packer, "incarnation", &entry->incarnation);
    pack_u32(packer, "round", &entry->round);
    pack_u32(packer, "commits", &entry->commits);
    pack_u32(packer, "deadline_ms", &entry->train_ms);
    if (entry->kind == ENTRY_GENESIS) {
        pack_u32(packer, "needs_leases", &entry->leases.are_needed);
    }
    pack_bytes(packer, "prev", entry->prev.bytes, HASH_BYTES);
    pack_bytes(packer, "root", entry->root.bytes, HASH_BYTES);
    pack_bytes(packer, "manifest", entry->manifest.bytes, HASH_BYTES);
    pack_f64(packer, "reference_norm", &entry->reference_norm);
    pack_u64(packer, "position", &entry->cursor.position);
    pack_ranges(packer, "returned", entry->cursor.returned, &entry->cursor.returned_count,
                SWARM_RETURNED_RANGES_MAX);
    pack_seats(packer, entry);
    if (entry->kind != ENTRY_COMMIT) {
        pack_delegation(packer, &entry->documents.delegation);
    }
    if (entry->kind == ENTRY_OPEN) {
        pack_roster_epoch(packer, &entry->documents.roster);
    }
    if (entry->kind == ENTRY_OPEN || entry->kind == ENTRY_ABORT) {
        entry_pack_leases(packer, &entry->leases);
    }
    if (entry->kind == ENTRY_ROLLBACK) {
        pack_rollback_order(packer, &entry->order);
    } else if (entry->kind == ENTRY_SUSPEND) {
        pack_suspension(packer, &entry->suspension);
    } else if (entry->kind == ENTRY_COMMIT) {
        pack_results(packer, entry);
    }
}

void entry_pack_content(struct packer *packer, struct entry *entry) {
    pack_map(packer, "entry", (struct packed_object){pack_hashed_fields, entry});
}

static void pack_signatures(struct packer *packer, struct entry *entry) {
    uint32_t count =
        pack_element_count(packer, "signature_count", &entry->signature_count, SWARM_MEMBERS_MAX);
    struct packer_rows signatures = {entry->signatures, sizeof *entry->signatures, .count = count};
    pack_u32_column(packer, "signature_seats", signatures, offsetof(struct entry_signature, seat),
                    1);
    pack_bytes_column(packer, "signatures", signatures, offsetof(struct entry_signature, signature),
                      SWARM_SIGNATURE_BYTES);
}

static void pack_record(struct packer *packer, void *object) {
    const struct packed_entry *packed = object;
    struct entry *entry = packed->entry;
    uint32_t none = 0;
    entry_pack_content(packer, entry);
    pack_bytes(packer, "hash", entry->hash.bytes, HASH_BYTES);
    pack_signatures(packer, entry);
    if (entry->kind == ENTRY_COMMIT && packed->form == ENTRY_WITH_SLICES) {
        entry_pack_rows(packer, entry, packed->slice_capacity);
    } else if (entry->kind == ENTRY_COMMIT) {
        pack_u32(packer, "row_count", &none);
    }
}

void entry_pack_record(struct packer *packer, struct entry *entry, uint32_t slice_capacity) {
    pack_record(packer, &(struct packed_entry){entry, slice_capacity, ENTRY_WITH_SLICES});
}

/* The cast is safe: only a packer in reading mode writes into the entry. */
static struct packed_entry cast_away_const(const struct entry *entry, enum entry_form form) {
    return (struct packed_entry){(struct entry *)(uintptr_t)entry, SWARM_SLICES_MAX, form};
}

struct hash entry_hash(const struct entry *entry) {
    static const char DOMAIN[] = "skep ledger entry";
    struct packed_entry packed = cast_away_const(entry, ENTRY_WITHOUT_SLICES);
    struct hash_state hashing;
    hash_begin(&hashing);
    hash_add(&hashing, DOMAIN, sizeof DOMAIN);
    packer_hash((struct packed_object){pack_hashed_fields, packed.entry}, &hashing);
    return hash_end(&hashing);
}

size_t entry_record_bytes(const struct entry *entry, enum entry_form form) {
    struct packed_entry packed = cast_away_const(entry, form);
    return packer_count_bytes((struct packed_object){pack_record, &packed});
}

size_t entry_write(const struct entry *entry, enum entry_form form, uint8_t *bytes,
                   size_t capacity) {
    struct packed_entry packed = cast_away_const(entry, form);
    return packer_write((struct packed_object){pack_record, &packed}, bytes, capacity);
}

const char *entry_read_next(const uint8_t *bytes, size_t count, struct entry_slice *slices,
                            uint32_t slice_capacity, struct entry *entry, size_t *used) {
    struct packed_entry packed = {
        entry, slice_capacity < SWARM_SLICES_MAX ? slice_capacity : SWARM_SLICES_MAX,
        ENTRY_WITH_SLICES};
    memset(entry, 0, sizeof *entry);
    entry->slices = slices;
    const char *error =
        packer_read_next((struct packed_object){pack_record, &packed}, bytes, count, used);
    if (error == NULL) {
        error = entry_error(entry);
    }
    if (error != NULL) {
        return error;
    }
    const struct hash hash = entry_hash(entry);
    return hash_equal(&hash, &entry->hash) ? NULL : "has a hash that does not match its content";
}

const char *entry_read(const uint8_t *bytes, size_t count, struct entry_slice *slices,
                       uint32_t slice_capacity, struct entry *entry) {
    size_t used;
    const char *error = entry_read_next(bytes, count, slices, slice_capacity, entry, &used);
    return error == NULL && used != count ? "has bytes after its last field" : error;
}

void entry_copy(struct entry *to, const struct entry *from) {
    struct entry_slice *slices = to->slices;
    *to = *from;
    to->slices = slices;
    if (from->slice_count > 0) {
        memcpy(slices, from->slices, from->slice_count * sizeof(*slices));
    }
}

/* ---- fields of a commit that follow from its rows ---- */

static uint8_t *append_number(uint8_t *at, uint64_t number, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(number >> (8 * i));
    }
    return at + bytes;
}

static struct hash hash_row_leaf(const struct entry_slice *row) {
    uint8_t bytes[1 + ENTRY_SLICE_BYTES];
    uint8_t *at = bytes;
    *at++ = MERKLE_RESULT;
    at = append_number(at, row->begin, 8);
    at = append_number(at, row->end, 8);
    at = append_number(at, row->owner, 1);
    at = append_number(at, row->epoch, 2);
    at = append_number(at, row->contributors, 8);
    at = append_number(at, row->weight, 8);
    memcpy(at, row->hash.bytes, HASH_BYTES);
    ASSERT(at + HASH_BYTES == bytes + sizeof bytes);
    return hash_of(bytes, sizeof bytes);
}

struct hash entry_results_root(const struct entry *entry) {
    struct merkle_stack stack = {.leaf_count = 0};
    ASSERT(entry->slice_count > 0 && entry->slice_count <= SWARM_SLICES_MAX);
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        const struct hash leaf = hash_row_leaf(&entry->slices[s]);
        merkle_push_leaf(&stack, &leaf);
    }
    const struct hash top = merkle_tree_top(&stack);
    return merkle_list_root_from_top(entry->slice_count, &top);
}

void entry_count_results(const struct entry *entry, uint32_t *contributed, uint32_t *owned) {
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        const struct entry_slice *row = &entry->slices[s];
        ASSERT(row->owner < entry->seat_count);
        owned[row->owner]++;
        for (uint64_t seats = row->contributors; seats != 0; seats &= seats - 1) {
            const uint32_t seat = (uint32_t)__builtin_ctzll(seats);
            ASSERT(seat < entry->seat_count);
            contributed[seat]++;
        }
    }
}

void entry_derive_fields_from_rows(struct entry *entry) {
    uint32_t contributed[SWARM_MEMBERS_MAX] = {0}, owned[SWARM_MEMBERS_MAX] = {0};
    entry_count_results(entry, contributed, owned);
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        entry->members[seat].contributed = contributed[seat];
        entry->members[seat].owned = owned[seat];
    }
    entry->result_count = entry->slice_count;
    entry->results = entry_results_root(entry);
}
