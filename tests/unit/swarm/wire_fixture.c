#include "wire_fixture.h"

#include "base/random.h"
#include "base/text.h"
#include "runtime/swarm/wire/attendance.h"

#include <string.h>

static uint64_t draw(struct wire_fixture *fixture) {
    uint32_t words[4];
    random_block(fixture->key, fixture->drawn++, words);
    return (uint64_t)words[0] << 32 | words[1];
}

static void draw_bytes(struct wire_fixture *fixture, void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)draw(fixture);
    }
}

static struct hash draw_hash(struct wire_fixture *fixture) {
    uint64_t seed = draw(fixture);
    return hash_of(&seed, sizeof seed);
}

/* Whether a part that may be absent is there. */
static bool is_there(struct wire_fixture *fixture, enum wire_fill fill) {
    return fill == WIRE_FULL || (fill == WIRE_SOME && draw(fixture) % 3 == 0);
}

static uint64_t number(struct wire_fixture *fixture, enum wire_fill fill) {
    return fill == WIRE_FULL ? UINT64_MAX : fill == WIRE_EMPTY ? 0 : draw(fixture);
}

static uint64_t seats(struct wire_fixture *fixture, enum wire_fill fill) {
    uint32_t members = fixture->shape.members_max;
    return number(fixture, fill) & (members == 64 ? UINT64_MAX : ((uint64_t)1 << members) - 1);
}

void wire_fixture_init(struct wire_fixture *fixture, uint32_t members, uint32_t slices) {
    memset(fixture, 0, sizeof *fixture);
    ASSERT(slices <= WIRE_FIXTURE_SLICES);
    fixture->shape = (struct wire_shape){
        .slice_count = slices, .members_max = members, .swarm = hash_of("s", 1)};
    entry_fixture_init(&fixture->swarm, members, fixture->entry_slices, slices);
    for (uint32_t index = 0; index < 2; index++) {
        entry_fixture_next(&fixture->swarm, index, &fixture->open);
    }
}

bool wire_fixture_is(uint32_t kind) {
    return kind < MESSAGE_KINDS;
}

static void make_entry(struct wire_fixture *fixture, enum wire_fill fill) {
    struct entry *entry = &fixture->entry;
    static struct entry_fixture swarm;
    swarm = fixture->swarm;
    uint32_t kind = fill == WIRE_EMPTY ? ENTRY_GENESIS : (uint32_t)draw(fixture) % 6;
    kind = fill == WIRE_FULL || fixture->message.kind == MESSAGE_PROPOSE ? ENTRY_COMMIT : kind;
    entry_fixture_next(&swarm, kind == ENTRY_GENESIS ? 0 : kind == ENTRY_COMMIT ? 2 : 1, entry);
    if (kind == ENTRY_GENESIS) {
        memset(&entry->prev, 0, sizeof entry->prev);
    }
    if (kind == ENTRY_SUSPEND) {
        entry->suspension.id = entry->seats[0].id;
        entry->suspension.reason = 1 + (uint32_t)draw(fixture) % (SUSPENSION_REASONS - 1);
        entry->suspension.until_round = entry->round + 8;
        if (entry_has_evidence(&entry->suspension)) {
            entry->suspension.evidence = (struct entry_evidence){
                .slice = 3, .epoch = 2, .contributors = draw(fixture), .hash = draw_hash(fixture)};
        }
    }
    if (kind == ENTRY_ABORT || kind == ENTRY_ROLLBACK || kind == ENTRY_SUSPEND) {
        entry->kind = (enum entry_kind)kind;
        entry->train_ms = 0;
    }
    if (kind == ENTRY_COMMIT && fixture->message.kind == MESSAGE_ENTRY) {
        fixture->message.root = draw_hash(fixture);
    }
    if (is_there(fixture, fill)) {
        entry->cursor.position += 100;
        entry->cursor.returned_count = 2;
        entry->cursor.returned[0] = (struct sample_range){3, 4};
        entry->cursor.returned[1] = (struct sample_range){5, 50};
    }
    entry_fixture_sign(&swarm, entry);
    if (fixture->message.kind == MESSAGE_PROPOSE) {
        memset(&entry->root, 0, sizeof entry->root);
        memset(&entry->hash, 0, sizeof entry->hash);
        memset(entry->signatures, 0, sizeof entry->signatures);
        entry->signature_count = 0;
        fixture->message.round = entry->round;
        fixture->message.ballot.holders = fixture->holders;
        for (uint32_t i = 0; i < fixture->shape.slice_count; i++) {
            fixture->holders[i] = seats(fixture, fill);
        }
    }
    fixture->message.entry = entry;
}

