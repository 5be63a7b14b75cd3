#include "runtime/swarm/wire/wire_body.h"

#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/norms.h"

#include <string.h>

enum {
    /* Encoded size of a seat of the table. */
    TABLE_SEAT_BYTES = 4 * 8 + HASH_BYTES + SWARM_SIGNATURE_BYTES,
    /* Largest encoded size of a slice of the table: a new run of equal values begins in every
     * column. */
    TABLE_SLICE_BYTES = 1 + (2 + 2) + 2 * (2 + 8),
    /* Largest encoded size of a row of a report: a new stretch of rows and a new run of equal
     * values in every column begin there. */
    REPORT_ROW_BYTES = (2 + 2) + (2 + 2) + (2 + 1) + 4 * (2 + 8),
    /* 64-bit words of a mask with one bit for each slice */
    ROW_SET_WORDS = (SWARM_SLICES_MAX + 63) / 64,
    BODY_FIELDS_MAX = 24, /* Largest number of fields of a body other than an entry. */
};

_Static_assert(SWARM_SLICES_MAX <= UINT16_MAX && SWARM_EPOCH_MAX <= UINT16_MAX,
               "a slice index and an epoch are encoded in two bytes each");

bool wire_has_unknown_seats(const struct wire_shape *shape, uint64_t seats) {
    return shape->members_max < 64 && seats >> shape->members_max != 0;
}

static void clear_entry_if_reading(struct packer *pack, struct entry *entry) {
    if (packer_is_reading(pack)) {
        struct entry_slice *slices = entry->slices;
        memset(entry, 0, sizeof *entry);
        entry->slices = slices;
    }
}

static void check_entry(struct packer *pack, const struct wire_shape *shape,
                        const struct entry *entry) {
    if (!packer_is_reading(pack) || pack->error != NULL) {
        return;
    }
    const char *error = entry_error(entry);
    if (error != NULL) {
        packer_fail(pack, error);
    } else if (entry->seat_count > shape->members_max) {
        packer_fail(pack, "has more members than members_max");
    } else if (entry->kind == ENTRY_COMMIT && entry->result_count != shape->slice_count) {
        packer_fail(pack, "does not have the swarm's number of slices");
    }
}

void wire_pack_entry(struct packer *pack, const struct wire_shape *shape, struct entry *entry,
                     struct hash *base) {
    clear_entry_if_reading(pack, entry);
    entry_pack_record(pack, entry, shape->slice_count);
    check_entry(pack, shape, entry);
    if (entry->kind == ENTRY_COMMIT) {
        pack_bytes(pack, "base", base->bytes, HASH_BYTES);
    }
}

void wire_pack_proposal(struct packer *pack, const struct wire_shape *shape, struct entry *entry,
                        uint64_t *holders) {
    static const struct hash ZERO;
    struct packer_rows rows = {holders, sizeof *holders, .count = shape->slice_count};
    clear_entry_if_reading(pack, entry);
    entry_pack_content(pack, entry);
    entry_pack_rows(pack, entry, shape->slice_count);
    check_entry(pack, shape, entry);
    if (entry->kind != ENTRY_COMMIT || !hash_equal(&entry->root, &ZERO) ||
        entry->slice_count == 0) {
        packer_fail(pack, "proposes an entry that is not a COMMIT, has a root or has no slices");
    }
    pack_u64_column(pack, "holders", rows, 0);
    for (uint32_t i = 0; i < shape->slice_count; i++) {
        if (wire_has_unknown_seats(shape, holders[i])) {
            packer_fail(
                pack,
                "lists a holder of contributions with a seat number above the swarm's maximum");
        }
    }
}

/* Selects the rows of the seats that declared. */
static struct packer_rows select_declared_rows(void *first, size_t stride,
                                               const struct round_table *table) {
    return (struct packer_rows){first, stride, SWARM_MEMBERS_MAX, &table->declared_seats};
}

static void pack_declared_seats(struct packer *pack, const struct wire_shape *shape,
                                struct round_table *table) {
    pack_u64(pack, "declared", &table->declared_seats);
    if (wire_has_unknown_seats(shape, table->declared_seats)) {
        packer_fail(pack, "has a declaration with a seat number above the swarm's maximum");
    }
    if (packer_is_reading(pack) && pack->error != NULL) {
        table->declared_seats = 0;
    }
    struct packer_rows members =
        select_declared_rows(table->members, sizeof *table->members, table);
    struct packer_rows signatures =
        select_declared_rows(table->signatures, sizeof *table->signatures, table);
    pack_u64_column(pack, "tokens", members, offsetof(struct entry_member, tokens));
    pack_u64_column(pack, "weights", members, offsetof(struct entry_member, weight));
    pack_u64_column(pack, "samples", members, offsetof(struct entry_member, samples));
    pack_f64_column(pack, "norms", members, offsetof(struct entry_member, norm));
    pack_bytes_column(pack, "roots", select_declared_rows(table->roots, HASH_BYTES, table), 0,
                      HASH_BYTES);
    pack_bytes_column(pack, "signatures", signatures, 0, SWARM_SIGNATURE_BYTES);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        struct entry_member *member = &table->members[seat];
        if (member->tokens > INT64_MAX || member->samples > INT64_MAX ||
            member->weight > INT64_MAX / SWARM_MEMBERS_MAX) {
            packer_fail(pack, "has a weight or token count above the maximum");
        }
        if (!norm_is_valid(member->norm)) {
            packer_fail(pack, "has a norm that is not a finite number of at least 0");
        }
    }
}

