#include "runtime/swarm/document_fetch.h"

#include "base/clock.h"

#include <string.h>

enum { LOOK_MS = 200, ASK_AGAIN_MS = 1000, QUEUED_FRAMES = 4 };

struct fetching {
    const struct document_wish *wish;
    struct messenger *messenger;
    struct wire_pieces pieces;
    const uint8_t *payload; /* of the whole, once it is here */
    int64_t asked_ns;       /* 0: not yet */
};

static enum status refused(const struct fetching *fetching, const struct messenger_event *event,
                           struct fault *fault) {
    const char *address = fetching->wish->tracker->address;
    if (event->kind == MESSENGER_REFUSED) {
        return fault_set(fault, STATUS_INPUT, address, "ask its operator for the join string",
                         "who answers there is not the tracker of this key, or lets nobody in");
    }
    int length =
        event->frame.length < WIRE_REASON_BYTES ? (int)event->frame.length : WIRE_REASON_BYTES;
    return fault_set(fault, STATUS_INPUT, address, NULL, "the tracker refuses: %.*s", length,
                     (const char *)event->payload);
}

static enum status hear(struct fetching *fetching, const struct messenger_event *event,
                        struct fault *fault) {
    if (event->kind == MESSENGER_REFUSED) {
        return refused(fetching, event, fault);
    }
    if (event->kind != MESSENGER_FRAME) {
        fetching->asked_ns = 0; /* a connection is new, or gone: ask on the next one */
        return OK;
    }
    if (event->frame.kind == WIRE_REFUSED) {
        return refused(fetching, event, fault);
    }
    const uint8_t *payload;
    if (event->frame.kind == fetching->wish->answer &&
        wire_pieces_add(&fetching->pieces, &event->frame, event->payload, &payload) == WIRE_WHOLE) {
        fetching->payload = payload;
    }
    return OK;
}

static void ask(struct fetching *fetching, int64_t now_ns) {
    const struct document_wish *wish = fetching->wish;
    struct frame frame = {.kind = wish->ask};
    if (fetching->asked_ns != 0 && now_ns - fetching->asked_ns < (int64_t)ASK_AGAIN_MS * 1000000) {
        return;
    }
    if (messenger_send(fetching->messenger, wish->tracker->keys.curve, CHANNEL_CONTROL, &frame,
                       NULL) == SENT_TAKEN) {
        fetching->asked_ns = now_ns;
    }
}

static enum status await(struct fetching *fetching, struct fault *fault) {
    const struct document_wish *wish = fetching->wish;
    int64_t end_ns = clock_monotonic_ns() + (int64_t)wish->timeout_ms * 1000000;
    for (int64_t now = clock_monotonic_ns(); now < end_ns; now = clock_monotonic_ns()) {
        struct messenger_event event;
        while (fetching->payload == NULL && messenger_next(fetching->messenger, &event)) {
            enum status status = hear(fetching, &event, fault);
            if (status != OK) {
                return status;
            }
        }
        if (fetching->payload != NULL) {
            return OK;
        }
        if (wish->keep_on != NULL && !wish->keep_on(wish->context)) {
            return fault_set(fault, STATUS_STOPPED, wish->tracker->address, NULL, "asked to stop");
        }
        ask(fetching, now);
        messenger_wait(fetching->messenger, -1, LOOK_MS);
    }
    return fault_set(fault, STATUS_FAILED, wish->tracker->address, "is the tracker running?",
                     "no answer within %d s", wish->timeout_ms / 1000);
}

/* The payload may lie in the messenger, which goes. */
static void take(const struct fetching *fetching, struct region *region, const char **text,
                 size_t *length) {
    size_t count = fetching->pieces.count - WIRE_LENGTH_BYTES;
    char *taken = region_alloc(region, count + 1, 1);
    memcpy(taken, fetching->payload + WIRE_LENGTH_BYTES, count);
    *text = taken;
    *length = count;
}

enum status document_fetch(const struct document_wish *wish, struct region *region,
                           const char **text, size_t *length, struct fault *fault) {
    struct region scratch = {0};
    size_t capacity = wish->bytes_max + WIRE_LENGTH_BYTES;
    struct fetching fetching = {
        .wish = wish,
        .pieces = {.bytes = region_alloc(&scratch, capacity, 1), .capacity = capacity}};
    struct messenger_options options = {
        .keys = wish->keys, .peers_max = 1, .queued_frames = QUEUED_FRAMES};
    wire_kinds(WIRE_MEMBER, options.known);
    enum status status = messenger_open(&options, &scratch, &fetching.messenger, fault);
    if (status == OK) {
        status = messenger_peer(fetching.messenger, wish->tracker->keys.curve,
                                wish->tracker->address, fault);
        if (status == OK) {
            status = await(&fetching, fault);
        }
        if (status == OK) {
            take(&fetching, region, text, length);
        }
        messenger_close(fetching.messenger, 0);
    }
    region_finish(&scratch);
    return status;
}
