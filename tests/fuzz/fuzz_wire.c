/* fuzz_wire: any bytes as a message, an introduction, a roster, a payload of wire_service.h or a
 * row of pieces are refused, or are the one spelling of what they say; nothing that was changed
 * passes for signed.
 *
 * An input is a way and what goes it: a frame (header, payload), a host's payload, a service's kind
 * and payload, or steps of four bytes that cut pieces. Inputs begin as messages of
 * tests/unit/swarm/wire_fixture.h. */
#include "tests/unit/swarm/wire_fixture.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

enum way { WAY_FRAME, WAY_INTRODUCTION, WAY_ROSTER, WAY_PIECES, WAY_SERVICE, WAYS };

enum {
    MEMBERS = 3,
    SLICES = 4,
    SAMPLES_MAX = 512,
    SAMPLE_BYTES = 4096,
    KEYS = 4, /* samples of one kind and fill */
    SOURCE_BYTES = 3 * FRAME_PAYLOAD_MAX,
    STEP_BYTES = 4,
};

struct sample {
    size_t count;
    uint8_t bytes[SAMPLE_BYTES];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static struct wire_fixture fixture;
static struct sample samples[SAMPLES_MAX];
static uint32_t sample_count;
static struct wire_arrays arrays;
static uint8_t again[1 << 16]; /* at least WIRE_FIXTURE_SERVICE_BYTES */
static uint8_t *source, *gathered;

static struct sample *new_sample(enum way way) {
    ASSERT(sample_count < SAMPLES_MAX);
    struct sample *sample = &samples[sample_count++];
    sample->bytes[0] = (uint8_t)way;
    sample->count = 1;
    return sample;
}

static void make_samples(uint32_t fill, uint64_t key) {
    for (uint32_t kind = 0; kind < MESSAGE_KINDS; kind++) {
        struct sample *sample = new_sample(WAY_FRAME);
        wire_fixture_make(&fixture, kind, fill, key);
        sample->count +=
            wire_fixture_write(&fixture, &fixture.message, fixture.bulk, fixture.bulk_bytes,
                               sample->bytes + 1, sizeof sample->bytes - 1);
    }
    wire_fixture_hosts(&fixture, fill, key);
    struct sample *sample = new_sample(WAY_INTRODUCTION);
    sample->count += wire_write_introduction(&fixture.introduction, sample->bytes + 1);
    sample = new_sample(WAY_ROSTER);
    sample->count += wire_write_address_book(&fixture.roster, sample->bytes + 1);
    for (uint8_t i = 0; i < WIRE_FIXTURE_SERVICES; i++) {
        static uint8_t payload[WIRE_FIXTURE_SERVICE_BYTES];
        const size_t count =
            wire_fixture_service(&fixture, WIRE_FIXTURE_SERVICE_KINDS[i], fill, key, payload);
        ASSERT(2 + count <= sizeof sample->bytes);
        sample = new_sample(WAY_SERVICE);
        sample->bytes[1] = i;
        memcpy(sample->bytes + 2, payload, count);
        sample->count += 1 + count;
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    wire_fixture_init(&fixture, MEMBERS, SLICES);
    wire_arrays_carve(&fixture.shape, aligned_alloc(64, wire_arrays_size(&fixture.shape)), &arrays);
    for (uint32_t turn = 0; turn < WIRE_FILLS * KEYS; turn++) {
        make_samples(turn % WIRE_FILLS, turn);
    }
    struct sample *sample = new_sample(WAY_PIECES);
    memcpy(sample->bytes + 1, (uint8_t[]){0, 2, 5, 0, 1, 0, 0, 0, 2, 0, 0, 0}, 3 * STEP_BYTES);
    sample->count += 3 * STEP_BYTES;
    source = malloc(SOURCE_BYTES);
    gathered = malloc(SOURCE_BYTES);
    for (size_t i = 0; i < SOURCE_BYTES; i++) {
        source[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    return 0;
}

/* What is signed of a message: the fixture's, or it was not verified. */
static void check_verified(struct message *message, const uint8_t *bulk, size_t bulk_bytes) {
    const uint8_t *key = fixture.swarm.tracker.public_keys.sign;
    memcpy(message->from.bytes, fixture.swarm.members[0].public_keys.sign, KEY_BYTES);
    bool verified =
        wire_verify_message(&fixture.shape, key, &fixture.open, message, bulk, bulk_bytes);
    if (verified && message->kind == MESSAGE_TABLE) {
        ASSERT(message->table->round == fixture.open.round);
        ASSERT(message->table->declared_seats >> MEMBERS == 0);
    } else if (verified && message->kind == MESSAGE_ENTRY) {
        ASSERT(message->entry->round <= 1 && message->entry->incarnation == 1);
    }
    message->signature.bytes[7] ^= 1;
    /* A vote without a root refuses the proposal, and signs nothing. */
    static const struct hash NO_ROOT;
    bool must = message->kind == MESSAGE_DECLARE || message->kind == MESSAGE_RESULT ||
                message->kind == MESSAGE_SKETCHES ||
                (message->kind == MESSAGE_VOTE && !hash_equal(&message->root, &NO_ROOT));
    ASSERT(!must || !verified ||
           !wire_verify_message(&fixture.shape, key, &fixture.open, message, bulk, bulk_bytes));
    message->signature.bytes[7] ^= 1;
}

static void try_frame(const uint8_t *bytes, size_t count) {
    static const uint64_t KNOWN[4] = {UINT64_MAX};
    static uint8_t whole[SAMPLE_BYTES];
    struct frame frame;
    struct message message;
    const uint8_t *bulk = NULL;
    size_t bulk_bytes = 0;
    if (count < FRAME_HEADER_BYTES || count > sizeof whole) {
        return;
    }
    memcpy(whole, bytes, count);
    for (size_t i = 0; i < 4; i++) { /* the header's length is right */
        whole[24 + i] = (uint8_t)((count - FRAME_HEADER_BYTES) >> (8 * i));
    }
    const uint8_t *payload = whole + FRAME_HEADER_BYTES;
    if (frame_read(whole, count, KNOWN, &frame) != FRAME_OK ||
        wire_read_message(&fixture.shape, &frame, payload, frame.length, &arrays, &message, &bulk,
                          &bulk_bytes) != NULL) {
        return;
    }
    ASSERT(wire_fixture_write(&fixture, &message, bulk, bulk_bytes, again, sizeof again) == count);
    ASSERT(memcmp(again, whole, count) == 0);
    check_verified(&message, bulk, bulk_bytes);
}

static void try_introduction(const uint8_t *bytes, size_t count) {
    struct wire_introduction introduction;
    if (wire_read_introduction(bytes, count, &introduction) == NULL) {
        ASSERT(wire_write_introduction(&introduction, again) == count);
        ASSERT(memcmp(again, bytes, count) == 0);
        if (wire_introduction_is_signed(&introduction)) {
            introduction.version ^= 1;
            ASSERT(!wire_introduction_is_signed(&introduction));
        }
    }
}

static void try_roster(const uint8_t *bytes, size_t count) {
    struct wire_address_book roster;
    if (wire_read_address_book(bytes, count, &roster) == NULL) {
        ASSERT(roster.count <= SWARM_MEMBERS_MAX);
        ASSERT(wire_write_address_book(&roster, again) == count &&
               memcmp(again, bytes, count) == 0);
    }
}

static void try_service(const uint8_t *bytes, size_t count) {
    if (count == 0 || count > WIRE_FIXTURE_SERVICE_BYTES / 2) {
        return;
    }
    const enum wire_kind kind = WIRE_FIXTURE_SERVICE_KINDS[bytes[0] % WIRE_FIXTURE_SERVICES];
    const size_t repeated = wire_fixture_repeat_service(kind, bytes + 1, count - 1, again);
    ASSERT(repeated == 0 || (repeated == count - 1 && memcmp(again, bytes + 1, repeated) == 0));
}

/* Each step is a piece of `source`: where (in pieces, and odd bytes), how long its whole is. */
static void try_pieces(const uint8_t *steps, size_t count) {
    struct wire_chunks pieces = {.bytes = gathered, .capacity = SOURCE_BYTES - 1000};
    size_t whole = 0;
    for (size_t at = 0; at + STEP_BYTES <= count && at < 16 * STEP_BYTES; at += STEP_BYTES) {
        const uint8_t *step = steps + at;
        size_t offset = (size_t)(step[0] % 3) * FRAME_PAYLOAD_MAX + step[0] / 64;
        struct frame frame = {.kind = step[3] % 8 == 0 ? MESSAGE_TABLE : step[3], .round = 7};
        const uint8_t *payload = NULL;
        if (offset == 0) {
            whole = (size_t)(step[1] % 4) * FRAME_PAYLOAD_MAX + step[2];
            for (size_t i = 0; i < WIRE_LENGTH_BYTES; i++) {
                source[i] = (uint8_t)(whole >> (8 * i));
            }
        }
        if (offset >= whole) {
            continue;
        }
        struct frame piece = wire_chunk_header(&frame, whole, offset);
        piece.length -= step[3] == 255 && piece.length > 1 ? 1 : 0;
        enum wire_progress part = wire_chunks_add(&pieces, &piece, source + offset, &payload);
        ASSERT(part == WIRE_INVALID || whole <= pieces.capacity);
        if (part == WIRE_COMPLETE) {
            ASSERT(pieces.payload_bytes == whole && offset + piece.length == whole);
            ASSERT(memcmp(payload, source, whole) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const TRIES[WAYS])(const uint8_t *, size_t) = {
        try_frame, try_introduction, try_roster, try_pieces, try_service};
    if (size > 0) {
        TRIES[data[0] % WAYS](data + 1, size - 1);
    }
    return 0;
}

/* A sample to begin with, or what is there; a part of it changed; its own length kept right, so
 * that what lies behind it is reached. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    uint32_t words[4];
    random_block(seed, size, words);
    if (size < 2 || words[0] % 8 == 0) {
        const struct sample *sample = &samples[words[1] % sample_count];
        size = sample->count < max_size ? sample->count : max_size;
        memcpy(data, sample->bytes, size);
    }
    size_t kept = words[0] % 16 < 12 ? words[2] % size : 0;
    if (words[0] >> 8 & 1) { /* as long as it was */
        data[1 + words[2] % (size - 1)] ^= (uint8_t)(1 << words[3] % 8);
    } else {
        size = kept + LLVMFuzzerMutate(data + kept, size - kept, max_size - kept);
    }
    const size_t payload = 1 + FRAME_HEADER_BYTES;
    bool in_pieces = size >= payload + WIRE_LENGTH_BYTES && data[0] % WAYS == WAY_FRAME &&
                     wire_is_chunked(data[1 + 5]);
    if (in_pieces && words[3] % 16 != 0) {
        wire_write_length(data + payload, size - payload);
    }
    return size;
}
