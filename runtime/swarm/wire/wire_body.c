#include "runtime/swarm/wire/wire_body.h"

#include "runtime/swarm/ledger/entry.h"

#include <string.h>

enum {
    TABLE_HEAD_BYTES = 4 + 8, /* size of the table's version and declared seats */
    TABLE_SEAT_BYTES = 3 * 8 + SWARM_SIGNATURE_BYTES, /* size of a seat of the table */
    TABLE_SLICE_BYTES = 1 + 2 + 2 * 8,                /* size of a slice of the table */
    RUN_BYTES = 2 + 2,                                /* size of the head of a run of equal rows */
    ROW_BYTES = 1 + 2 + 8 + 8 + 8 + HASH_BYTES,       /* maximum size of a row of a report */
};

_Static_assert(SWARM_SLICES_MAX *(ROW_BYTES + RUN_BYTES) + 512 <= FRAME_PAYLOAD_MAX,
               "members send no chunks: the longest report must fit one frame");
_Static_assert(SWARM_SLICES_MAX <= UINT16_MAX && SWARM_EPOCH_MAX <= UINT16_MAX,
               "both are encoded in two bytes");

bool wire_has_unknown_seats(const struct wire_shape *shape, uint64_t seats) {
    return shape->members_max < 64 && seats >> shape->members_max != 0;
}

static void clear_read_entry(struct packer *pack, struct entry *entry) {
    if (pack->mode == PACKER_READ) {
        struct entry_slice *slices = entry->slices;
        memset(entry, 0, sizeof *entry);
        entry->slices = slices;
    }
}

static void check_entry(struct packer *pack, const struct wire_shape *shape,
                        const struct entry *entry) {
    if (pack->mode != PACKER_READ || pack->error != NULL) {
        return;
    }
    const char *error = entry_error(entry);
    if (error != NULL) {
        packer_fail(pack, error);
    } else if (entry->seat_count > shape->members_max) {
        packer_fail(pack, "has more members than members_max");
    } else if (entry->kind == ENTRY_COMMIT && entry->slice_count != shape->slice_count) {
        packer_fail(pack, "does not have the swarm's number of slices");
    }
}

void wire_pack_entry(struct packer *pack, const struct wire_shape *shape, struct entry *entry,
                     struct hash *base) {
    clear_read_entry(pack, entry);
    entry_pack_fields(pack, entry, shape->slice_count);
    entry_pack_signatures(pack, entry);
    check_entry(pack, shape, entry);
    if (entry->kind == ENTRY_COMMIT) {
        pack_bytes(pack, base->bytes, HASH_BYTES);
    }
}

void wire_pack_proposal(struct packer *pack, const struct wire_shape *shape, struct entry *entry,
                        uint64_t *holders) {
    static const struct hash ZERO;
    clear_read_entry(pack, entry);
    entry_pack_fields(pack, entry, shape->slice_count);
    check_entry(pack, shape, entry);
    if (entry->kind != ENTRY_COMMIT || !hash_equal(&entry->root, &ZERO)) {
        packer_fail(pack, "proposes an entry that is not a commit with a zero root");
    }
    for (uint32_t i = 0; i < shape->slice_count; i++) {
        pack_u64(pack, &holders[i]);
        if (wire_has_unknown_seats(shape, holders[i])) {
            packer_fail(pack, "names a holder whose seat number is too high");
        }
    }
}

static void pack_seats(struct packer *pack, struct round_table *table) {
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        struct entry_member *member = &table->members[seat];
        if ((table->declared_seats >> seat & 1) == 0) {
            continue;
        }
        pack_u64(pack, &member->tokens);
        pack_u64(pack, &member->weight);
        pack_u64(pack, &member->samples);
        pack_bytes(pack, table->signatures[seat].bytes, SWARM_SIGNATURE_BYTES);
        if (member->tokens > INT64_MAX || member->samples > INT64_MAX ||
            member->weight > INT64_MAX / SWARM_MEMBERS_MAX) {
            packer_fail(pack, "has a weight or token count above the maximum");
        }
    }
}

static void pack_plans(struct packer *pack, const struct wire_shape *shape,
                       struct slice_plan *plans) {
    for (uint32_t i = 0; i < shape->slice_count; i++) {
        pack_uint(pack, &plans[i].owner, 1);
        pack_uint(pack, &plans[i].epoch, 2);
        pack_u64(pack, &plans[i].expected_seats);
        pack_u64(pack, &plans[i].optional_seats);
        if (plans[i].owner >= shape->members_max ||
            wire_has_unknown_seats(shape, plans[i].expected_seats | plans[i].optional_seats)) {
            packer_fail(pack, "has a slice with seats beyond the swarm's");
        }
    }
}