static void select_changed_plans(const struct round_table *table, uint32_t base, uint32_t count,
                                 uint64_t selected[static ROW_SET_WORDS]) {
    memset(selected, 0, ROW_SET_WORDS * sizeof *selected);
    for (uint32_t i = 0; i < count; i++) {
        bool is_new = table->slices[i].version > base;
        selected[i / 64] |= (uint64_t)is_new << i % 64;
    }
}

/* Packs the plans of all slices, or only those that changed after version `base`. */
static void pack_slice_plans(struct packer *pack, const struct wire_shape *shape,
                             struct round_table *table, uint32_t base) {
    const uint32_t count = shape->slice_count;
    struct slice_plan *plans = table->slices;
    uint64_t selected[ROW_SET_WORDS];
    struct packer_rows rows = {plans, sizeof *plans, count, base > 0 ? selected : NULL};
    if (base > 0 && !packer_is_reading(pack)) {
        select_changed_plans(table, base, count, selected);
    }
    if (base > 0) {
        pack_row_set(pack, "slices", selected, count);
    }
    for (uint32_t i = 0; packer_is_reading(pack) && i < count; i++) {
        bool is_passed = base == 0 || (selected[i / 64] >> i % 64 & 1) != 0;
        plans[i] = (struct slice_plan){.version = is_passed ? table->version : 0};
    }
    pack_u32_column(pack, "owners", rows, offsetof(struct slice_plan, owner), 1);
    pack_u32_runs(pack, "epochs", rows, offsetof(struct slice_plan, epoch), 2);
    pack_u64_runs(pack, "expected", rows, offsetof(struct slice_plan, expected_seats));
    pack_u64_runs(pack, "optional", rows, offsetof(struct slice_plan, optional_seats));
    for (uint32_t i = 0; i < count; i++) {
        if (plans[i].owner >= shape->members_max ||
            wire_has_unknown_seats(shape, plans[i].expected_seats | plans[i].optional_seats)) {
            packer_fail(pack, "has a slice with a seat number above the swarm's maximum");
        }
    }
}

void wire_pack_table(struct packer *pack, const struct wire_shape *shape, struct round_table *table,
                     uint32_t *base) {
    pack_u32(pack, "version", &table->version);
    pack_u32(pack, "base", base);
    if (table->version <= *base) {
        packer_fail(pack, "has a version that is not newer than its base");
    }
    if (packer_is_reading(pack)) {
        table->declared_seats = 0;
        memset(table->members, 0, sizeof table->members);
        memset(table->signatures, 0, sizeof table->signatures);
        memset(table->roots, 0, sizeof table->roots);
    }
    if (*base == 0) {
        pack_declared_seats(pack, shape, table);
    }
    pack_slice_plans(pack, shape, table, *base);
}

static void pack_awaited_times(struct packer *pack, const struct wire_shape *shape,
                               uint32_t awaited_ms[static SWARM_MEMBERS_MAX]) {
    struct packer_rows rows = {awaited_ms, sizeof *awaited_ms, .count = SWARM_MEMBERS_MAX};
    pack_u32_runs(pack, "awaited_ms", rows, 0, 4);
    for (uint32_t seat = shape->members_max; seat < SWARM_MEMBERS_MAX; seat++) {
        if (awaited_ms[seat] != 0) {
            packer_fail(pack, "has a waiting time with a seat number above the swarm's maximum");
        }
    }
}

void wire_pack_proof(struct packer *pack, struct slice_proof *proof) {
    pack_f64(pack, "norm", &proof->norm);
    uint32_t count = pack_variable_bin_header(pack, "path", &proof->path_count,
                                              CONTRIBUTION_PATH_MAX, sizeof proof->path[0]);
    for (uint32_t i = 0; i < count; i++) {
        pack_bin_part(pack, proof->path[i].bytes, HASH_BYTES);
    }
}

