#include "ends.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

void end_init(struct end *end) {
    memset(end, 0, sizeof *end);
    keys_generate(&end->keys);
    end->options = (struct messenger_options){.keys = &end->keys,
                                              .listen = "tcp://127.0.0.1:*",
                                              .peers_max = 4,
                                              .bulk_connections = 2,
                                              .queued_frames = 4,
                                              .accepted_kinds = {0x1e}};
}

void end_open(struct end *end) {
    struct fault fault;
    const enum status status = messenger_open(&end->options, &end->region, &end->messenger, &fault);
    if (status != OK) {
        fault_print(&fault, 2);
    }
    ASSERT(status == OK);
}

void end_close(struct end *end) {
    if (end->messenger != NULL) {
        messenger_close(end->messenger, 0);
        end->messenger = NULL;
    }
    region_finish(&end->region);
}

const uint8_t *end_curve(const struct end *end) {
    return end->keys.public_keys.curve;
}

const char *end_address(const struct end *end) {
    static char addresses[4][MESSAGE_ADDRESS_BYTES];
    static unsigned turn;
    char *address = addresses[turn++ % 4];
    snprintf(address, MESSAGE_ADDRESS_BYTES, "tcp://127.0.0.1:%u", messenger_port(end->messenger));
    return address;
}

void end_names(struct end *end, const struct end *other, const char *address) {
    struct fault fault;
    const enum status status =
        messenger_register_peer(end->messenger, end_curve(other), address, &fault);
    ASSERT(status == OK);
}

static void listen_to(struct end *end) {
    struct messenger_event event;
    while (messenger_next_event(end->messenger, &event)) {
        struct heard heard = {.kind = event.kind, .is_guest = event.is_guest, .frame = event.frame};
        memcpy(heard.curve, event.curve, KEY_BYTES);
        memcpy(heard.address, event.address, sizeof heard.address);
        if (event.kind == MESSENGER_FRAME) {
            heard.payload = hash_of(event.payload, event.frame.length);
        }
        end->heard[end->count++ % HEARD_MAX] = heard;
    }
}

void ends_pump(struct end *const *ends, int count) {
    for (int i = 0; i < count; i++) {
        if (ends[i]->messenger != NULL && messenger_wait(ends[i]->messenger, -1, 1)) {
            listen_to(ends[i]);
        }
    }
}

bool ends_until(struct end *const *ends, int count, bool (*done)(void *), void *context) {
    const int64_t until_ns = clock_monotonic_ns() + (int64_t)WITHIN_MS * 1000000;
    while (!done(context)) {
        if (clock_monotonic_ns() > until_ns) {
            return false;
        }
        ends_pump(ends, count);
    }
    return true;
}

uint32_t heard_count(const struct end *end, enum messenger_event_kind kind,
                     const struct end *from) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < end->count && i < HEARD_MAX; i++) {
        const bool is_from =
            from == NULL || memcmp(end->heard[i].curve, end_curve(from), KEY_BYTES) == 0;
        count += end->heard[i].kind == kind && is_from ? 1 : 0;
    }
    return count;
}

const struct heard *heard_last(const struct end *end, enum messenger_event_kind kind) {
    const struct heard *last = NULL;
    for (uint32_t i = 0; i < end->count && i < HEARD_MAX; i++) {
        last = end->heard[i].kind == kind ? &end->heard[i] : last;
    }
    return last;
}

struct wanted {
    const struct end *end;
    enum messenger_event_kind kind;
    uint32_t count;
};

static bool has_heard(void *context) {
    const struct wanted *wanted = context;
    return heard_count(wanted->end, wanted->kind, NULL) >= wanted->count;
}

bool hears(struct end *const *ends, int count, struct end *end, enum messenger_event_kind kind,
           uint32_t wanted) {
    struct wanted context = {.end = end, .kind = kind, .count = wanted};
    return ends_until(ends, count, has_heard, &context);
}

bool ends_meet(struct end *a, struct end *b) {
    struct end *const both[] = {a, b};
    return hears(both, 2, a, MESSENGER_OPENED, 1) && hears(both, 2, b, MESSENGER_OPENED, 1);
}

static bool is_confirmed(void *context) {
    const struct end *end = context;
    const struct messenger_counts counts = messenger_counts(end->messenger);
    return counts.acked_ns > 0 && counts.acked_bytes >= counts.sent_bytes;
}

bool ends_confirm(struct end *a, struct end *b) {
    struct end *const both[] = {a, b};
    return ends_until(both, 2, is_confirmed, a) && ends_until(both, 2, is_confirmed, b);
}
