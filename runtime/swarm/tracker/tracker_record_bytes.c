#include "runtime/swarm/tracker/tracker_durable.h"

#include "runtime/swarm/ledger/packer.h"

#include <string.h>

enum {
    FORMAT_VERSION = 2,                             /* version of the encoding */
    DECLARATION_BYTES = 24 + SWARM_SIGNATURE_BYTES, /* size per seat with a declaration */
    SLICE_PLAN_BYTES = 24,                          /* size per slice */
};

/* Writes `expected`, or reads a number that must be equal to `expected`. */
static void pack_expected(struct packer *packer, uint32_t expected, const char *error) {
    uint32_t value = expected;
    pack_u32(packer, &value);
    if (value != expected) {
        packer_fail(packer, error);
    }
}

static void pack_members(struct packer *packer, struct tracker_record *record) {
    pack_expected(packer, FORMAT_VERSION, "has an unknown version");
    pack_u32(packer, &record->next_session);
    uint32_t count = pack_element_count(packer, &record->member_count, SWARM_MEMBERS_MAX);
    for (uint32_t row = 0; row < count; row++) {
        pack_bytes(packer, record->members[row].id.bytes, SWARM_IDENTITY_BYTES);
        pack_u32(packer, &record->members[row].session);
    }
}

static void pack_declarations(struct packer *packer, struct round_table *table) {
    pack_u64(packer, &table->declared_seats);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if ((table->declared_seats >> seat & 1) != 0) {
            pack_u64(packer, &table->members[seat].tokens);
            pack_u64(packer, &table->members[seat].weight);
            pack_u64(packer, &table->members[seat].samples);
            pack_bytes(packer, table->signatures[seat].bytes, SWARM_SIGNATURE_BYTES);
        }
    }
}

static void pack_plans(struct packer *packer, struct round_table *table, uint32_t slice_count) {
    pack_expected(packer, slice_count, "has a different number of slices");
    for (uint32_t s = 0; s < slice_count; s++) {
        struct slice_plan *plan = &table->slices[s];
        pack_u32(packer, &plan->owner);
        pack_u32(packer, &plan->epoch);
        pack_u64(packer, &plan->expected_seats);
        pack_u64(packer, &plan->optional_seats);
        if (plan->owner >= SWARM_MEMBERS_MAX) {
            packer_fail(packer, "has an owner that is not a seat");
        }
    }
}

static void pack_table(struct packer *packer, struct tracker_record *record, uint32_t slice_count) {
    struct round_table *table = &record->table;
    pack_expected(packer, FORMAT_VERSION, "has an unknown version");
    pack_u32(packer, &table->round);
    pack_u32(packer, &table->version);
    if (table->version > 0) {
        pack_declarations(packer, table);
        pack_plans(packer, table, slice_count);
    }
}

size_t record_table_bytes_max(uint32_t slice_count) {
    return 24 + (size_t)SWARM_MEMBERS_MAX * DECLARATION_BYTES +
           (size_t)slice_count * SLICE_PLAN_BYTES;
}

/* Casts away const. A writing packer does not change the record. */
static struct tracker_record *cast_away_const(const struct tracker_record *record) {
    return (struct tracker_record *)(uintptr_t)record;
}

size_t record_write_members(const struct tracker_record *record, uint8_t *bytes) {
    struct packer packer = packer_begin_write(bytes, RECORD_MEMBERS_MAX);
    pack_members(&packer, cast_away_const(record));
    return packer.offset;
}

size_t record_write_table(const struct tracker_record *record, uint32_t slice_count,
                          uint8_t *bytes) {
    struct packer packer = packer_begin_write(bytes, record_table_bytes_max(slice_count));
    pack_table(&packer, cast_away_const(record), slice_count);
    return packer.offset;
}

const char *record_read_members(const uint8_t *bytes, size_t count, struct tracker_record *record) {
    struct packer packer = packer_begin_read(bytes, count);
    memset(record->members, 0, sizeof record->members);
    pack_members(&packer, record);
    return packer_finish(&packer);
}

const char *record_read_table(const uint8_t *bytes, size_t count, uint32_t slice_count,
                              struct tracker_record *record) {
    struct packer packer = packer_begin_read(bytes, count);
    memset(record->table.members, 0, sizeof record->table.members);
    memset(record->table.signatures, 0, sizeof record->table.signatures);
    record->table.declared_seats = 0;
    pack_table(&packer, record, slice_count);
    return packer_finish(&packer);
}