static void declare(struct wire_fixture *fixture, uint32_t seat, enum wire_fill fill) {
    struct round_table *table = &fixture->table;
    struct message message = {.kind = MESSAGE_DECLARE,
                              .round = table->round,
                              .root = draw_hash(fixture),
                              .hash = fixture->open.hash,
                              .trained = {number(fixture, fill) >> 1, number(fixture, fill) >> 1}};
    wire_sign_message(&fixture->shape, &fixture->swarm.members[seat], &message);
    table->members[seat] = (struct entry_member){.tokens = message.trained.tokens,
                                                 .weight = number(fixture, fill) >> 7,
                                                 .samples = message.trained.samples};
    table->roots[seat] = message.root;
    table->signatures[seat] = message.signature;
}

static void make_table(struct wire_fixture *fixture, enum wire_fill fill) {
    struct round_table *table = &fixture->table;
    *table = (struct round_table){.slices = fixture->plans};
    table->round = fixture->open.round;
    table->version = 2 + (uint32_t)(number(fixture, fill) >> 33);
    const bool has_base = fill == WIRE_SOME && draw(fixture) % 2 == 0;
    fixture->message.version = has_base ? 1 + (uint32_t)draw(fixture) % (table->version - 1) : 0;
    const uint64_t known_seats = seats(fixture, fill);
    table->declared_seats = has_base ? 0 : known_seats;
    for (uint32_t seat = 0; seat < fixture->shape.members_max; seat++) {
        if ((table->declared_seats >> seat & 1) != 0) {
            declare(fixture, seat, fill);
        }
    }
    for (uint32_t i = 0; i < fixture->shape.slice_count; i++) {
        fixture->plans[i] =
            (struct slice_plan){.owner = (uint32_t)draw(fixture) % fixture->shape.members_max,
                                .epoch = (uint32_t)(number(fixture, fill) & SWARM_EPOCH_MAX),
                                .expected_seats = known_seats & number(fixture, fill),
                                .version = table->version};
        fixture->plans[i].optional_seats =
            known_seats & number(fixture, fill) & ~fixture->plans[i].expected_seats;
        if (has_base && draw(fixture) % 2 == 0) {
            fixture->plans[i] = (struct slice_plan){0}; /* that of the base */
        }
    }
    fixture->message.round = table->round;
    fixture->message.table = table;
}

/* What a report does not have is read as zero. */
static void clear_left_out_parts(struct wire_fixture *fixture) {
    struct message *message = &fixture->message;
    if ((message->report.parts & REPORT_POSITION) == 0) {
        message->version = message->poll.number = 0;
        message->links.unreachable = 0;
    }
    if ((message->report.parts & REPORT_STATE) == 0) {
        memset(&message->root, 0, sizeof message->root);
        memset(&message->hash, 0, sizeof message->hash);
        memset(&message->measured, 0, sizeof message->measured);
        memset(&message->stored, 0, sizeof message->stored);
    }
    if ((message->report.parts & REPORT_AWAITED) == 0) {
        memset(fixture->awaited_ms, 0, sizeof fixture->awaited_ms);
    }
    if ((message->report.parts & REPORT_ROWS) == 0) {
        memset(fixture->reports, 0, sizeof fixture->reports);
    }
    for (uint32_t i = 0; i < fixture->shape.slice_count; i++) {
        const bool has_part = (message->report.parts & REPORT_REPEATED) != 0;
        fixture->reports[i].repeated_seats &= has_part ? UINT64_MAX : 0;
    }
}

