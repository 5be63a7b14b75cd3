#include "runtime/swarm/tracker/member_table.h"

#include "runtime/swarm/ledger/packer.h"

#include <string.h>

enum { VERSION = 1 };

int address_book_find_curve(const struct address_book *known,
                            const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t row = 0; row < known->count; row++) {
        if (memcmp(known->rows[row].keys.curve, curve, KEY_BYTES) == 0) {
            return (int)row;
        }
    }
    return BOOK_NONE;
}

int address_book_find_identity(const struct address_book *known, const struct identity *id) {
    for (uint32_t row = 0; row < known->count; row++) {
        if (memcmp(known->rows[row].keys.sign, id->bytes, KEY_BYTES) == 0) {
            return (int)row;
        }
    }
    return BOOK_NONE;
}

struct book_entry *address_book_add(struct address_book *known, const struct public_keys *keys) {
    int row = address_book_find_curve(known, keys->curve);
    if (row == BOOK_NONE) {
        ASSERT(known->count < SWARM_MEMBERS_MAX);
        row = (int)known->count++;
        known->rows[row] = (struct book_entry){.keys = *keys};
    }
    return &known->rows[row];
}

void address_book_remove(struct address_book *known, int row) {
    ASSERT(row >= 0 && (uint32_t)row < known->count);
    known->count--;
    memmove(&known->rows[row], &known->rows[row + 1],
            (known->count - (uint32_t)row) * sizeof known->rows[0]);
}

void address_book_announce(const struct address_book *known, const struct swarm_timing *timing,
                           struct wire_address_book *roster) {
    memset(roster, 0, sizeof *roster);
    roster->version = known->version;
    roster->count = known->count;
    roster->timing = *timing;
    for (uint32_t row = 0; row < known->count; row++) {
        const struct book_entry *from = &known->rows[row];
        roster->members[row].keys = from->keys;
        memcpy(roster->members[row].address, from->is_reached ? from->address : "",
               from->is_reached ? sizeof from->address : 1);
    }
}

static void pass(struct packer *pack, struct address_book *known) {
    uint32_t form = VERSION;
    packer_u32(pack, &form);
    if (form != VERSION) {
        packer_fail(pack, "is of another version");
    }
    packer_u32(pack, &known->version);
    uint32_t count = packer_count(pack, &known->count, SWARM_MEMBERS_MAX);
    for (uint32_t row = 0; row < count; row++) {
        struct book_entry *member = &known->rows[row];
        packer_bytes(pack, member->keys.curve, KEY_BYTES);
        packer_bytes(pack, member->keys.sign, KEY_BYTES);
        packer_text(pack, member->name, sizeof member->name);
        packer_text(pack, member->address, sizeof member->address);
        packer_u32(pack, &member->is_reached);
    }
}

size_t address_book_write(const struct address_book *known, uint8_t *bytes) {
    struct packer pack = packer_writing(bytes, ADDRESS_BOOK_BYTES_MAX);
    pass(&pack, (struct address_book *)(uintptr_t)known);
    return pack.at;
}

const char *address_book_read(const uint8_t *bytes, size_t count, struct address_book *known) {
    struct packer pack = packer_reading(bytes, count);
    memset(known, 0, sizeof *known);
    pass(&pack, known);
    return packer_end(&pack);
}
