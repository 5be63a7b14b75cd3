/* written_bytes: everything that a swarm writes for another process, for another machine or for
 * its disk, made from seeds: one line for each form, with its length and a digest of its bytes. */
#include "kernels/codec.h"
#include "kernels/cpu/cpu.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/ledger/merkle.h"
#include "runtime/swarm/tracker/tracker_durable.h"
#include "tests/unit/swarm/wire_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 2 << 20, KEYS = 4, SHAPES = 3, CODED = 1000 };

static const struct { uint32_t members, slices; } SIZES[SHAPES] = {{1, 1}, {5, 9}, {64, 200}};

static struct wire_fixture fixture;
static uint8_t bytes[BYTES_MAX];
static char long_text[LEDGER_LINE_MAX];

/* A line's digest covers several writings of one form. */
static struct hash_state state;
static size_t total;

static void begin(void) {
    hash_begin(&state);
    total = 0;
}

static void add(const void *written, size_t count) {
    hash_add(&state, written, count);
    total += count;
}

static void print(const char *name, uint32_t a, uint32_t b) {
    char hex[HASH_HEX_BYTES];
    struct hash hash = hash_end(&state);
    printf("%s %u %u: %zu bytes, %s\n", name, a, b, total, hash_hex(&hash, hex));
}

/* By the kind's number and how much of it is filled in. */
static void print_messages(void) {
    for (uint32_t kind = 0; kind < MESSAGE_KINDS; kind++) {
        for (uint32_t fill = 0; fill < WIRE_FILLS; fill++) {
            begin();
            for (uint32_t turn = 0; turn < SHAPES * KEYS; turn++) {
                wire_fixture_init(&fixture, SIZES[turn % SHAPES].members,
                                  SIZES[turn % SHAPES].slices);
                wire_fixture_make(&fixture, (enum message_kind)kind, (enum wire_fill)fill, turn);
                add(bytes, wire_fixture_write(&fixture, &fixture.message, fixture.bulk,
                                              fixture.bulk_bytes, bytes, BYTES_MAX));
            }
            print("message", kind, fill);
        }
    }
}

static void print_host_messages(void) {
    for (uint32_t fill = 0; fill < WIRE_FILLS; fill++) {
        struct wire_proof proof;
        wire_fixture_init(&fixture, 5, 1);
        wire_fixture_hosts(&fixture, (enum wire_fill)fill, 3);
        begin();
        add(bytes, wire_write_introduction(&fixture.introduction, bytes));
        print("introduction", 0, fill);
        begin();
        add(bytes, wire_write_address_book(&fixture.roster, bytes));
        print("roster", 0, fill);
        begin();
        wire_sign_proof(&fixture.swarm.members[fill], &fixture.swarm.tracker.public_keys,
                        fixture.swarm.members[3].public_keys.curve, &proof);
        add(bytes, wire_write_proof(&proof, bytes));
        print("proof", 0, fill);
    }
}

static void print_frames(void) {
    struct frame whole = {.kind = MESSAGE_TABLE,
                          .epoch = 0x1234,
                          .round = 0x12345678,
                          .slice = 0x9abcdef0,
                          .session = 0x0fedcba9};
    size_t count = 3 * FRAME_PAYLOAD_MAX + 77;
    begin();
    for (size_t at = 0; at < count;) {
        struct frame piece = wire_chunk_header(&whole, count, at);
        frame_write(&piece, bytes);
        add(bytes, FRAME_HEADER_BYTES);
        at += piece.length;
    }
    print("pieces", 0, 0);
    begin();
    for (uint32_t kind = 0; kind < WIRE_KIND_END; kind++) {
        bool ways[] = {wire_may_send(WIRE_TRACKER, WIRE_MEMBER, (uint8_t)kind),
                       wire_may_send(WIRE_MEMBER, WIRE_TRACKER, (uint8_t)kind),
                       wire_may_send(WIRE_MEMBER, WIRE_MEMBER, (uint8_t)kind),
                       wire_is_chunked((uint8_t)kind)};
        for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
            bytes[i] = ways[i];
        }
        add(bytes, ARRAY_COUNT(ways));
    }
    print("ways", WIRE_INTRODUCE, WIRE_KIND_END);
}

/* Genesis, opens, commits; then an abort, a rollback and a suspension made of the last open. */
static void print_entries(void) {
    static struct entry_fixture swarm;
    static struct entry_slice slices[9];
    static struct entry entry;
    entry_fixture_init(&swarm, 5, slices, ARRAY_COUNT(slices));
    for (uint32_t index = 0; index < 9; index++) {
        entry_fixture_next(&swarm, index, &entry);
        if (index >= 6) {
            static const enum entry_kind KINDS[] = {ENTRY_ABORT, ENTRY_ROLLBACK, ENTRY_SUSPEND};
            entry.kind = KINDS[index - 6];
            entry.train_ms = 0;
            entry.slice_count = 0;
            memset(entry.members, 0, sizeof entry.members);
            if (entry.kind == ENTRY_SUSPEND) {
                entry.suspension = (struct entry_suspension){
                    .id = entry.seats[1].id, .reason = 3, .until_round = 100};
            }
            entry.cursor.returned_count = 2;
            entry.cursor.returned[0] = (struct sample_range){3, 4};
            entry.cursor.returned[1] = (struct sample_range){5, 50};
            entry_fixture_sign(&swarm, &entry);
        }
        begin();
        add(bytes, entry_write(&entry, ENTRY_WITH_SLICES, bytes, BYTES_MAX));
        print("entry", index, entry.kind);
        struct text text = text_over(long_text, sizeof long_text);
        ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
        begin();
        add(long_text, text.length);
        print("ledger line", index, entry.kind);
        begin();
        add(entry.hash.bytes, HASH_BYTES);
        print("entry hash", index, entry.kind);
    }
}