void wire_pack_table(struct packer *pack, const struct wire_shape *shape,
                     struct round_table *table) {
    bool reads = pack->mode == PACKER_READ;
    size_t bytes = shape->slice_count * sizeof(struct hash);
    pack_u32(pack, &table->version);
    pack_u64(pack, &table->declared_seats);
    if (table->version == 0 || wire_has_unknown_seats(shape, table->declared_seats)) {
        packer_fail(pack, "has version 0, or declares seats beyond the swarm's");
    }
    if (reads) {
        table->declared_seats = pack->error == NULL ? table->declared_seats : 0;
        memset(table->members, 0, sizeof table->members);
        memset(table->signatures, 0, sizeof table->signatures);
    }
    pack_seats(pack, table);
    pack_plans(pack, shape, table->slices);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        struct hash *hashes = table->hashes + (size_t)seat * shape->slice_count;
        if ((table->declared_seats >> seat & 1) != 0) {
            pack_bytes(pack, hashes, bytes);
        } else if (reads) {
            memset(hashes, 0, bytes);
        }
    }
}

enum code {
    CODE_ZERO,     /* the value is 0 */
    CODE_REPEATED, /* the value is the last one written in full */
    CODE_FULL,     /* the value follows */
    CODE_MASK,     /* both bits of a code */
};

/* The last value of each field that the rows of a report contained in full. */
struct last_values {
    uint64_t epoch, received_seats, contributors; /* values last written in full */
};

enum mark {
    MARK_RESULT = 1,             /* bit: the row has a result */
    MARK_EPOCH_SHIFT = 1,        /* MARK_*_SHIFT: position of a two-bit code in the marks. */
    MARK_RECEIVED_SHIFT = 3,     /* position of the code of received_seats */
    MARK_CONTRIBUTORS_SHIFT = 5, /* position of the code of contributors */
    MARK_REJECTED = 1 << 7,      /* bit: the row has rejected seats */
};

static uint32_t value_code(uint64_t value, uint64_t last) {
    if (value == 0) {
        return CODE_ZERO;
    }
    return value == last ? CODE_REPEATED : CODE_FULL;
}

static uint32_t row_marks(const struct slice_report *row, const struct last_values *last) {
    uint32_t marks = row->has_result != 0 ? MARK_RESULT : 0;
    marks |= value_code(row->epoch, last->epoch) << MARK_EPOCH_SHIFT;
    marks |= value_code(row->received_seats, last->received_seats) << MARK_RECEIVED_SHIFT;
    marks |= value_code(row->has_result != 0 ? row->contributors : 0, last->contributors)
             << MARK_CONTRIBUTORS_SHIFT;
    return marks | (row->rejected_seats != 0 ? MARK_REJECTED : 0);
}

/* Reads or writes a value of `bytes` bytes and returns it. */
static uint64_t pack_value(struct packer *pack, uint64_t value, size_t bytes) {
    uint32_t narrow = (uint32_t)value;
    if (bytes == 2) {
        pack_uint(pack, &narrow, 2);
        return narrow;
    }
    pack_u64(pack, &value);
    return value;
}

static uint64_t pack_coded_value(struct packer *pack, uint32_t code, uint64_t value, size_t bytes,
                                 uint64_t *last) {
    if (code == CODE_ZERO) {
        return 0;
    }
    if (code == CODE_FULL) {
        value = pack_value(pack, value, bytes);
        if (value == 0 || value == *last) {
            packer_fail(pack, "has a row that encodes a zero or repeated value in full");
        }
        *last = value;
    } else if (code != CODE_REPEATED || *last == 0) {
        packer_fail(pack, "has a row that repeats a value before the first value");
    }
    return *last;
}

