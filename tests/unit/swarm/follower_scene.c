#include "follower_scene.h"

#include "runtime/swarm/wire/wire_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct follower_scene scene;

static void *member;

void scene_end(void) {
    free(member);
    member = NULL;
}

void scene_make_entry(struct entry_fixture *fixture, uint32_t index, struct entry *entry) {
    if (index == 1) {
        entry_fixture_enroll(fixture, 1, MEMBERS, false);
    }
    entry_fixture_next(fixture, index, entry);
}

void scene_begin(void) {
    memset(&scene, 0, sizeof scene);
    entry_fixture_init(&scene.fixture, MEMBERS, scene.slices, SLICES);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        if (i == CHECKPOINT_AT) {
            scene.state = scene.fixture.chain;
            scene.state_count = ledger_chain_write(&scene.state, scene.state_bytes);
        }
        scene_make_entry(&scene.fixture, i, &scene.entry);
        scene.genesis = i == 0 ? scene.entry.root : scene.genesis;
        scene.early = i == EARLY ? scene.entry : scene.early;
        scene.count += entry_write(&scene.entry, ENTRY_WITH_SLICES, scene.records + scene.count,
                                   sizeof scene.records - scene.count);
    }
    scene.replica.shape.slices.count = SLICES;
    static const struct key_pairs keys;
    scene.options.keys = &keys;
    scene.options.replica = &scene.replica;
    scene.options.manifest = hash_of("manifest", 8);
    memcpy(scene.options.operator_key, scene.fixture.operator_keys.public_keys.sign, KEY_BYTES);
    struct member_initial_state start = {
        .start_id = 1, .slice_count = SLICES, .root = scene.genesis};
    free(member);
    member = aligned_alloc(64, (member_memory_bytes(SLICES) + 63) / 64 * 64);
    catch_up_init(&scene.catch_up, &scene.replica.shape.slices, scene.catch_up_slices);
    ledger_follower_init(&scene.follower,
                         &(struct ledger_follower_args){.options = &scene.options,
                                                        .member = member_init(member, &start),
                                                        .catch_up = &scene.catch_up,
                                                        .reason = &scene.reason},
                         scene.follower_slices);
}

enum status scene_give_past(void *context, const struct entry **entry, const char **place,
                            struct fault *fault) {
    (void)context;
    (void)fault;
    *entry = NULL;
    if (scene.given < scene.past_count) {
        scene_make_entry(&scene.past, scene.given, &scene.past_entry);
        scene.past_entry.root.bytes[0] ^= scene.changed > 0 && scene.given == scene.changed;
        snprintf(scene.place, sizeof scene.place, "line %u", ++scene.given);
        *entry = &scene.past_entry;
        *place = scene.place;
    }
    return OK;
}

enum status scene_restore(uint32_t past_count, struct fault *fault) {
    entry_fixture_init(&scene.past, MEMBERS, scene.past_slices, SLICES);
    scene.past_count = past_count;
    scene.options.read_ledger_entry = scene_give_past;
    scene.options.tracker_address = "tcp://here:1";
    enum status status = ledger_follower_restore(&scene.follower, fault);
    ledger_follower_on_connect(&scene.follower);
    return status;
}

/* Where record `number` of the tracker's ledger begins. */
static size_t record_at(uint32_t number) {
    static struct entry_slice slices[SLICES];
    static struct entry_fixture fixture;
    static struct entry entry;
    size_t at = 0;
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    for (uint32_t i = 0; i < number; i++) {
        scene_make_entry(&fixture, i, &entry);
        at += entry_record_bytes(&entry, ENTRY_WITH_SLICES);
    }
    return at;
}

void scene_answer_of(uint32_t from, uint32_t until, uint32_t entry_count) {
    static uint8_t payload[WIRE_LEDGER_FIELDS_BYTES + RECORDS_BYTES];
    uint8_t *records = payload + WIRE_LEDGER_FIELDS_BYTES;
    const struct wire_ledger_page page = {.first = from,
                                          .entry_count = entry_count,
                                          .count = until - from,
                                          .records = records,
                                          .bytes = record_at(until) - record_at(from)};
    memcpy(records, scene.records + record_at(from), page.bytes);
    const size_t count = wire_write_ledger_page(&page, payload);
    (void)ledger_follower_on_page(&scene.follower, payload + WIRE_LENGTH_BYTES,
                                  count - WIRE_LENGTH_BYTES);
}

void scene_answer(uint32_t from, uint32_t until) {
    scene.follower.requested_ns = 99;
    scene_answer_of(from, until, until);
}

void scene_answer_with_record(uint32_t first, uint32_t other) {
    const size_t at = record_at(other);
    uint8_t payload[WIRE_LEDGER_FIELDS_BYTES + 4096];
    struct wire_ledger_page page = {.first = first,
                                    .entry_count = first + 1,
                                    .count = 1,
                                    .records = payload + WIRE_LEDGER_FIELDS_BYTES,
                                    .bytes = record_at(other + 1) - at};
    memcpy(payload + WIRE_LEDGER_FIELDS_BYTES, scene.records + at, page.bytes);
    const size_t count = wire_write_ledger_page(&page, payload);
    (void)ledger_follower_on_page(&scene.follower, payload + WIRE_LENGTH_BYTES,
                                  count - WIRE_LENGTH_BYTES);
}
