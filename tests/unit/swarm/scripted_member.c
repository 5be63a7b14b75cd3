#include "scripted_member.h"

#include "base/clock.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/wire/wire_service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { QUEUED = 8, MEMBERS_MAX = 4, STEP_MS = 3 };

static int64_t now_ms(void) {
    return clock_monotonic_ns() / 1000000;
}

void scripted_keys(uint8_t number, struct key_pairs *keys) {
    uint8_t secrets[2 * KEY_BYTES] = {
        [1] = (uint8_t)(number + 1), [KEY_BYTES] = (uint8_t)(number + 1)};
    keys_from_secrets(secrets, keys);
}

void scripted_open(struct scripted_member *member, uint8_t number,
                   const struct public_keys *tracker, const char *address,
                   const struct hash *manifest, const struct hash *root) {
    struct fault fault;
    memset(member, 0, sizeof *member);
    scripted_keys(number, &member->keys);
    member->tracker = *tracker;
    member->address = address;
    member->manifest = *manifest;
    member->root = *root;
    member->start_number = 1000 + number;
    member->shape = (struct wire_shape){
        .slice_count = SCRIPTED_SLICES, .members_max = MEMBERS_MAX, .swarm = *manifest};
    size_t payload_max = wire_payload_bytes_max(&member->shape);
    member->payload = region_alloc(&member->region, payload_max, 1);
    member->pieces.bytes = region_alloc(&member->region, FRAME_PAYLOAD_MAX, 1);
    member->pieces.capacity = FRAME_PAYLOAD_MAX;
    wire_arrays_carve(&member->shape,
                      region_alloc(&member->region, wire_arrays_size(&member->shape), 1),
                      &member->arrays);
    struct messenger_options options = {
        .keys = &member->keys, .peers_max = 2, .queued_frames = QUEUED};
    wire_accepted_kinds(WIRE_MEMBER, options.accepted_kinds);
    assert_int_equal(messenger_open(&options, &member->region, &member->messenger, &fault), OK);
    assert_int_equal(messenger_register_peer(member->messenger, tracker->curve, address, &fault),
                     OK);
}

void scripted_close(struct scripted_member *member) {
    messenger_close(member->messenger, 0);
    region_finish(&member->region);
}

static void say(struct scripted_member *member, struct message *message) {
    struct frame frame;
    message->session = member->session;
    wire_sign_message(&member->shape, &member->keys, message);
    (void)wire_write_message(&member->shape, message, 0, &frame, member->payload,
                             wire_payload_bytes_max(&member->shape));
    (void)messenger_send(member->messenger, member->tracker.curve, CHANNEL_CONTROL, &frame,
                         member->payload);
}

static void introduce(struct scripted_member *member) {
    struct wire_introduction who = {.keys = member->keys.public_keys,
                                    .name = "scripted",
                                    .version = SWARM_PROTOCOL_VERSION,
                                    .start_id = member->start_number,
                                    .manifest = member->manifest};
    uint8_t payload[WIRE_INTRODUCTION_BYTES_MAX];
    wire_sign_introduction(&member->keys, &who);
    size_t count = wire_write_introduction(&who, payload);
    const struct frame frame = {.kind = WIRE_INTRODUCE, .length = (uint32_t)count};
    (void)messenger_send(member->messenger, member->tracker.curve, CHANNEL_CONTROL, &frame,
                         payload);
}

static int own_seat(const struct scripted_member *member) {
    for (uint32_t seat = 0; seat < member->open.seat_count; seat++) {
        if (memcmp(member->open.seats[seat].id.bytes, member->keys.public_keys.sign, KEY_BYTES) ==
            0) {
            return member->open.seats[seat].session == member->session ? (int)seat : -1;
        }
    }
    return -1;
}