static void make_reports(struct wire_fixture *fixture, enum wire_fill fill) {
    struct message *message = &fixture->message;
    uint64_t usual = seats(fixture, WIRE_SOME);
    memset(fixture->reports, 0, sizeof fixture->reports);
    message->number += message->number == 0;
    message->report.base = fill == WIRE_SOME ? draw(fixture) % message->number : 0;
    message->report.parts = fill == WIRE_SOME ? (uint32_t)draw(fixture) % REPORT_ALL : REPORT_ALL;
    for (uint32_t i = 0; i < fixture->shape.slice_count; i++) {
        struct slice_report *report = &fixture->reports[i];
        bool held = is_there(fixture, fill);
        if (fill == WIRE_SOME && draw(fixture) % 4 == 0) {
            continue; /* The row has not changed since the base. */
        }
        report->changed = fixture->message.number;
        report->has_result = held;
        report->epoch = is_there(fixture, fill) ? (uint32_t)draw(fixture) & SWARM_EPOCH_MAX : 0;
        report->received_seats = is_there(fixture, fill) ? usual : 0;
        report->rejected_seats = is_there(fixture, fill) ? seats(fixture, WIRE_SOME) : 0;
        report->repeated_seats = is_there(fixture, fill) ? seats(fixture, WIRE_SOME) : 0;
        if (held) {
            report->contributors = draw(fixture) % 4 != 0 ? usual : seats(fixture, WIRE_SOME);
            report->hash = draw_hash(fixture);
        }
    }
    draw_bytes(fixture, &fixture->message.measured, sizeof fixture->message.measured);
    draw_bytes(fixture, &fixture->message.stored, sizeof fixture->message.stored);
    memset(fixture->awaited_ms, 0, sizeof fixture->awaited_ms);
    for (uint32_t seat = 0; seat < fixture->shape.members_max; seat++) {
        fixture->awaited_ms[seat] = is_there(fixture, fill) ? (uint32_t)draw(fixture) : 0;
    }
    message->report.rows = fixture->reports;
    message->links.awaited_ms = fixture->awaited_ms;
    clear_left_out_parts(fixture);
}

static void make_bulk(struct wire_fixture *fixture) {
    fixture->bulk_bytes = 1 + draw(fixture) % WIRE_FIXTURE_BULK;
    draw_bytes(fixture, fixture->bulk, fixture->bulk_bytes);
    fixture->message.hash = hash_of(fixture->bulk, fixture->bulk_bytes);
}

static void make_proof(struct wire_fixture *fixture, enum wire_fill fill) {
    struct slice_proof *proof = &fixture->proof;
    *proof = (struct slice_proof){.norm = (double)number(fixture, fill)};
    proof->path_count = is_there(fixture, fill) ? CONTRIBUTION_PATH_MAX : 0;
    draw_bytes(fixture, proof->path, proof->path_count * sizeof proof->path[0]);
    fixture->message.proof = proof;
}

/* What stands in a message of this kind besides session, and what it points to. */
static void make_numbers(struct wire_fixture *fixture, enum wire_fill fill) {
    struct message *message = &fixture->message;
    const enum message_kind kind = message->kind;
    uint64_t value = number(fixture, fill);
    bool rules = (kind >= MESSAGE_WELCOME && kind <= MESSAGE_PROPOSE) || kind == MESSAGE_CONFIRM;
    bool exchanges = kind >= MESSAGE_CONTRIBUTION && kind < MESSAGE_CONFIRM;
    bool numbered = kind <= MESSAGE_VOTE && kind != MESSAGE_DECLARE;
    bool rounds = kind == MESSAGE_REPORT || kind == MESSAGE_DECLARE || kind == MESSAGE_VOTE ||
                  kind == MESSAGE_POLL || kind == MESSAGE_GOODBYE || exchanges;
    message->session = kind == MESSAGE_HELLO ? 0 : (uint32_t)value;
    message->incarnation = rules ? (uint32_t)(value >> 5) : 0;
    message->round = rounds ? (uint32_t)(value >> 7) : 0;
    message->number =
        numbered || kind == MESSAGE_WELCOME || kind == MESSAGE_PROPOSE || kind == MESSAGE_CONFIRM
            ? value * 3
            : 0;
    message->poll.number =
        kind == MESSAGE_REPORT || kind == MESSAGE_POLL ? (uint32_t)(value >> 9) : 0;
    message->poll.ends_training = kind == MESSAGE_POLL ? (uint32_t)(value >> 13 & 1) : 0;
    message->version = kind == MESSAGE_REPORT ? (uint32_t)(value >> 11) : 0;
    message->links.unreachable = kind == MESSAGE_REPORT ? value * 5 : 0;
    if (numbered) {
        message->root = draw_hash(fixture);
    }
    if (kind == MESSAGE_PROPOSE || kind == MESSAGE_VOTE || kind == MESSAGE_SKETCHES ||
        kind == MESSAGE_FETCH_SKETCHES) {
        message->ballot.seed = draw_hash(fixture);
        message->ballot.start = kind == MESSAGE_PROPOSE || kind == MESSAGE_VOTE ? value * 7 : 0;
    }
    if (kind == MESSAGE_PROPOSE) {
        message->ballot.recheck =
            (uint32_t)(value >> 17) % (RECHECK_SLICE + fixture->shape.slice_count);
    }
    if (exchanges || kind == MESSAGE_VOTE) {
        message->slice = (uint32_t)(value >> 32) % fixture->shape.slice_count;
        message->epoch = (uint32_t)value & SWARM_EPOCH_MAX;
    }
}

