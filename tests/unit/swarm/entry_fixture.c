#include "entry_fixture.h"

#include "runtime/swarm/ledger/entry.h"

#include <stdlib.h>
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
        seat->is_guest = i + fixture->guest_count >= entry->seat_count;
        seat->range_count = 1;
        seat->ranges[0].begin = fixture->position + i * SEAT_SAMPLES;
        seat->ranges[0].end = seat->ranges[0].begin + SEAT_SAMPLES;
    }
}

static void fill_commit(struct entry_fixture *fixture, struct entry *entry) {
    uint32_t seats = entry->seat_count;
    uint64_t sum = 0;
    entry->slice_count = fixture->slice_count;
    entry->slices = fixture->slices;
    for (uint32_t i = 0; i < seats; i++) {
        const uint64_t weight = entry->seats[i].is_guest == 1 ? 1 : WEIGHT;
        entry->members[i] =
            (struct entry_member){.tokens = 1000 + i, .weight = weight, .samples = SEAT_SAMPLES};
        sum += weight;
    }
    for (uint32_t i = 0; i < entry->slice_count; i++) {
        entry->slices[i] = (struct entry_slice){
            .begin = (uint64_t)i * SLICE_ELEMENTS,
            .end = ((uint64_t)i + 1) * SLICE_ELEMENTS,
            .owner = i % (seats - fixture->guest_count),
            .epoch = i % 3,
            .contributors = seats == 64 ? UINT64_MAX : ((uint64_t)1 << seats) - 1,
            .weight = sum,
            .hash = hash_of(&i, sizeof i)};
    }
    entry_derive_fields_from_rows(entry);
    fixture->root = hash_of(&entry->round, sizeof entry->round);
}

void entry_fixture_sign(const struct entry_fixture *fixture, struct entry *entry) {
    bool commit = entry->kind == ENTRY_COMMIT;
    entry->hash = entry_hash(entry);
    entry->signature_count = commit ? entry_votes_needed(entry) : 1;
    uint32_t seat = 0;
    for (uint32_t i = 0; i < entry->signature_count; i++, seat++) {
        while (commit && entry->seats[seat].is_guest == 1) {
            seat++;
        }
        entry->signatures[i].seat = commit ? seat : 0;
        ledger_sign(commit ? &fixture->members[seat] : &fixture->tracker, &entry->hash,
                    &entry->signatures[i].signature);
    }
}

void entry_fixture_lease(const struct entry_fixture *fixture, uint64_t resigned,
                         struct entry *entry) {
    const struct hash swarm = hash_of("manifest", 8);
    const struct electors *electors = &fixture->chain.electors;
    memset(&entry->leases, 0, sizeof entry->leases);
    entry->leases.state = electors->state;
    entry->leases.start = fixture->start;
    entry->leases.resigned = resigned;
    for (uint32_t i = 0; i < electors->count; i++) {
        if ((resigned >> i & 1) != 0) {
            resignation_sign(&fixture->members[i], &swarm, &electors->state,
                             entry->leases.signatures[i].bytes);
        }
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

static int compare_keys(const void *a, const void *b) {
    return memcmp(a, b, KEY_BYTES);
}

void entry_fixture_enroll(struct entry_fixture *fixture, uint64_t serial, uint32_t count,
                          bool is_open) {
    const struct hash swarm = hash_of("manifest", 8);
    struct roster_epoch *roster = &fixture->next_roster;
    memset(roster, 0, sizeof *roster);
    roster->serial = serial;
    roster->is_open = is_open;
    roster->count = count;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(roster->members[i], fixture->members[i].public_keys.sign, KEY_BYTES);
    }
    qsort(roster->members, count, sizeof roster->members[0], compare_keys);
    roster_epoch_sign(&fixture->operator_keys, &swarm, roster);
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
        entry->leases.are_needed = fixture->start != 0;
    } else {
        seat_members(fixture, entry);
    }
    entry->cursor.position = fixture->position + (uint64_t)entry->seat_count * SEAT_SAMPLES;
    if (entry->kind == ENTRY_OPEN) {
        entry->train_ms = 5000;
        entry->documents.roster = fixture->next_roster;
        memset(&fixture->next_roster, 0, sizeof fixture->next_roster);
        if (fixture->start != 0) {
            entry_fixture_lease(fixture, 0, entry);
        }
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