static void declare(struct scripted_member *member) {
    const uint64_t samples = member->trained_samples > 0 ? member->trained_samples : 4;
    struct message message = {.kind = MESSAGE_DECLARE,
                              .round = member->open.round,
                              .trained = {4 * samples, samples},
                              .hash = member->open.hash};
    const uint32_t words[] = {member->open.round, member->session};
    message.root = hash_of(words, sizeof words);
    say(member, &message);
}

static void report(struct scripted_member *member) {
    static const uint32_t AWAITED_MS[SWARM_MEMBERS_MAX];
    struct message message = {.kind = MESSAGE_REPORT,
                              .round = member->open.round,
                              .number = ++member->report_number,
                              .report.parts = REPORT_ALL,
                              .root = member->root,
                              .version = member->version,
                              .poll.number = member->poll,
                              .report.rows = member->reports,
                              .links = {0, AWAITED_MS},
                              .measured = {STEP_MS, 1, 1, 1000}};
    for (uint32_t s = 0; s < SCRIPTED_SLICES; s++) {
        member->reports[s].changed = message.number;
    }
    say(member, &message);
}

static void greet(struct scripted_member *member) {
    struct message message = {
        .kind = MESSAGE_HELLO, .number = member->start_number, .root = member->root};
    say(member, &message);
}

static void vote(struct scripted_member *member, const struct message *proposal) {
    static struct entry entry;
    struct message message = {
        .kind = MESSAGE_VOTE, .round = proposal->round, .number = proposal->number};
    entry = *proposal->entry;
    entry.root = hash_of(&entry.round, sizeof entry.round);
    message.root = entry.root;
    message.hash = entry_hash(&entry);
    ledger_sign(&member->keys, &message.hash, &message.signature);
    say(member, &message);
}

static void hear_entry(struct scripted_member *member, const struct message *message) {
    const struct entry *entry = message->entry;
    if (entry->kind == ENTRY_OPEN && entry->round > member->open.round) {
        member->open = *entry;
        member->has_table = false;
        member->version = 0;
        memset(member->reports, 0, sizeof member->reports);
    } else if (entry->kind == ENTRY_COMMIT && !hash_equal(&entry->root, &member->root)) {
        if (!hash_equal(&message->root, &member->root)) {
            member->wrong = "a commit that starts from another root";
        }
        member->root = entry->root;
        member->commits++;
    } else if (entry->kind == ENTRY_ABORT) {
        member->aborts++;
    }
}

/* All members have every result at once, unless they are idle. */
static void hear_table(struct scripted_member *member, const struct round_table *table,
                       uint32_t base) {
    if (table->round != member->open.round || table->version < member->version_min ||
        base > member->version) {
        return;
    }
    member->has_table = true;
    member->version = table->version;
    for (uint32_t s = 0; s < SCRIPTED_SLICES; s++) {
        if (table->slices[s].version == 0) {
            continue; /* The plan is that of the base. */
        }
        const uint32_t words[] = {table->round, s};
        if (member->idle_seats == member->open.seat_count) {
            continue;
        }
        member->reports[s] = (struct slice_report){.epoch = table->slices[s].epoch,
                                                   .has_result = 1,
                                                   .contributors = table->slices[s].expected_seats,
                                                   .hash = hash_of(words, sizeof words)};
    }
    report(member);
}