/* A vote for a proposal, or an accusation of the member that signed a result. */
static void make_vote(struct wire_fixture *fixture, const struct key_pairs *keys,
                      enum wire_fill fill) {
    struct message *message = &fixture->message;
    message->hash = draw_hash(fixture);
    message->contributors = seats(fixture, fill);
    message->ballot.refusal.silent_seats = seats(fixture, fill);
    message->ballot.refusal.opposed_seats = seats(fixture, fill);
    if (draw(fixture) % 3 == 0) {
        struct message result = *message;
        uint32_t suspect = (uint32_t)draw(fixture) % fixture->shape.members_max;
        result.kind = MESSAGE_RESULT;
        wire_sign_message(&fixture->shape, &fixture->swarm.members[suspect], &result);
        memset(&message->root, 0, sizeof message->root);
        message->ballot.refusal.reason = REFUSAL_SUM;
        message->ballot.refusal.suspect = suspect;
        message->owner = result.owner;
        message->signature = result.signature;
    } else {
        ledger_sign(keys, &message->hash, &message->signature);
    }
}

static void make_signed(struct wire_fixture *fixture, enum wire_fill fill) {
    struct message *message = &fixture->message;
    uint32_t seat = (uint32_t)draw(fixture) % fixture->shape.members_max;
    const struct key_pairs *keys = &fixture->swarm.members[seat];
    memcpy(message->from.bytes, keys->public_keys.sign, KEY_BYTES);
    if (message->kind == MESSAGE_DECLARE) {
        message->root = draw_hash(fixture);
        message->hash = draw_hash(fixture);
        message->trained.tokens = number(fixture, fill) >> 1;
        message->trained.samples = number(fixture, fill) >> 1;
    } else if (message->kind == MESSAGE_RESULT) {
        message->contributors = seats(fixture, fill);
    } else if (message->kind == MESSAGE_VOTE) {
        make_vote(fixture, keys, fill);
    }
    wire_sign_message(&fixture->shape, keys, message);
}

void wire_fixture_make(struct wire_fixture *fixture, enum message_kind kind, enum wire_fill fill,
                       uint64_t key) {
    fixture->key = key;
    fixture->drawn = 0;
    fixture->bulk_bytes = 0;
    fixture->message = (struct message){.kind = kind};
    make_numbers(fixture, fill);
    if (kind == MESSAGE_ENTRY || kind == MESSAGE_PROPOSE) {
        make_entry(fixture, fill);
    } else if (kind == MESSAGE_TABLE) {
        make_table(fixture, fill);
    } else if (kind == MESSAGE_REPORT) {
        fixture->message.hash = draw_hash(fixture);
        make_reports(fixture, fill);
    } else if (kind == MESSAGE_CONTRIBUTION || kind == MESSAGE_RESULT || kind == MESSAGE_SKETCHES) {
        make_bulk(fixture);
        if (kind == MESSAGE_CONTRIBUTION) {
            make_proof(fixture, fill);
        }
    } else if (kind == MESSAGE_RESIGN || (kind == MESSAGE_GOODBYE && is_there(fixture, fill))) {
        fixture->message.hash = draw_hash(fixture);
    } else if (kind == MESSAGE_FETCH_RESULT && is_there(fixture, fill)) {
        fixture->message.hash = draw_hash(fixture);
    }
    make_signed(fixture, fill);
}