static void print_tracker_record(void) {
    static struct tracker_record record;
    for (uint32_t fill = 0; fill < WIRE_FILLS; fill++) {
        wire_fixture_init(&fixture, 5, 9);
        wire_fixture_make(&fixture, MESSAGE_TABLE, (enum wire_fill)fill, 11);
        record = (struct tracker_record){.next_session = 77, .member_count = 2 * fill};
        for (uint32_t i = 0; i < record.member_count; i++) {
            memset(record.members[i].id.bytes, (int)i + 3, SWARM_IDENTITY_BYTES);
            record.members[i].session = 40 + i;
            record.speeds[i] =
                (struct record_speed){.times = {{i + 1}}, .counts = 5, .replaced_round = 1000 * i};
        }
        record.table = fixture.table;
        begin();
        add(bytes, record_write_members(&record, bytes));
        print("record members", 0, fill);
        begin();
        add(bytes, record_write_speeds(&record, bytes));
        print("record speeds", 0, fill);
        begin();
        add(bytes, record_write_table(&record, fixture.shape.slice_count, bytes));
        print("record table", 0, fill);
    }
}

static void print_manifest(void) {
    static const uint8_t SECRETS[2 * KEY_BYTES] = {1, 2, 3, [KEY_BYTES] = 4, 5, 6};
    struct key_pairs keys;
    struct hash hash;
    struct fault fault;
    struct manifest_file files[] = {
        {MANIFEST_TRAINING_FILE, "a \"b\".u16", 1048577, "u16", {{1}}},
        {MANIFEST_VALIDATION_FILE, "held-out.txt", 12, "bytes", {{2}}},
    };
    struct text text = text_over(long_text, MANIFEST_BYTES_MAX + 1);
    keys_from_secrets(SECRETS, &keys);
    struct manifest manifest = {.name = "heather",
                                .created = 1795276800,
                                .genesis_root = {.bytes = {[31] = 7}},
                                .run_text = "seed: 3\nswarm.name: \"heather\"\n",
                                .config_text = "{\n\t\"model_type\": \"llama\"\n}",
                                .files = files,
                                .file_count = ARRAY_COUNT(files)};
    manifest.join.operator_keys = keys.public_keys;
    snprintf(manifest.join.address, sizeof manifest.join.address, "tcp://203.0.113.7:7700");
    if (manifest_write(&manifest, &keys, &text, &hash, &fault) != OK) {
        abort();
    }
    begin();
    add(long_text, text.length);
    add(hash.bytes, HASH_BYTES);
    print("manifest", 0, 0);
    char join[JOIN_STRING_BYTES];
    begin();
    add(join, strlen(join_string_write(&manifest.join, join)));
    print("join string", 0, 0);
}

static void print_merkle_roots(void) {
    for (uint32_t i = 0; i < BYTES_MAX; i++) {
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    for (uint32_t size = 1; size <= BYTES_MAX; size = 3 * size + 1) {
        struct merkle_stream stream;
        merkle_begin(&stream);
        merkle_add(&stream, bytes, size);
        struct hash root = merkle_end(&stream);
        begin();
        add(root.bytes, HASH_BYTES);
        print("merkle root", size, 0);
    }
}

/* Plain C, on one thread. */
static void print_codecs(void) {
    static float source[CODED], feedback[CODED];
    struct pool pool = {0};
    struct kernel_table table;
    struct fault fault;
    if (pool_init(&pool, 1, &fault) != OK) {
        abort();
    }
    kernel_table_init(&table, CPU_SCALAR);
    struct compute compute = {.table = &table, .pool = &pool};
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        for (uint32_t i = 0; i < CODED; i++) {
            source[i] = (float)((int32_t)(i * 2654435761u) >> 8) * 0x1p-20f;
            feedback[i] = (float)((int32_t)(i * 40503u + 7) % 1000) * 0x1p-12f;
        }
        struct codec_encode_args args = {.codec = (enum codec)codec,
                                         .count = CODED,
                                         .source = source,
                                         .feedback = feedback,
                                         .residual = feedback};
        if (!codec_encode(&compute, &args, bytes)) {
            abort();
        }
        begin();
        add(bytes, codec_bytes((enum codec)codec, CODED));
        add(feedback, sizeof feedback);
        codec_decode(&compute, (enum codec)codec, CODED, bytes, source);
        add(source, sizeof source);
        print("codec", (uint32_t)codec, CODED);
    }
    pool_finish(&pool);
}

int main(void) {
    print_messages();
    print_host_messages();
    print_frames();
    print_entries();
    print_tracker_record();
    print_manifest();
    print_merkle_roots();
    print_codecs();
    return 0;
}