static void hear_message(struct scripted_member *member, const struct frame *frame,
                         const uint8_t *payload, size_t count) {
    struct message message;
    const uint8_t *bulk;
    size_t bulk_bytes;
    const struct entry *open = member->open.round > 0 ? &member->open : NULL;
    const char *wrong = wire_read_message(&member->shape, frame, payload, count, &member->arrays,
                                          &message, &bulk, &bulk_bytes);
    if (wrong == NULL && message.kind == MESSAGE_TABLE && message.round != member->open.round) {
        return;
    }
    if (wrong == NULL && !wire_verify_message(&member->shape, member->tracker.sign, open, &message,
                                              bulk, bulk_bytes)) {
        wrong = "a message that is not signed as it must be";
    }
    if (wrong == NULL && message.incarnation < member->incarnation) {
        wrong = "a message of an earlier incarnation";
    }
    if (wrong != NULL) {
        member->wrong = wrong;
        return;
    }
    member->incarnation = message.incarnation;
    if (message.kind == MESSAGE_WELCOME) {
        member->session = message.number == member->start_number ? message.session : 0;
        member->due_ms = 0;
    } else if (message.kind == MESSAGE_ENTRY) {
        hear_entry(member, &message);
        member->due_ms = 0;
    } else if (message.kind == MESSAGE_TABLE) {
        hear_table(member, message.table, message.version);
    } else if (message.kind == MESSAGE_PROPOSE) {
        vote(member, &message);
    } else if (message.kind == MESSAGE_POLL) {
        member->poll = message.poll.number;
        report(member);
    } else if (message.kind == MESSAGE_GOODBYE) {
        member->has_left = true;
    }
}

static void hear_roster(struct scripted_member *member, const uint8_t *payload, size_t count) {
    static struct wire_address_book roster;
    const char *wrong = wire_read_address_book(payload, count, &roster);
    if (wrong != NULL || roster.version < member->roster_version) {
        member->wrong = wrong != NULL ? wrong : "an older roster";
        return;
    }
    member->roster_version = roster.version;
    member->roster_count = roster.count;
    member->timing = roster.timing;
    member->reason[0] = '\0';
    member->due_ms = member->is_admitted ? member->due_ms : 0;
    member->is_admitted = true;
}

static void hear_frame(struct scripted_member *member, const struct messenger_event *event) {
    const struct frame *frame = &event->frame;
    const uint8_t *payload = event->payload;
    if (frame->kind == WIRE_ADDRESS_BOOK) {
        hear_roster(member, payload, frame->length);
    } else if (frame->kind == WIRE_REPLACED) {
        member->is_replaced = true;
    } else if (frame->kind == WIRE_REJECTED) {
        const uint8_t *reason;
        size_t length;
        assert_null(wire_read_document(WIRE_REJECTED, payload, frame->length, &reason, &length));
        memcpy(member->reason, reason, length);
        member->reason[length] = '\0';
    } else if (frame->kind < WIRE_STATE_MACHINE_KINDS && !wire_is_chunked(frame->kind)) {
        hear_message(member, frame, payload, frame->length);
    } else if (frame->kind < WIRE_STATE_MACHINE_KINDS) {
        enum wire_progress part = wire_chunks_add(&member->pieces, frame, payload, &payload);
        if (part == WIRE_COMPLETE) {
            struct frame whole = member->pieces.frame;
            hear_message(member, &whole, payload, member->pieces.payload_bytes);
        } else if (part == WIRE_INVALID) {
            member->wrong = "pieces that do not fit";
        }
    }
}

static void hear(struct scripted_member *member, const struct messenger_event *event) {
    if (event->kind == MESSENGER_OPENED) {
        member->is_connected = true;
        member->opened++;
        introduce(member);
    } else if (event->kind == MESSENGER_CLOSED) {
        member->is_connected = false;
        member->is_admitted = false;
    } else if (event->kind == MESSENGER_FRAME) {
        hear_frame(member, event);
    }
}

static void say_what_is_due(struct scripted_member *member) {
    if (!member->is_connected || !member->is_admitted || now_ms() < member->due_ms) {
        return;
    }
    member->due_ms = now_ms() + member->timing.heartbeat_ms;
    if (member->session == 0) {
        greet(member);
        return;
    }
    report(member);
    if (own_seat(member) >= 0 && !member->has_table) {
        declare(member);
    }
}

void scripted_run(struct scripted_member *member, int timeout_ms) {
    struct messenger_event event;
    messenger_wait(member->messenger, -1, timeout_ms);
    while (messenger_next_event(member->messenger, &event)) {
        hear(member, &event);
    }
    say_what_is_due(member);
}