void wire_fixture_hosts(struct wire_fixture *fixture, enum wire_fill fill, uint64_t key) {
    struct wire_introduction *introduction = &fixture->introduction;
    struct wire_address_book *roster = &fixture->roster;
    const struct key_pairs *self = &fixture->swarm.members[0];
    fixture->key = key;
    fixture->drawn = 0;
    *introduction = (struct wire_introduction){.keys = self->public_keys, .version = 1};
    introduction->manifest = fixture->shape.swarm;
    *roster = (struct wire_address_book){.version = (uint32_t)draw(fixture)};
    roster->timing = (struct swarm_timing){100, 500, 500, INT32_MAX, 10500, 0, 0};
    if (is_there(fixture, fill)) {
        memset(introduction->name, 'n', WIRE_MEMBER_NAME_BYTES - 1);
    }
    if (is_there(fixture, fill)) {
        strcpy(introduction->address, draw(fixture) % 2 == 0 ? "tcp://:7700" : "tcp://9.8.7.6:1");
    }
    wire_sign_introduction(self, introduction);
    roster->count = fill == WIRE_EMPTY ? 0 : fixture->shape.members_max;
    for (uint32_t i = 0; i < roster->count; i++) {
        struct text address =
            text_over(roster->members[i].address, sizeof roster->members[i].address);
        roster->members[i].keys = fixture->swarm.members[i].public_keys;
        if (is_there(fixture, fill)) {
            text_add(&address, "tcp://[::%x]:%u", i, 7700 + i);
        }
    }
}

size_t wire_fixture_find(const uint8_t *bytes, size_t count, const char *name) {
    const size_t length = strlen(name);
    for (size_t at = 0; at + 1 + length < count; at++) {
        if (bytes[at] == (0xa0 | length) && memcmp(bytes + at + 1, name, length) == 0) {
            return at + 1 + length;
        }
    }
    ASSERT(!"the field exists");
    return 0;
}

size_t wire_fixture_write(const struct wire_fixture *fixture, const struct message *message,
                          const uint8_t *bulk, size_t bulk_bytes, uint8_t *bytes, size_t capacity) {
    struct frame frame;
    size_t room = capacity - FRAME_HEADER_BYTES;
    size_t count = wire_write_message(&fixture->shape, message, bulk_bytes, &frame,
                                      bytes + FRAME_HEADER_BYTES, room);
    ASSERT(frame.length == count + bulk_bytes && bulk_bytes <= room - count);
    if (bulk_bytes > 0) {
        memcpy(bytes + FRAME_HEADER_BYTES + count, bulk, bulk_bytes);
    }
    frame.length = frame.length < FRAME_PAYLOAD_MAX ? frame.length : FRAME_PAYLOAD_MAX;
    frame_write(&frame, bytes);
    return FRAME_HEADER_BYTES + count + bulk_bytes;
}

/* ---- payloads of no state machine ---- */

const enum wire_kind WIRE_FIXTURE_SERVICE_KINDS[WIRE_FIXTURE_SERVICES] = {
    WIRE_PING,        WIRE_LEAF_REQUEST, WIRE_REJECTED,   WIRE_MANIFEST,   WIRE_STATUS,
    WIRE_LEAF_HASHES, WIRE_LEDGER,       WIRE_CHECKPOINT, WIRE_ATTENDANCE, WIRE_PROBE_ADDRESS};

/* Removes the length field of a chunked kind. */
static size_t without_length(enum wire_kind kind, uint8_t *payload, size_t count) {
    if (!wire_is_chunked((uint8_t)kind)) {
        return count;
    }
    ASSERT(wire_read_length(payload) == count);
    memmove(payload, payload + WIRE_LENGTH_BYTES, count - WIRE_LENGTH_BYTES);
    return count - WIRE_LENGTH_BYTES;
}

static size_t write_page(struct wire_fixture *fixture, uint32_t entries, uint8_t *payload) {
    struct wire_ledger_page page = wire_begin_ledger_page(entries > 0 ? 0 : 7, 7);
    static struct entry_fixture swarm;
    static struct entry entry;
    entry_fixture_init(&swarm, fixture->shape.members_max, fixture->entry_slices,
                       fixture->shape.slice_count);
    for (uint32_t i = 0; i < entries; i++) {
        entry_fixture_next(&swarm, i, &entry);
        const bool is_added =
            wire_add_ledger_entry(&page, &entry, payload, fixture->shape.slice_count);
        ASSERT(is_added);
    }
    return wire_write_ledger_page(&page, payload);
}

