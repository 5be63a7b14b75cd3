#include "runtime/swarm/tracker/known_members.h"

#include "runtime/swarm/ledger/pack.h"

#include <string.h>

enum { VERSION = 1 };

int known_of_curve(const struct known_members *known, const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t row = 0; row < known->count; row++) {
        if (memcmp(known->rows[row].keys.curve, curve, KEY_BYTES) == 0) {
            return (int)row;
        }
    }
    return KNOWN_NOBODY;
}

int known_of_identity(const struct known_members *known, const struct identity *id) {
    for (uint32_t row = 0; row < known->count; row++) {
        if (memcmp(known->rows[row].keys.sign, id->bytes, KEY_BYTES) == 0) {
            return (int)row;
        }
    }
    return KNOWN_NOBODY;
}

struct known_member *known_add(struct known_members *known, const struct public_keys *keys) {
    int row = known_of_curve(known, keys->curve);
    if (row == KNOWN_NOBODY) {
        ASSERT(known->count < SWARM_MEMBERS_MAX);
        row = (int)known->count++;
        known->rows[row] = (struct known_member){.keys = *keys};
    }
    return &known->rows[row];
}

void known_remove(struct known_members *known, int row) {
    ASSERT(row >= 0 && (uint32_t)row < known->count);
    known->count--;
    memmove(&known->rows[row], &known->rows[row + 1],
            (known->count - (uint32_t)row) * sizeof known->rows[0]);
}

void known_announce(const struct known_members *known, const struct swarm_timing *timing,
                    struct wire_roster *roster) {
    memset(roster, 0, sizeof *roster);
    roster->version = known->version;
    roster->count = known->count;
    roster->timing = *timing;
    for (uint32_t row = 0; row < known->count; row++) {
        const struct known_member *from = &known->rows[row];
        roster->members[row].keys = from->keys;
        memcpy(roster->members[row].address, from->is_reached ? from->address : "",
               from->is_reached ? sizeof from->address : 1);
    }
}

static void pass(struct pack *pack, struct known_members *known) {
    uint32_t form = VERSION;
    pack_u32(pack, &form);
    if (form != VERSION) {
        pack_refuse(pack, "is of another version");
    }
    pack_u32(pack, &known->version);
    uint32_t count = pack_count(pack, &known->count, SWARM_MEMBERS_MAX);
    for (uint32_t row = 0; row < count; row++) {
        struct known_member *member = &known->rows[row];
        pack_bytes(pack, member->keys.curve, KEY_BYTES);
        pack_bytes(pack, member->keys.sign, KEY_BYTES);
        pack_text(pack, member->name, sizeof member->name);
        pack_text(pack, member->address, sizeof member->address);
        pack_u32(pack, &member->is_reached);
    }
}

size_t known_write(const struct known_members *known, uint8_t *bytes) {
    struct pack pack = pack_writing(bytes, KNOWN_BYTES_MAX);
    pass(&pack, (struct known_members *)(uintptr_t)known);
    return pack.at;
}

const char *known_read(const uint8_t *bytes, size_t count, struct known_members *known) {
    struct pack pack = pack_reading(bytes, count);
    memset(known, 0, sizeof *known);
    pass(&pack, known);
    return pack_end(&pack);
}
