#include "tests/unit/swarm/tiny_tracker.h"

#include "base/clock.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/wire/wire_service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WAIT_MS = 5 };

static int64_t now_ms(void) {
    return clock_monotonic_ns() / 1000000;
}

static void *zeros(size_t count, size_t size) {
    void *made = aligned_alloc(64, (count * size + 127) / 64 * 64);
    ASSERT(made != NULL);
    memset(made, 0, (count * size + 127) / 64 * 64);
    return made;
}

/* ---- the ledger ---- */

static void keep(struct tiny_tracker *tracker, const struct entry *entry) {
    pthread_mutex_lock(&tracker->lock);
    ASSERT(tracker->entry_count < TINY_ENTRIES_MAX);
    struct entry *kept = &tracker->entries[tracker->entry_count];
    kept->slices = zeros(entry->slice_count, sizeof(struct entry_slice));
    entry_copy(kept, entry);
    ledger_advance(&tracker->chain, entry);
    tracker->entry_count++;
    pthread_mutex_unlock(&tracker->lock);
}

const struct entry *tiny_tracker_entry(struct tiny_tracker *tracker, uint32_t number) {
    pthread_mutex_lock(&tracker->lock);
    const struct entry *entry = number < tracker->entry_count ? &tracker->entries[number] : NULL;
    pthread_mutex_unlock(&tracker->lock);
    return entry;
}

static void seal_entry(const struct tiny_tracker *tracker, struct entry *entry) {
    entry->hash = entry_hash(entry);
    if (entry->kind != ENTRY_COMMIT) {
        entry->signature_count = 1;
        entry->signatures[0].seat = 0;
        ledger_sign(&tracker->keys, &entry->hash, &entry->signatures[0].signature);
    }
}

/* ---- sending ---- */

static void send(struct tiny_tracker *tracker, const uint8_t *curve, const struct frame *frame,
                 const void *payload) {
    (void)messenger_send(tracker->messenger, curve, CHANNEL_CONTROL, frame, payload);
}

static const uint8_t *curve_of(const struct tiny_tracker *tracker, const struct identity *id) {
    for (uint32_t i = 0; i < tracker->roster.count; i++) {
        const struct public_keys *keys = &tracker->roster.members[i].keys;
        if (memcmp(keys->sign, id->bytes, KEY_BYTES) == 0) {
            return keys->curve;
        }
    }
    return NULL;
}

static void say(struct tiny_tracker *tracker, const struct action *action) {
    const uint8_t *curve = curve_of(tracker, &action->to);
    struct frame frame;
    if (curve != NULL) {
        (void)wire_write_message(&tracker->shape, &action->message, 0, &frame, tracker->payload,
                                 tracker->payload_capacity);
        send(tracker, curve, &frame, tracker->payload);
    }
}

static void say_roster(struct tiny_tracker *tracker, const uint8_t *curve) {
    static uint8_t payload[WIRE_ADDRESS_BOOK_BYTES_MAX];
    struct frame frame = {.kind = WIRE_ADDRESS_BOOK};
    frame.length = (uint32_t)wire_write_address_book(&tracker->roster, payload);
    send(tracker, curve, &frame, payload);
}

static void say_ledger(struct tiny_tracker *tracker, const uint8_t *curve, uint64_t first) {
    uint8_t *records = tracker->payload + WIRE_LEDGER_FIELDS_BYTES;
    struct wire_ledger_page page = {
        .first = first, .entry_count = tracker->entry_count, .records = records};
    const size_t room = FRAME_PAYLOAD_MAX - WIRE_LEDGER_FIELDS_BYTES;
    for (uint64_t i = first; i < tracker->entry_count; i++) {
        const struct entry *entry = &tracker->entries[i];
        if (entry_record_bytes(entry, ENTRY_WITH_SLICES) > room - page.bytes) {
            break;
        }
        page.bytes +=
            entry_write(entry, ENTRY_WITH_SLICES, records + page.bytes, room - page.bytes);
        page.count++;
    }
    if (atomic_load(&tracker->lie) == TINY_OTHER_HISTORY && page.bytes > 200) {
        records[100] ^= 1;
    }
    struct frame frame = {.kind = WIRE_LEDGER};
    frame.length = (uint32_t)wire_write_ledger_page(&page, tracker->payload);
    send(tracker, curve, &frame, tracker->payload);
}