static void pack_row(struct packer *pack, const struct wire_shape *shape, struct slice_report *row,
                     struct last_values *last) {
    struct slice_report packed = *row;
    uint32_t marks = row_marks(row, last);
    pack_uint(pack, &marks, 1);
    uint32_t epoch = marks >> MARK_EPOCH_SHIFT & CODE_MASK;
    uint32_t received = marks >> MARK_RECEIVED_SHIFT & CODE_MASK;
    uint32_t contributors = marks >> MARK_CONTRIBUTORS_SHIFT & CODE_MASK;
    packed.has_result = marks & MARK_RESULT;
    packed.epoch = (uint32_t)pack_coded_value(pack, epoch, row->epoch, 2, &last->epoch);
    packed.received_seats =
        pack_coded_value(pack, received, row->received_seats, 8, &last->received_seats);
    packed.contributors =
        pack_coded_value(pack, contributors, row->contributors, 8, &last->contributors);
    if ((marks & MARK_REJECTED) != 0) {
        pack_u64(pack, &packed.rejected_seats);
    }
    if (packed.has_result != 0) {
        pack_bytes(pack, packed.hash.bytes, HASH_BYTES);
    }
    if (marks == 0 || ((marks & MARK_REJECTED) != 0 && packed.rejected_seats == 0) ||
        (packed.has_result == 0 && contributors != CODE_ZERO)) {
        packer_fail(pack, "has a row whose marks do not match its fields");
    }
    if (wire_has_unknown_seats(shape, packed.received_seats | packed.rejected_seats |
                                          packed.contributors)) {
        packer_fail(pack, "has seats beyond the swarm's");
    }
    if (pack->mode == PACKER_READ) {
        *row = packed;
    }
}

/* Counts the zero rows that begin at row `at`, and then the other rows that follow them. */
static void find_equal_run(const struct slice_report *reports, uint32_t at, uint32_t count,
                           uint32_t *zero_rows, uint32_t *rows) {
    static const struct last_values NOTHING;
    uint32_t first = at;
    while (first < count && row_marks(&reports[first], &NOTHING) == 0) {
        first++;
    }
    uint32_t end = first;
    while (end < count && row_marks(&reports[end], &NOTHING) != 0) {
        end++;
    }
    *zero_rows = first - at;
    *rows = end - first;
}

void wire_pack_awaited(struct packer *pack, const struct wire_shape *shape,
                       uint32_t awaited_ms[static SWARM_MEMBERS_MAX]) {
    uint32_t count = pack->mode == PACKER_READ ? 0 : SWARM_MEMBERS_MAX;
    while (count > 0 && awaited_ms[count - 1] == 0) {
        count--;
    }
    pack_uint(pack, &count, 1);
    if (count > shape->members_max) {
        packer_fail(pack, "has a waiting time of a seat beyond the swarm's");
        return;
    }
    for (uint32_t seat = 0; seat < count; seat++) {
        pack_u32(pack, &awaited_ms[seat]);
    }
    if (pack->mode == PACKER_READ) {
        memset(awaited_ms + count, 0, (SWARM_MEMBERS_MAX - count) * sizeof *awaited_ms);
        if (count > 0 && awaited_ms[count - 1] == 0) {
            packer_fail(pack, "ends its waiting times with a zero");
        }
    }
}

void wire_pack_reports(struct packer *pack, const struct wire_shape *shape,
                       struct slice_report *reports) {
    const uint32_t count = shape->slice_count;
    struct last_values last = {0};
    uint32_t at = 0;
    if (pack->mode == PACKER_READ) {
        memset(reports, 0, count * sizeof *reports);
    }
    while (at < count && pack->error == NULL) {
        uint32_t zero_rows = 0;
        uint32_t rows = 0;
        if (pack->mode != PACKER_READ) {
            find_equal_run(reports, at, count, &zero_rows, &rows);
        }
        pack_uint(pack, &zero_rows, 2);
        pack_uint(pack, &rows, 2);
        if (zero_rows + rows > count - at || (zero_rows == 0 && at > 0) ||
            (rows == 0 && zero_rows < count - at)) {
            packer_fail(pack, "has runs of rows that are not in canonical form");
            return;
        }
        at += zero_rows;
        for (uint32_t end = at + rows; at < end && pack->error == NULL; at++) {
            pack_row(pack, shape, &reports[at], &last);
        }
    }
}

size_t wire_body_bytes_max(const struct wire_shape *shape) {
    size_t slices = shape->slice_count;
    size_t members = shape->members_max;
    size_t entry = ENTRY_RECORD_BYTES_MAX + HASH_BYTES + slices * sizeof(uint64_t) -
                   (SWARM_SLICES_MAX - slices) * ENTRY_SLICE_BYTES -
                   (SWARM_MEMBERS_MAX - members) *
                       (ENTRY_SEAT_BYTES + ENTRY_MEMBER_BYTES + ENTRY_SIGNATURE_BYTES);
    size_t table = TABLE_HEAD_BYTES + slices * TABLE_SLICE_BYTES +
                   members * (TABLE_SEAT_BYTES + slices * HASH_BYTES);
    size_t reports = 1 + members * sizeof(uint32_t) + slices * (ROW_BYTES + RUN_BYTES);
    size_t longest = entry > table ? entry : table;
    return longest > reports ? longest : reports;
}