static void check_report_row(struct packer *pack, const struct wire_shape *shape,
                             const struct slice_report *row) {
    if (row->has_result > 1 || (row->has_result == 0 && row->contributors != 0)) {
        packer_fail(pack, "has a row with contributors but without a result");
    }
    if (wire_has_unknown_seats(shape, row->received_seats | row->rejected_seats |
                                          row->repeated_seats | row->contributors)) {
        packer_fail(pack, "has a row with a seat number above the swarm's maximum");
    }
}

static bool is_row_selected(const uint64_t *selected, uint32_t row) {
    return (selected[row / 64] >> row % 64 & 1) != 0;
}

static void select_changed_rows(const struct message *message, const struct slice_report *reports,
                                uint32_t count, uint64_t selected[static ROW_SET_WORDS]) {
    memset(selected, 0, ROW_SET_WORDS * sizeof *selected);
    for (uint32_t i = 0; i < count; i++) {
        bool is_due =
            reports[i].changed > message->report.base && reports[i].changed <= message->number;
        selected[i / 64] |= (uint64_t)is_due << i % 64;
    }
}

/* Packs the rows that changed since the base of the report. */
static void pack_report_rows(struct packer *pack, const struct wire_shape *shape,
                             const struct message *message, struct slice_report *reports) {
    const uint32_t count = shape->slice_count;
    uint64_t selected[ROW_SET_WORDS];
    struct packer_rows rows = {reports, sizeof *reports, count, selected};
    if (!packer_is_reading(pack)) {
        select_changed_rows(message, reports, count, selected);
    }
    pack_row_set(pack, "slices", selected, count);
    for (uint32_t i = 0; packer_is_reading(pack) && i < count; i++) {
        reports[i] =
            (struct slice_report){.changed = is_row_selected(selected, i) ? message->number : 0};
    }
    pack_u32_runs(pack, "epochs", rows, offsetof(struct slice_report, epoch), 2);
    pack_u64_runs(pack, "received", rows, offsetof(struct slice_report, received_seats));
    pack_u64_runs(pack, "rejected", rows, offsetof(struct slice_report, rejected_seats));
    if ((message->report.parts & REPORT_REPEATED) != 0) {
        pack_u64_runs(pack, "repeated", rows, offsetof(struct slice_report, repeated_seats));
    }
    pack_u32_runs(pack, "has_result", rows, offsetof(struct slice_report, has_result), 1);
    pack_u64_runs(pack, "contributors", rows, offsetof(struct slice_report, contributors));
    size_t results = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_passed = is_row_selected(selected, i);
        check_report_row(pack, shape, is_passed ? &reports[i] : &(struct slice_report){0});
        results += is_passed ? reports[i].has_result : 0;
    }
    pack_bin_header(pack, "hashes", results * HASH_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        if (is_row_selected(selected, i) && reports[i].has_result != 0) {
            pack_bin_part(pack, reports[i].hash.bytes, HASH_BYTES);
        }
    }
}

void wire_pack_report(struct packer *pack, const struct wire_shape *shape,
                      const struct message *message, uint32_t awaited_ms[static SWARM_MEMBERS_MAX],
                      struct slice_report *rows) {
    if (message->report.parts > REPORT_ALL || message->report.base >= message->number) {
        packer_fail(pack, "has unknown parts, or a version that is not newer than its base");
    }
    if (packer_is_reading(pack)) {
        memset(awaited_ms, 0, SWARM_MEMBERS_MAX * sizeof *awaited_ms);
        memset(rows, 0, shape->slice_count * sizeof *rows);
    }
    if ((message->report.parts & REPORT_AWAITED) != 0) {
        pack_awaited_times(pack, shape, awaited_ms);
    }
    if ((message->report.parts & REPORT_ROWS) != 0) {
        pack_report_rows(pack, shape, message, rows);
    }
}

size_t wire_body_bytes_max(const struct wire_shape *shape) {
    size_t slices = shape->slice_count;
    size_t members = shape->members_max;
    size_t seat = ENTRY_SEAT_BYTES + ENTRY_MEMBER_BYTES + ENTRY_SIGNATURE_BYTES;
    size_t entry = ENTRY_RECORD_BYTES_MAX + HASH_BYTES + slices * sizeof(uint64_t) -
                   (SWARM_SLICES_MAX - slices) * ENTRY_SLICE_BYTES -
                   (SWARM_MEMBERS_MAX - members) * seat;
    size_t table = slices * TABLE_SLICE_BYTES + members * TABLE_SEAT_BYTES;
    size_t results = slices < REPORT_RESULTS_MAX ? slices : REPORT_RESULTS_MAX;
    size_t reports = SWARM_MEMBERS_MAX * (2 + 4) + slices * REPORT_ROW_BYTES + results * HASH_BYTES;
    size_t longest = entry > table ? entry : table;
    return BODY_FIELDS_MAX * PACKER_FIELD_BYTES_MAX + (longest > reports ? longest : reports);
}
