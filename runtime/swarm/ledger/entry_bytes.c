#include "runtime/swarm/ledger/entry_bytes.h"

#include <string.h>

enum { VERSION = 1 };

static void pass_ranges(struct packer *pack, struct sample_range *ranges, uint32_t *count,
                        uint32_t most) {
    uint32_t passed = packer_count(pack, count, most);
    for (uint32_t i = 0; i < passed; i++) {
        packer_u64(pack, &ranges[i].begin);
        packer_u64(pack, &ranges[i].end);
    }
}

static void pass_seats(struct packer *pack, struct entry *entry) {
    uint32_t count = packer_count(pack, &entry->seat_count, SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        packer_bytes(pack, entry->seats[i].id.bytes, SWARM_IDENTITY_BYTES);
        packer_u32(pack, &entry->seats[i].session);
        pass_ranges(pack, entry->seats[i].ranges, &entry->seats[i].range_count,
                    SWARM_SEAT_RANGES_MAX);
    }
    for (uint32_t i = 0; entry->kind == ENTRY_COMMIT && i < count; i++) {
        packer_u64(pack, &entry->members[i].tokens);
        packer_u64(pack, &entry->members[i].weight);
    }
}

static void pass_slices(struct packer *pack, struct entry *entry, uint32_t slice_max) {
    uint32_t count = packer_count(pack, &entry->slice_count, slice_max);
    for (uint32_t i = 0; i < count && pack->wrong == NULL; i++) {
        struct entry_slice *slice = &entry->slices[i];
        packer_u64(pack, &slice->begin);
        packer_u64(pack, &slice->end);
        packer_u32(pack, &slice->owner);
        packer_u32(pack, &slice->epoch);
        packer_u64(pack, &slice->contributors);
        packer_u64(pack, &slice->weight);
        packer_bytes(pack, slice->hash.bytes, HASH_BYTES);
    }
}

void entry_pack(struct packer *pack, struct entry *entry, uint32_t slice_max) {
    uint32_t version = VERSION;
    uint32_t kind = entry->kind;
    packer_u32(pack, &version);
    packer_u32(pack, &kind);
    if (version != VERSION || kind > ENTRY_ROLLBACK) {
        packer_fail(pack, "is of another version, or of no kind");
        return;
    }
    if (pack->direction == PACKER_READ) {
        entry->kind = kind;
    }
    packer_u32(pack, &entry->incarnation);
    packer_u32(pack, &entry->round);
    packer_u32(pack, &entry->commits);
    packer_u32(pack, &entry->deadline_ms);
    packer_bytes(pack, entry->prev.bytes, HASH_BYTES);
    packer_bytes(pack, entry->root.bytes, HASH_BYTES);
    packer_bytes(pack, entry->manifest.bytes, HASH_BYTES);
    packer_u64(pack, &entry->cursor.position);
    pass_ranges(pack, entry->cursor.returned, &entry->cursor.returned_count, SWARM_RETURNED_MAX);
    pass_seats(pack, entry);
    pass_slices(pack, entry, slice_max);
}

void entry_pack_proof(struct packer *pack, struct entry *entry) {
    packer_bytes(pack, entry->hash.bytes, HASH_BYTES);
    uint32_t count = packer_count(pack, &entry->signature_count, SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        packer_u32(pack, &entry->signatures[i].seat);
        packer_bytes(pack, entry->signatures[i].signature.bytes, SWARM_SIGNATURE_BYTES);
    }
}

/* Only a walk that reads writes into the entry. */
static void walk(struct packer *pack, const struct entry *entry, bool whole) {
    struct entry *walked = (struct entry *)(uintptr_t)entry;
    entry_pack(pack, walked, SWARM_SLICES_MAX);
    if (whole) {
        entry_pack_proof(pack, walked);
    }
    ASSERT(pack->wrong == NULL);
}

struct hash entry_hash(const struct entry *entry) {
    static const char DOMAIN[] = "skep ledger entry";
    struct hash_state hashing;
    struct packer pack = packer_hashing(&hashing);
    hash_begin(&hashing);
    hash_add(&hashing, DOMAIN, sizeof DOMAIN);
    walk(&pack, entry, false);
    return hash_end(&hashing);
}

size_t entry_record_bytes(const struct entry *entry) {
    struct packer pack = packer_counting();
    walk(&pack, entry, true);
    return pack.at;
}

size_t entry_write(const struct entry *entry, uint8_t *bytes, size_t capacity) {
    struct packer pack = packer_writing(bytes, capacity);
    walk(&pack, entry, true);
    return pack.at;
}

const char *entry_read(const uint8_t *bytes, size_t count, struct entry_slice *slices,
                       uint32_t slice_max, struct entry *entry) {
    struct packer pack = packer_reading(bytes, count);
    memset(entry, 0, sizeof *entry);
    entry->slices = slices;
    entry_pack(&pack, entry, slice_max < SWARM_SLICES_MAX ? slice_max : SWARM_SLICES_MAX);
    entry_pack_proof(&pack, entry);
    const char *wrong = packer_end(&pack);
    if (wrong == NULL) {
        wrong = entry_error(entry);
    }
    if (wrong != NULL) {
        return wrong;
    }
    const struct hash hash = entry_hash(entry);
    return hash_equal(&hash, &entry->hash) ? NULL : "does not have the hash that it names";
}