/* ---- the state machine ---- */

static void step(struct tiny_tracker *tracker, const struct event *event);

static bool act(struct tiny_tracker *tracker, struct event *written) {
    bool has_written = false;
    for (uint32_t i = 0; i < tracker->actions.count; i++) {
        const struct action *action = &tracker->actions.rows[i];
        if (action->kind == ACTION_SEND) {
            say(tracker, action);
            continue;
        }
        ASSERT(action->kind == ACTION_WRITE && !has_written);
        has_written = true;
        *written = (struct event){.kind = EVENT_WRITTEN, .write_outcome = WRITE_OK};
        if (action->entry != NULL) {
            static struct entry entry;
            entry = *action->entry;
            seal_entry(tracker, &entry);
            keep(tracker, &entry);
            written->hash = entry.hash;
            written->chain = ledger_chain_hash(&tracker->chain);
            written->signature = entry.signatures[0].signature;
            if (entry.kind == ENTRY_OPEN) {
                tracker->open = entry;
            }
        }
    }
    return has_written;
}

static void step(struct tiny_tracker *tracker, const struct event *event) {
    struct event next = *event;
    bool goes_on = true;
    while (goes_on) {
        tracker->actions.count = 0;
        tracker_step(tracker->machine, &next, now_ms(), &tracker->actions);
        goes_on = act(tracker, &next);
    }
}

/* ---- receiving ---- */

static int compare_keys(const void *a, const void *b) {
    return memcmp(a, b, KEY_BYTES);
}

/* The operator names each member that joins. */
static void name_members(struct tiny_tracker *tracker) {
    struct roster_epoch *epoch = &tracker->epoch;
    epoch->serial++;
    epoch->count = tracker->roster.count;
    for (uint32_t i = 0; i < epoch->count; i++) {
        memcpy(epoch->members[i], tracker->roster.members[i].keys.sign, KEY_BYTES);
    }
    qsort(epoch->members, epoch->count, sizeof epoch->members[0], compare_keys);
    roster_epoch_sign(&tracker->operator_keys, &tracker->shape.swarm, epoch);
    tracker_queue_roster_epoch(tracker->machine, epoch);
}

static void introduce(struct tiny_tracker *tracker, const struct messenger_event *event) {
    struct wire_introduction introduction;
    const char *wrong = wire_read_introduction(event->payload, event->frame.length, &introduction);
    ASSERT(wrong == NULL && wire_introduction_is_signed(&introduction));
    if (!atomic_load(&tracker->lets_in)) {
        const char text[] = "not on the roster; ask for: skep roster add p123";
        uint8_t payload[WIRE_DOCUMENT_OFFSET + sizeof text];
        memcpy(payload + WIRE_DOCUMENT_OFFSET, text, sizeof text - 1);
        struct frame frame = {.kind = WIRE_REJECTED};
        frame.length = (uint32_t)wire_write_document(WIRE_REJECTED, sizeof text - 1, payload);
        send(tracker, event->curve, &frame, payload);
        return;
    }
    struct wire_address_book *roster = &tracker->roster;
    uint32_t row = 0;
    while (row < roster->count &&
           memcmp(roster->members[row].keys.curve, event->curve, KEY_BYTES) != 0) {
        row++;
    }
    ASSERT(row < TINY_MEMBERS_MAX);
    const bool is_new = row == roster->count;
    roster->count += is_new;
    struct wire_member *member = &roster->members[row];
    member->keys = introduction.keys;
    if (is_new) {
        name_members(tracker);
    }
    if (introduction.address[0] == '\0') {
        member->address[0] = '\0';
    } else { /* "tcp://:PORT", seen from 127.0.0.1 */
        snprintf(member->address, sizeof member->address, "tcp://127.0.0.1:%.8s",
                 introduction.address + strlen("tcp://:"));
    }
    roster->version++;
    for (uint32_t i = 0; i < roster->count; i++) {
        say_roster(tracker, roster->members[i].keys.curve);
    }
}

