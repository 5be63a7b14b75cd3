#include "runtime/swarm/ledger/entry.h"

#include <string.h>

enum { ENTRY_FORMAT_VERSION = 1 }; /* version of the encoding of an entry */

static void pack_ranges(struct packer *packer, struct sample_range *ranges, uint32_t *count,
                        uint32_t max) {
    uint32_t passed = pack_element_count(packer, count, max);
    for (uint32_t i = 0; i < passed; i++) {
        pack_u64(packer, &ranges[i].begin);
        pack_u64(packer, &ranges[i].end);
    }
}

static void pack_seats(struct packer *packer, struct entry *entry) {
    uint32_t count = pack_element_count(packer, &entry->seat_count, SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        pack_bytes(packer, entry->seats[i].id.bytes, SWARM_IDENTITY_BYTES);
        pack_u32(packer, &entry->seats[i].session);
        pack_ranges(packer, entry->seats[i].ranges, &entry->seats[i].range_count,
                    SWARM_SEAT_RANGES_MAX);
    }
    for (uint32_t i = 0; entry->kind == ENTRY_COMMIT && i < count; i++) {
        pack_u64(packer, &entry->members[i].tokens);
        pack_u64(packer, &entry->members[i].weight);
        pack_u64(packer, &entry->members[i].samples);
    }
}

static void pack_slices(struct packer *packer, struct entry *entry, uint32_t slice_max) {
    uint32_t count = pack_element_count(packer, &entry->slice_count, slice_max);
    for (uint32_t i = 0; i < count && packer->error == NULL; i++) {
        struct entry_slice *slice = &entry->slices[i];
        pack_u64(packer, &slice->begin);
        pack_u64(packer, &slice->end);
        pack_u32(packer, &slice->owner);
        pack_u32(packer, &slice->epoch);
        pack_u64(packer, &slice->contributors);
        pack_u64(packer, &slice->weight);
        pack_bytes(packer, slice->hash.bytes, HASH_BYTES);
    }
}

static void pack_order(struct packer *packer, struct rollback_order *order) {
    pack_bytes(packer, order->newest.bytes, HASH_BYTES);
    pack_bytes(packer, order->signature.bytes, SWARM_SIGNATURE_BYTES);
}

void entry_pack_fields(struct packer *packer, struct entry *entry, uint32_t slice_max) {
    uint32_t version = ENTRY_FORMAT_VERSION;
    uint32_t kind = entry->kind;
    pack_u32(packer, &version);
    pack_u32(packer, &kind);
    if (version != ENTRY_FORMAT_VERSION || kind > ENTRY_SUSPEND) {
        packer_fail(packer, "has an unknown version or kind");
        return;
    }
    if (packer->mode == PACKER_READ) {
        entry->kind = kind;
    }
    pack_u32(packer, &entry->incarnation);
    pack_u32(packer, &entry->round);
    pack_u32(packer, &entry->commits);
    pack_u32(packer, &entry->deadline_ms);
    pack_bytes(packer, entry->prev.bytes, HASH_BYTES);
    pack_bytes(packer, entry->root.bytes, HASH_BYTES);
    pack_bytes(packer, entry->manifest.bytes, HASH_BYTES);
    if (entry->kind == ENTRY_SUSPEND) {
        pack_bytes(packer, entry->suspension.id.bytes, SWARM_IDENTITY_BYTES);
        pack_u32(packer, &entry->suspension.reason);
        pack_u32(packer, &entry->suspension.until_round);
    }
    pack_u64(packer, &entry->cursor.position);
    pack_ranges(packer, entry->cursor.returned, &entry->cursor.returned_count,
                SWARM_RETURNED_RANGES_MAX);
    pack_seats(packer, entry);
    if (entry->kind == ENTRY_ROLLBACK) {
        pack_order(packer, &entry->order);
    }
    pack_slices(packer, entry, slice_max);
}

void entry_pack_signatures(struct packer *packer, struct entry *entry) {
    pack_bytes(packer, entry->hash.bytes, HASH_BYTES);
    uint32_t count = pack_element_count(packer, &entry->signature_count, SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        pack_u32(packer, &entry->signatures[i].seat);
        pack_bytes(packer, entry->signatures[i].signature.bytes, SWARM_SIGNATURE_BYTES);
    }
}

/* The cast is safe: only a packer that reads writes into the entry. */
static void pack_entry(struct packer *packer, const struct entry *entry, bool is_record) {
    struct entry *packed = (struct entry *)(uintptr_t)entry;
    entry_pack_fields(packer, packed, SWARM_SLICES_MAX);
    if (is_record) {
        entry_pack_signatures(packer, packed);
    }
    ASSERT(packer->error == NULL);
}

struct hash entry_hash(const struct entry *entry) {
    static const char DOMAIN[] = "skep ledger entry";
    struct hash_state hashing;
    struct packer packer = packer_begin_hash(&hashing);
    hash_begin(&hashing);
    hash_add(&hashing, DOMAIN, sizeof DOMAIN);
    pack_entry(&packer, entry, false);
    return hash_end(&hashing);
}

size_t entry_record_bytes(const struct entry *entry) {
    struct packer packer = packer_begin_count();
    pack_entry(&packer, entry, true);
    return packer.offset;
}

size_t entry_write(const struct entry *entry, uint8_t *bytes, size_t capacity) {
    struct packer packer = packer_begin_write(bytes, capacity);
    pack_entry(&packer, entry, true);
    return packer.offset;
}

const char *entry_read(const uint8_t *bytes, size_t count, struct entry_slice *slices,
                       uint32_t slice_max, struct entry *entry) {
    struct packer packer = packer_begin_read(bytes, count);
    memset(entry, 0, sizeof *entry);
    entry->slices = slices;
    entry_pack_fields(&packer, entry, slice_max < SWARM_SLICES_MAX ? slice_max : SWARM_SLICES_MAX);
    entry_pack_signatures(&packer, entry);
    const char *error = packer_finish(&packer);
    if (error == NULL) {
        error = entry_error(entry);
    }
    if (error != NULL) {
        return error;
    }
    const struct hash hash = entry_hash(entry);
    return hash_equal(&hash, &entry->hash) ? NULL : "has a hash that does not match its content";
}

void entry_copy(struct entry *to, const struct entry *from) {
    struct entry_slice *slices = to->slices;
    *to = *from;
    to->slices = slices;
    if (from->slice_count > 0) {
        memcpy(slices, from->slices, from->slice_count * sizeof(*slices));
    }
}
