#include "runtime/swarm/tracker/tracker_record_bytes.h"

#include "runtime/swarm/ledger/packer.h"

#include <string.h>

enum {
    VERSION = 1,
    DECLARED_BYTES = 16 + SWARM_SIGNATURE_BYTES, /* of a declared seat */
    PLAN_BYTES = 16,                             /* of a slice */
};

/* A number that must be the one given. */
static void pass_fixed(struct packer *pack, uint32_t wanted, const char *wrong) {
    uint32_t value = wanted;
    packer_u32(pack, &value);
    if (value != wanted) {
        packer_fail(pack, wrong);
    }
}

static void pass_members(struct packer *pack, struct tracker_record *record) {
    pass_fixed(pack, VERSION, "is of another version");
    packer_u32(pack, &record->session_next);
    uint32_t count = packer_count(pack, &record->member_count, SWARM_MEMBERS_MAX);
    for (uint32_t row = 0; row < count; row++) {
        packer_bytes(pack, record->members[row].id.bytes, SWARM_IDENTITY_BYTES);
        packer_u32(pack, &record->members[row].session);
    }
}

static void pass_declared(struct packer *pack, struct round_table *table) {
    packer_u64(pack, &table->declared);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if ((table->declared >> seat & 1) != 0) {
            packer_u64(pack, &table->members[seat].tokens);
            packer_u64(pack, &table->members[seat].weight);
            packer_bytes(pack, table->signatures[seat].bytes, SWARM_SIGNATURE_BYTES);
        }
    }
}

static void pass_plans(struct packer *pack, struct round_table *table, uint32_t slice_count) {
    pass_fixed(pack, slice_count, "is of another number of slices");
    for (uint32_t s = 0; s < slice_count; s++) {
        struct slice_plan *plan = &table->slices[s];
        packer_u32(pack, &plan->owner);
        packer_u32(pack, &plan->epoch);
        packer_u64(pack, &plan->expected);
        if (plan->owner >= SWARM_MEMBERS_MAX) {
            packer_fail(pack, "names an owner that is no seat");
        }
    }
}

static void pass_table(struct packer *pack, struct tracker_record *record, uint32_t slice_count) {
    struct round_table *table = &record->table;
    pass_fixed(pack, VERSION, "is of another version");
    packer_u32(pack, &table->round);
    packer_u32(pack, &table->version);
    if (table->version > 0) {
        pass_declared(pack, table);
        pass_plans(pack, table, slice_count);
    }
}

size_t record_table_max(uint32_t slice_count) {
    return 24 + (size_t)SWARM_MEMBERS_MAX * DECLARED_BYTES + (size_t)slice_count * PLAN_BYTES;
}

/* A walk that writes changes nothing. */
static struct tracker_record *unchanged(const struct tracker_record *record) {
    return (struct tracker_record *)(uintptr_t)record;
}

size_t record_write_members(const struct tracker_record *record, uint8_t *bytes) {
    struct packer pack = packer_writing(bytes, RECORD_MEMBERS_MAX);
    pass_members(&pack, unchanged(record));
    return pack.at;
}

size_t record_write_table(const struct tracker_record *record, uint32_t slice_count,
                          uint8_t *bytes) {
    struct packer pack = packer_writing(bytes, record_table_max(slice_count));
    pass_table(&pack, unchanged(record), slice_count);
    return pack.at;
}

const char *record_read_members(const uint8_t *bytes, size_t count, struct tracker_record *record) {
    struct packer pack = packer_reading(bytes, count);
    memset(record->members, 0, sizeof record->members);
    pass_members(&pack, record);
    return packer_end(&pack);
}

const char *record_read_table(const uint8_t *bytes, size_t count, uint32_t slice_count,
                              struct tracker_record *record) {
    struct packer pack = packer_reading(bytes, count);
    memset(record->table.members, 0, sizeof record->table.members);
    memset(record->table.signatures, 0, sizeof record->table.signatures);
    record->table.declared = 0;
    pass_table(&pack, record, slice_count);
    return packer_end(&pack);
}