static void hear_machine(struct tiny_tracker *tracker, const struct messenger_event *event) {
    struct message message;
    const uint8_t *bulk;
    size_t bulk_bytes;
    const char *wrong =
        wire_read_message(&tracker->shape, &event->frame, event->payload, event->frame.length,
                          &tracker->arrays, &message, &bulk, &bulk_bytes);
    ASSERT(wrong == NULL);
    for (uint32_t i = 0; i < tracker->roster.count; i++) {
        const struct public_keys *keys = &tracker->roster.members[i].keys;
        if (memcmp(keys->curve, event->curve, KEY_BYTES) == 0) {
            memcpy(message.from.bytes, keys->sign, KEY_BYTES);
        }
    }
    if (wire_verify_message(&tracker->shape, tracker->keys.public_keys.sign, &tracker->open,
                            &message, bulk, bulk_bytes)) {
        step(tracker, &(struct event){.kind = EVENT_MESSAGE, .message = &message});
    }
}

static void hear_end(struct tiny_tracker *tracker, const uint8_t *curve) {
    struct event closed = {.kind = EVENT_CLOSED};
    for (uint32_t i = 0; i < tracker->roster.count; i++) {
        const struct public_keys *keys = &tracker->roster.members[i].keys;
        if (memcmp(keys->curve, curve, KEY_BYTES) == 0) {
            memcpy(closed.peer.bytes, keys->sign, KEY_BYTES);
            step(tracker, &closed);
        }
    }
}

static void hear(struct tiny_tracker *tracker, const struct messenger_event *event) {
    if (event->kind == MESSENGER_CLOSED) {
        hear_end(tracker, event->curve);
    }
    if (event->kind != MESSENGER_FRAME) {
        return;
    }
    if (event->frame.kind < WIRE_STATE_MACHINE_KINDS) {
        hear_machine(tracker, event);
    } else if (event->frame.kind == WIRE_INTRODUCE) {
        introduce(tracker, event);
    } else if (event->frame.kind == WIRE_LEDGER_REQUEST) {
        say_ledger(tracker, event->curve, event->frame.offset);
    } else if (event->frame.kind == WIRE_CHECKPOINT_REQUEST) {
        uint8_t bytes[WIRE_DOCUMENT_OFFSET]; /* it has none */
        struct frame frame = {.kind = WIRE_CHECKPOINT};
        frame.length = (uint32_t)wire_write_document(WIRE_CHECKPOINT, 0, bytes);
        send(tracker, event->curve, &frame, bytes);
    } else if (event->frame.kind == WIRE_PING) {
        uint8_t bytes[WIRE_SMALL_BYTES_MAX];
        uint64_t number = 0;
        ASSERT(wire_read_ping(event->payload, event->frame.length, &number) == NULL);
        struct frame frame = {.kind = WIRE_PONG};
        frame.length = (uint32_t)wire_write_ping(number, bytes);
        send(tracker, event->curve, &frame, bytes);
    }
}

static void *run(void *argument) {
    struct tiny_tracker *tracker = argument;
    int64_t tick_ms = now_ms();
    while (!atomic_load(&tracker->is_over)) {
        struct messenger_event event;
        (void)messenger_wait(tracker->messenger, -1, WAIT_MS);
        while (messenger_next_event(tracker->messenger, &event)) {
            hear(tracker, &event);
        }
        if (now_ms() - tick_ms >= tracker->roster.timing.heartbeat_ms) {
            tick_ms = now_ms();
            step(tracker, &(struct event){.kind = EVENT_TICK});
        }
    }
    return NULL;
}

