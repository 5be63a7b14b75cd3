#include "runtime/swarm/tracker/tracker_durable.h"

#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/packer/packer.h"

#include <string.h>

enum {
    FORMAT_VERSION = 4, /* version of the stored form of all parts but the speeds */
    SPEEDS_VERSION = 1, /* version of the stored form of the speeds */
    /* stored size of the declaration of one seat */
    DECLARATION_BYTES = 32 + HASH_BYTES + SWARM_SIGNATURE_BYTES,
    SLICE_PLAN_BYTES = 1 + 2 + 8 + 8, /* stored size of the owner, epoch and masks of one slice */
};

/* What the functions that pack a part of the record need. */
struct packed_record {
    struct tracker_record *record; /* the record that is written or read */
    uint32_t slice_count;          /* number of slices of the record's table */
};

/* Writes `expected`, or reads a number that must be equal to `expected`. */
static void pack_expected(struct packer *packer, const char *name, uint32_t expected,
                          const char *error) {
    uint32_t value = expected;
    pack_u32(packer, name, &value);
    if (value != expected) {
        packer_fail(packer, error);
    }
}

static void pack_members(struct packer *packer, void *object) {
    struct tracker_record *record = ((const struct packed_record *)object)->record;
    pack_expected(packer, "format", FORMAT_VERSION, "has an unknown version");
    pack_u32(packer, "next_session", &record->next_session);
    uint32_t count =
        pack_element_count(packer, "member_count", &record->member_count, SWARM_MEMBERS_MAX);
    struct packer_rows ids = {&record->members[0].id, sizeof record->members[0], .count = count};
    struct packer_rows sessions = {&record->members[0].session, sizeof record->members[0],
                                   .count = count};
    struct packer_rows misses = {&record->members[0].misses, sizeof record->members[0],
                                 .count = count};
    struct packer_rows opposed = {&record->members[0].opposed, sizeof record->members[0],
                                  .count = count};
    struct packer_rows shares = {&record->members[0].share, sizeof record->members[0],
                                 .count = count};
    pack_bytes_column(packer, "members", ids, 0, SWARM_IDENTITY_BYTES);
    pack_u32_column(packer, "sessions", sessions, 0, 4);
    pack_u32_column(packer, "misses", misses, 0, 1);
    pack_u32_column(packer, "opposed", opposed, 0, 4);
    pack_u32_column(packer, "shares", shares, 0, 4);
}

static void pack_speeds(struct packer *packer, void *object) {
    struct tracker_record *record = ((const struct packed_record *)object)->record;
    uint32_t count = record->member_count; /* known: `members` is read before the speeds */
    pack_expected(packer, "format", SPEEDS_VERSION, "has an unknown version");
    count = pack_element_count(packer, "member_count", &count, SWARM_MEMBERS_MAX);
    const struct packer_rows numbers = {
        record->speeds, sizeof(uint32_t),
        .count = count * (uint32_t)(sizeof record->speeds[0] / sizeof(uint32_t))};
    pack_u32_column(packer, "speeds", numbers, 0, sizeof(uint32_t));
}

static void pack_declarations(struct packer *packer, struct round_table *table) {
    pack_u64(packer, "declared", &table->declared_seats);
    struct packer_rows members = {table->members, sizeof table->members[0], SWARM_MEMBERS_MAX,
                                  &table->declared_seats};
    struct packer_rows roots = {table->roots, sizeof table->roots[0], SWARM_MEMBERS_MAX,
                                &table->declared_seats};
    struct packer_rows signatures = {table->signatures, sizeof table->signatures[0],
                                     SWARM_MEMBERS_MAX, &table->declared_seats};
    pack_u64_column(packer, "tokens", members, offsetof(struct entry_member, tokens));
    pack_u64_column(packer, "weights", members, offsetof(struct entry_member, weight));
    pack_u64_column(packer, "samples", members, offsetof(struct entry_member, samples));
    pack_f64_column(packer, "norms", members, offsetof(struct entry_member, norm));
    pack_bytes_column(packer, "roots", roots, 0, HASH_BYTES);
    pack_bytes_column(packer, "signatures", signatures, 0, SWARM_SIGNATURE_BYTES);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if (!norm_is_valid(table->members[seat].norm)) {
            packer_fail(packer, "has a norm that is not a finite number of at least 0");
        }
    }
}