size_t wire_fixture_service(struct wire_fixture *fixture, enum wire_kind kind, enum wire_fill fill,
                            uint64_t key, uint8_t *payload) {
    static const size_t SIZES[WIRE_FILLS] = {0, 100, 3000};
    static const struct attendance ATTENDANCES[WIRE_FILLS] = {
        {0},
        {2, 3, "ben", ABSENCE_LEFT, 0, 10000, 0},
        {63, 64, "c", ABSENCE_REMOVED, 64, INT64_MAX / 2, 1}};
    static const struct wire_probe PROBES[WIRE_FILLS] = {
        {"", PROBE_FOREIGN}, {"tcp://:7710", PROBE_REQUESTED}, {"tcp://[::1]:65535", PROBE_BUSY}};
    const uint64_t numbers[WIRE_FILLS] = {0, 1 + key, UINT64_MAX - key};
    const struct hash root = hash_of(&key, sizeof key);
    size_t count = 0;
    for (size_t i = 0; i < SIZES[fill]; i++) {
        payload[WIRE_DOCUMENT_OFFSET + i] = (uint8_t)(' ' + (i + key) % 90);
    }
    switch (kind) {
    case WIRE_PING:
        return wire_write_ping(numbers[fill], payload);
    case WIRE_LEAF_REQUEST:
        return wire_write_leaf_request(&root, payload);
    case WIRE_LEAF_HASHES:
        return wire_write_leaf_hashes(&root, SIZES[fill] / HASH_BYTES, payload);
    case WIRE_ATTENDANCE:
        return attendance_write(&ATTENDANCES[fill], payload);
    case WIRE_PROBE_ADDRESS:
        return wire_write_probe(&PROBES[fill], payload);
    case WIRE_LEDGER:
        count = write_page(fixture, fill, payload);
        break;
    default:
        count = wire_write_document((uint8_t)kind, SIZES[fill], payload);
    }
    return without_length(kind, payload, count);
}

size_t wire_fixture_repeat_service(enum wire_kind kind, const uint8_t *bytes, size_t count,
                                   uint8_t *again) {
    struct wire_ledger_page page;
    struct attendance attendance;
    struct wire_probe probe;
    struct hash root;
    const uint8_t *content = NULL;
    size_t content_bytes = 0;
    uint64_t number = 0;
    const char *error = kind == WIRE_PING           ? wire_read_ping(bytes, count, &number)
                        : kind == WIRE_LEAF_REQUEST ? wire_read_leaf_request(bytes, count, &root)
                        : kind == WIRE_LEAF_HASHES
                            ? wire_read_leaf_hashes(bytes, count, &root, &content, &content_bytes)
                        : kind == WIRE_ATTENDANCE    ? attendance_read(bytes, count, &attendance)
                        : kind == WIRE_PROBE_ADDRESS ? wire_read_probe(bytes, count, &probe)
                        : kind == WIRE_LEDGER        ? wire_read_ledger_page(bytes, count, &page)
                                              : wire_read_document((uint8_t)kind, bytes, count,
                                                                   &content, &content_bytes);
    if (error != NULL || count > WIRE_FIXTURE_SERVICE_BYTES / 2) {
        return 0;
    }
    if (kind == WIRE_LEDGER) {
        if (page.bytes > 0) {
            memcpy(again + WIRE_LEDGER_FIELDS_BYTES, page.records, page.bytes);
        }
        page.records = again + WIRE_LEDGER_FIELDS_BYTES;
        return without_length(kind, again, wire_write_ledger_page(&page, again));
    }
    if (content_bytes > 0) {
        memcpy(again + WIRE_DOCUMENT_OFFSET, content, content_bytes);
    }
    return kind == WIRE_PING            ? wire_write_ping(number, again)
           : kind == WIRE_ATTENDANCE    ? attendance_write(&attendance, again)
           : kind == WIRE_PROBE_ADDRESS ? wire_write_probe(&probe, again)
           : kind == WIRE_LEAF_REQUEST  ? wire_write_leaf_request(&root, again)
           : kind == WIRE_LEAF_HASHES
               ? wire_write_leaf_hashes(&root, content_bytes / HASH_BYTES, again)
               : without_length(kind, again,
                                wire_write_document((uint8_t)kind, content_bytes, again));
}