/* ---- start and stop ---- */

static void make_record(struct tiny_tracker *tracker, const struct hash *root) {
    struct tracker_record *record = &tracker->record;
    uint32_t count = tracker->shape.slice_count;
    record->incarnation = 1;
    record->next_session = 1;
    record->head.slices = zeros(count, sizeof(struct entry_slice));
    record->commit.slices = zeros(count, sizeof(struct entry_slice));
    record->table.slices = zeros(count, sizeof(struct slice_plan));
    record->head.kind = ENTRY_GENESIS;
    record->head.incarnation = 1;
    record->head.root = *root;
    record->head.manifest = tracker->shape.swarm;
    struct delegation *delegation = &record->head.documents.delegation;
    *delegation = (struct delegation){.serial = 1, .tracker = tracker->keys.public_keys};
    delegation_sign(&tracker->operator_keys, &tracker->shape.swarm, delegation);
    seal_entry(tracker, &record->head);
    entry_copy(&record->commit, &record->head);
    keep(tracker, &record->head);
    record->chain = ledger_chain_hash(&tracker->chain);
}

void tiny_tracker_start(struct tiny_tracker *tracker, const struct hash *root) {
    struct fault fault;
    keys_generate(&tracker->keys);
    keys_generate(&tracker->operator_keys);
    pthread_mutex_init(&tracker->lock, NULL);
    tracker->entries = zeros(TINY_ENTRIES_MAX, sizeof(struct entry));
    make_record(tracker, root);
    tracker->roster.timing =
        timing_derive(&tracker->settings.times, tracker->settings.training.patience);
    tracker->actions.capacity = ACTIONS_MAX;
    tracker->actions.rows = zeros(ACTIONS_MAX, sizeof(struct action));
    size_t longest = wire_payload_bytes_max(&tracker->shape);
    tracker->payload_capacity = longest > FRAME_PAYLOAD_MAX ? longest : FRAME_PAYLOAD_MAX;
    tracker->payload = zeros(tracker->payload_capacity, 1);
    wire_arrays_carve(&tracker->shape, zeros(wire_arrays_size(&tracker->shape), 1),
                      &tracker->arrays);
    tracker->machine = tracker_init(zeros(tracker_memory_bytes(&tracker->settings), 1),
                                    &tracker->settings, &tracker->record, now_ms());
    struct messenger_options options = {.keys = &tracker->keys,
                                        .listen = "tcp://127.0.0.1:*",
                                        .peers_max = TINY_MEMBERS_MAX,
                                        .queued_frames = 16,
                                        .guests = {.slots = {TINY_MEMBERS_MAX}}};
    wire_accepted_kinds(WIRE_TRACKER, options.accepted_kinds);
    if (messenger_open(&options, &tracker->region, &tracker->messenger, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    snprintf(tracker->address, sizeof tracker->address, "tcp://127.0.0.1:%u",
             messenger_port(tracker->messenger));
    atomic_init(&tracker->is_over, false);
    atomic_init(&tracker->lets_in, true);
    assert_int_equal(pthread_create(&tracker->thread, NULL, run, tracker), 0);
}

void tiny_tracker_stop(struct tiny_tracker *tracker) {
    atomic_store(&tracker->is_over, true);
    pthread_join(tracker->thread, NULL);
    messenger_close(tracker->messenger, 0);
}

void tiny_tracker_free(struct tiny_tracker *tracker) {
    for (uint32_t i = 0; i < tracker->entry_count; i++) {
        free(tracker->entries[i].slices);
    }
    free(tracker->entries);
    free(tracker->record.head.slices);
    free(tracker->record.commit.slices);
    free(tracker->record.table.slices);
    free(tracker->actions.rows);
    free(tracker->payload);
    free(tracker->arrays.entry.slices);
    free(tracker->machine);
    region_finish(&tracker->region);
    pthread_mutex_destroy(&tracker->lock);
}
