#include "runtime/swarm/entry_code.h"

#include <stdbool.h>
#include <string.h>

enum { VERSION = 1 };

/* One walk over the fields serves all four, so that they cannot come apart. */
enum direction { DIRECTION_COUNT, DIRECTION_WRITE, DIRECTION_READ, DIRECTION_HASH };

struct pack {
    enum direction direction;
    uint8_t *bytes;
    size_t capacity, at;
    struct hash_state *hashing;
    bool failed;
};

static void pass(struct pack *pack, void *bytes, size_t count) {
    if (pack->direction == DIRECTION_HASH) {
        hash_add(pack->hashing, bytes, count);
    } else if (pack->direction != DIRECTION_COUNT) {
        if (pack->failed || count > pack->capacity - pack->at) {
            pack->failed = true;
            return;
        }
        if (pack->direction == DIRECTION_WRITE) {
            memcpy(pack->bytes + pack->at, bytes, count);
        } else {
            memcpy(bytes, pack->bytes + pack->at, count);
        }
    }
    pack->at += count;
}

static void pass_word(struct pack *pack, uint64_t *value, size_t count) {
    uint8_t bytes[8] = {0};
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(*value >> (8 * i));
    }
    pass(pack, bytes, count);
    *value = 0;
    for (size_t i = count; i-- > 0;) {
        *value = *value << 8 | bytes[i];
    }
}

static void pass_u64(struct pack *pack, uint64_t *value) {
    uint64_t wide = *value;
    pass_word(pack, &wide, 8);
    if (pack->direction == DIRECTION_READ) {
        *value = pack->failed ? 0 : wide;
    }
}

static void pass_u32(struct pack *pack, uint32_t *value) {
    uint64_t wide = *value;
    pass_word(pack, &wide, 4);
    if (pack->direction == DIRECTION_READ) {
        *value = pack->failed ? 0 : (uint32_t)wide;
    }
}

static uint32_t pass_count(struct pack *pack, uint32_t *count, uint32_t most) {
    pass_u32(pack, count);
    if (*count > most) {
        pack->failed = true;
        return 0;
    }
    return *count;
}

static void pass_ranges(struct pack *pack, struct sample_range *ranges, uint32_t *count,
                        uint32_t most) {
    uint32_t passed = pass_count(pack, count, most);
    for (uint32_t i = 0; i < passed; i++) {
        pass_u64(pack, &ranges[i].begin);
        pass_u64(pack, &ranges[i].end);
    }
}

static void pass_seats(struct pack *pack, struct entry *entry) {
    uint32_t count = pass_count(pack, &entry->seat_count, SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        pass(pack, entry->seats[i].id.bytes, SWARM_IDENTITY_BYTES);
        pass_u32(pack, &entry->seats[i].session);
        pass_ranges(pack, entry->seats[i].ranges, &entry->seats[i].range_count,
                    SWARM_SEAT_RANGES_MAX);
    }
    for (uint32_t i = 0; entry->kind == ENTRY_COMMIT && i < count; i++) {
        pass_u64(pack, &entry->members[i].tokens);
        pass_u64(pack, &entry->members[i].weight);
    }
}

static void pass_slices(struct pack *pack, struct entry *entry, uint32_t slice_max) {
    uint32_t count = pass_count(pack, &entry->slice_count, slice_max);
    for (uint32_t i = 0; i < count && !pack->failed; i++) {
        struct entry_slice *slice = &entry->slices[i];
        pass_u64(pack, &slice->begin);
        pass_u64(pack, &slice->end);
        pass_u32(pack, &slice->owner);
        pass_u32(pack, &slice->epoch);
        pass_u64(pack, &slice->contributors);
        pass_u64(pack, &slice->weight);
        pass(pack, slice->hash.bytes, HASH_BYTES);
    }
}

static void pass_body(struct pack *pack, struct entry *entry, uint32_t slice_max) {
    uint32_t version = VERSION;
    uint32_t kind = entry->kind;
    pass_u32(pack, &version);
    pass_u32(pack, &kind);
    if (version != VERSION || kind > ENTRY_ROLLBACK) {
        pack->failed = true;
        return;
    }
    if (pack->direction == DIRECTION_READ) {
        entry->kind = kind;
    }
    pass_u32(pack, &entry->incarnation);
    pass_u32(pack, &entry->round);
    pass_u32(pack, &entry->commits);
    pass_u32(pack, &entry->deadline_ms);
    pass(pack, entry->prev.bytes, HASH_BYTES);
    pass(pack, entry->root.bytes, HASH_BYTES);
    pass(pack, entry->manifest.bytes, HASH_BYTES);
    pass_u64(pack, &entry->cursor.position);
    pass_ranges(pack, entry->cursor.returned, &entry->cursor.returned_count, SWARM_RETURNED_MAX);
    pass_seats(pack, entry);
    pass_slices(pack, entry, slice_max);
}

static void pass_signatures(struct pack *pack, struct entry *entry) {
    pass(pack, entry->hash.bytes, HASH_BYTES);
    uint32_t count = pass_count(pack, &entry->signature_count, SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        pass_u32(pack, &entry->signatures[i].seat);
        pass(pack, entry->signatures[i].signature.bytes, SWARM_SIGNATURE_BYTES);
    }
}

/* Only a walk that reads writes into the entry. */
static void walk(struct pack *pack, const struct entry *entry, bool whole) {
    struct entry *walked = (struct entry *)(uintptr_t)entry;
    pass_body(pack, walked, SWARM_SLICES_MAX);
    if (whole) {
        pass_signatures(pack, walked);
    }
    ASSERT(!pack->failed);
}

struct hash entry_hash(const struct entry *entry) {
    static const char DOMAIN[] = "skep ledger entry";
    struct hash_state hashing;
    struct pack pack = {.direction = DIRECTION_HASH, .hashing = &hashing};
    hash_begin(&hashing);
    hash_add(&hashing, DOMAIN, sizeof DOMAIN);
    walk(&pack, entry, false);
    return hash_end(&hashing);
}

size_t entry_record_bytes(const struct entry *entry) {
    struct pack pack = {.direction = DIRECTION_COUNT};
    walk(&pack, entry, true);
    return pack.at;
}

size_t entry_write(const struct entry *entry, uint8_t *bytes, size_t capacity) {
    struct pack pack = {.direction = DIRECTION_WRITE, .bytes = bytes, .capacity = capacity};
    walk(&pack, entry, true);
    return pack.at;
}

const char *entry_read(const uint8_t *bytes, size_t count, struct entry_slice *slices,
                       uint32_t slice_max, struct entry *entry) {
    struct pack pack = {
        .direction = DIRECTION_READ, .bytes = (uint8_t *)(uintptr_t)bytes, .capacity = count};
    memset(entry, 0, sizeof *entry);
    entry->slices = slices;
    pass_body(&pack, entry, slice_max < SWARM_SLICES_MAX ? slice_max : SWARM_SLICES_MAX);
    pass_signatures(&pack, entry);
    if (pack.failed) {
        return "is cut, of another version, or has a count above its limit";
    }
    if (pack.at != count) {
        return "is longer than an entry";
    }
    const char *wrong = entry_wrong(entry);
    if (wrong != NULL) {
        return wrong;
    }
    const struct hash hash = entry_hash(entry);
    return hash_equal(&hash, &entry->hash) ? NULL : "does not have the hash that it names";
}