static void pack_plans(struct packer *packer, struct round_table *table, uint32_t slice_count) {
    pack_expected(packer, "slice_count", slice_count,
                  "has a number of slices other than the swarm's");
    struct packer_rows plans = {table->slices, sizeof table->slices[0], .count = slice_count};
    pack_u32_column(packer, "owners", plans, offsetof(struct slice_plan, owner), 1);
    pack_u32_column(packer, "epochs", plans, offsetof(struct slice_plan, epoch), 2);
    pack_u64_column(packer, "expected", plans, offsetof(struct slice_plan, expected_seats));
    pack_u64_column(packer, "optional", plans, offsetof(struct slice_plan, optional_seats));
    for (uint32_t s = 0; s < slice_count; s++) {
        if (table->slices[s].owner >= SWARM_MEMBERS_MAX) {
            packer_fail(packer, "has an owner that is not a seat of the roster");
        }
    }
}

static void pack_table(struct packer *packer, void *object) {
    const struct packed_record *packed = object;
    struct round_table *table = &packed->record->table;
    pack_expected(packer, "format", FORMAT_VERSION, "has an unknown version");
    pack_u32(packer, "round", &table->round);
    pack_u32(packer, "version", &table->version);
    if (table->version > 0) {
        pack_declarations(packer, table);
        pack_plans(packer, table, packed->slice_count);
    }
}

static void pack_resignations(struct packer *packer, void *object) {
    struct tracker_record *record = ((const struct packed_record *)object)->record;
    struct record_resignations *resignations = &record->resignations;
    struct packer_rows signatures = {resignations->signatures, sizeof resignations->signatures[0],
                                     SWARM_MEMBERS_MAX, &resignations->electors};
    pack_expected(packer, "format", FORMAT_VERSION, "has an unknown version");
    pack_bytes(packer, "state", resignations->state.bytes, HASH_BYTES);
    pack_u64(packer, "electors", &resignations->electors);
    pack_bytes_column(packer, "signatures", signatures, 0, SWARM_SIGNATURE_BYTES);
}

size_t record_table_bytes_max(uint32_t slice_count) {
    return RECORD_FIXED_BYTES_MAX + (size_t)SWARM_MEMBERS_MAX * DECLARATION_BYTES +
           (size_t)slice_count * SLICE_PLAN_BYTES;
}

/* The cast is safe: writing does not change the record. */
static struct packed_record cast_away_const(const struct tracker_record *record,
                                            uint32_t slice_count) {
    return (struct packed_record){(struct tracker_record *)(uintptr_t)record, slice_count};
}

size_t record_write_members(const struct tracker_record *record, uint8_t *bytes) {
    struct packed_record packed = cast_away_const(record, 0);
    return packer_write((struct packed_object){pack_members, &packed}, bytes,
                        RECORD_MEMBERS_BYTES_MAX);
}

size_t record_write_table(const struct tracker_record *record, uint32_t slice_count,
                          uint8_t *bytes) {
    struct packed_record packed = cast_away_const(record, slice_count);
    return packer_write((struct packed_object){pack_table, &packed}, bytes,
                        record_table_bytes_max(slice_count));
}

size_t record_write_resignations(const struct tracker_record *record, uint8_t *bytes) {
    struct packed_record packed = cast_away_const(record, 0);
    return packer_write((struct packed_object){pack_resignations, &packed}, bytes,
                        RECORD_RESIGNATIONS_BYTES_MAX);
}

size_t record_write_speeds(const struct tracker_record *record, uint8_t *bytes) {
    struct packed_record packed = cast_away_const(record, 0);
    return packer_write((struct packed_object){pack_speeds, &packed}, bytes,
                        RECORD_SPEEDS_BYTES_MAX);
}

const char *record_read_speeds(const uint8_t *bytes, size_t count, struct tracker_record *record) {
    struct packed_record packed = {record, 0};
    return packer_read((struct packed_object){pack_speeds, &packed}, bytes, count);
}

const char *record_read_resignations(const uint8_t *bytes, size_t count,
                                     struct tracker_record *record) {
    struct packed_record packed = {record, 0};
    memset(record->resignations.signatures, 0, sizeof record->resignations.signatures);
    return packer_read((struct packed_object){pack_resignations, &packed}, bytes, count);
}

const char *record_read_members(const uint8_t *bytes, size_t count, struct tracker_record *record) {
    struct packed_record packed = {record, 0};
    memset(record->members, 0, sizeof record->members);
    return packer_read((struct packed_object){pack_members, &packed}, bytes, count);
}

const char *record_read_table(const uint8_t *bytes, size_t count, uint32_t slice_count,
                              struct tracker_record *record) {
    struct packed_record packed = {record, slice_count};
    memset(record->table.members, 0, sizeof record->table.members);
    memset(record->table.signatures, 0, sizeof record->table.signatures);
    memset(record->table.roots, 0, sizeof record->table.roots);
    record->table.declared_seats = 0;
    return packer_read((struct packed_object){pack_table, &packed}, bytes, count);
}
