#include "entry_fixture.h"

#include "runtime/swarm/ledger/entry.h"

#include <string.h>

enum { SLICE_ELEMENTS = 1000, SEAT_SAMPLES = 16, WEIGHT = 5 };

void entry_fixture_init(struct entry_fixture *fixture, uint32_t member_count,
                        struct entry_slice *slices, uint32_t slice_count) {
    uint8_t secrets[2 * KEY_BYTES] = {0};
    memset(fixture, 0, sizeof *fixture);
    fixture->member_count = member_count;
    fixture->slice_count = slice_count;
    fixture->slices = slices;
    for (uint32_t i = 0; i <= member_count; i++) {
        memset(secrets, (int)i + 1, sizeof secrets);
        keys_from_secrets(secrets, i < member_count ? &fixture->members[i] : &fixture->tracker);
    }
    memset(secrets, 0xf0, sizeof secrets);
    keys_from_secrets(secrets, &fixture->operator_keys);
    fixture->root = hash_of("root", 4);
}

static void seat_members(struct entry_fixture *fixture, struct entry *entry) {
    entry->seat_count = fixture->member_count;
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        struct entry_seat *seat = &entry->seats[i];
        memcpy(seat->id.bytes, fixture->members[i].public_keys.sign, KEY_BYTES);
        seat->session = 100 + i;
        seat->range_count = 1;
        seat->ranges[0].begin = fixture->position + i * SEAT_SAMPLES;
        seat->ranges[0].end = seat->ranges[0].begin + SEAT_SAMPLES;
    }
}

static void fill_commit(struct entry_fixture *fixture, struct entry *entry) {
    uint32_t seats = entry->seat_count;
    entry->slice_count = fixture->slice_count;
    entry->slices = fixture->slices;
    for (uint32_t i = 0; i < seats; i++) {
        entry->members[i] =
            (struct entry_member){.tokens = 1000 + i, .weight = WEIGHT, .samples = SEAT_SAMPLES};
    }
    for (uint32_t i = 0; i < entry->slice_count; i++) {
        entry->slices[i] = (struct entry_slice){
            .begin = (uint64_t)i * SLICE_ELEMENTS,
            .end = ((uint64_t)i + 1) * SLICE_ELEMENTS,
            .owner = i % seats,
            .epoch = i % 3,
            .contributors = seats == 64 ? UINT64_MAX : ((uint64_t)1 << seats) - 1,
            .weight = (uint64_t)WEIGHT * seats,
            .hash = hash_of(&i, sizeof i)};
    }
    entry_complete_results(entry);
    fixture->root = hash_of(&entry->round, sizeof entry->round);
}

void entry_fixture_sign(const struct entry_fixture *fixture, struct entry *entry) {
    bool commit = entry->kind == ENTRY_COMMIT;
    entry->hash = entry_hash(entry);
    entry->signature_count = commit ? entry_quorum(entry->seat_count) : 1;
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        entry->signatures[i].seat = i;
        ledger_sign(commit ? &fixture->members[i] : &fixture->tracker, &entry->hash,
                    &entry->signatures[i].signature);
    }
}

void entry_fixture_delegate(struct entry_fixture *fixture, const struct key_pairs *tracker,
                            uint64_t serial, struct entry *entry) {
    const struct hash swarm = hash_of("manifest", 8);
    fixture->tracker = *tracker;
    entry->documents.delegation =
        (struct delegation){.serial = serial, .tracker = tracker->public_keys};
    delegation_sign(&fixture->operator_keys, &swarm, &entry->documents.delegation);
}

void entry_fixture_next(struct entry_fixture *fixture, uint32_t index, struct entry *entry) {
    memset(entry, 0, sizeof *entry);
    entry->kind = index == 0 ? ENTRY_GENESIS : index % 2 == 1 ? ENTRY_OPEN : ENTRY_COMMIT;
    entry->round = (index + 1) / 2;
    entry->commits = index / 2;
    entry->incarnation = 1;
    entry->prev = fixture->head;
    if (entry->kind == ENTRY_GENESIS) {
        entry->manifest = hash_of("manifest", 8);
        const struct key_pairs tracker = fixture->tracker;
        entry_fixture_delegate(fixture, &tracker, 1, entry);
    } else {
        seat_members(fixture, entry);
    }
    entry->cursor.position = fixture->position + (uint64_t)entry->seat_count * SEAT_SAMPLES;
    if (entry->kind == ENTRY_OPEN) {
        entry->deadline_ms = 5000;
    } else if (entry->kind == ENTRY_COMMIT) {
        fill_commit(fixture, entry);
        entry->chain = ledger_chain_hash(&fixture->chain);
        fixture->position = entry->cursor.position;
    }
    entry->root = fixture->root;
    entry_fixture_sign(fixture, entry);
    fixture->head = entry->hash;
    ledger_advance(&fixture->chain, entry);
}
