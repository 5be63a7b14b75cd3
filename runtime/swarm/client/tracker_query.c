#include "runtime/swarm/client/client.h"

#include "base/clock.h"

#include <string.h>

enum {
    CAPACITY = WIRE_LENGTH_BYTES +
               (WIRE_MANIFEST_MAX > WIRE_STATUS_MAX ? WIRE_MANIFEST_MAX : WIRE_STATUS_MAX),
    QUEUED_FRAMES = 4,
    AGAIN_MS = 1000, /* an ask may be lost with a connection */
    LINGER_MS = 100,
};

struct tracker_client {
    const struct join_string *tracker;
    struct key_pairs keys; /* of this connection */
    uint8_t proof[WIRE_PROOF_BYTES];
    uint32_t proof_bytes; /* 0: a stranger's */
    struct messenger *messenger;
    struct wire_chunks pieces;
    char refusal[WIRE_REASON_BYTES]; /* "" for none */
    bool has_answer, is_full;
};

static int64_t now_ms(void) {
    return clock_monotonic_ns() / 1000000;
}

static void prove(struct tracker_client *asker, const struct key_pairs *identity) {
    struct wire_proof proof;
    wire_sign_proof(identity, &asker->tracker->keys, asker->keys.public_keys.curve, &proof);
    asker->proof_bytes = (uint32_t)wire_write_proof(&proof, asker->proof);
}

enum status tracker_client_open(const struct key_pairs *identity, const struct join_string *tracker,
                                struct region *region, struct tracker_client **asker,
                                struct fault *fault) {
    struct tracker_client *opened = region_alloc(region, 1, sizeof *opened);
    struct messenger_options options = {
        .keys = &opened->keys, .peers_max = 1, .queued_frames = QUEUED_FRAMES};
    wire_allowed_kinds(WIRE_MEMBER, options.known);
    opened->tracker = tracker;
    keys_generate(&opened->keys);
    if (identity != NULL) {
        prove(opened, identity);
    }
    opened->pieces =
        (struct wire_chunks){.bytes = region_alloc(region, CAPACITY, 1), .capacity = CAPACITY};
    enum status status = messenger_open(&options, region, &opened->messenger, fault);
    if (status != OK) {
        return status;
    }
    status = messenger_peer(opened->messenger, tracker->keys.curve, tracker->address, fault);
    if (status != OK) {
        messenger_close(opened->messenger, 0);
        return status;
    }
    *asker = opened;
    return OK;
}

static enum wire_kind answer_to(enum wire_kind ask) {
    return ask == WIRE_MANIFEST_REQUEST ? WIRE_MANIFEST
           : ask == WIRE_STATUS_REQUEST ? WIRE_STATUS
                                        : WIRE_LEDGER;
}

static void take(struct tracker_client *asker, const struct tracker_query_args *question,
                 const struct messenger_event *event, struct tracker_answer *answer) {
    const uint8_t *payload = event->payload;
    const struct frame *frame = &event->frame;
    if (frame->kind == WIRE_REFUSED) {
        size_t length = frame->length < WIRE_REASON_BYTES ? frame->length : WIRE_REASON_BYTES - 1;
        memcpy(asker->refusal, payload, length);
        asker->refusal[length] = '\0';
    } else if (frame->kind != answer_to(question->ask)) {
        return;
    } else if (!wire_is_chunked(frame->kind)) {
        memcpy(asker->pieces.bytes, payload, frame->length);
        *answer = (struct tracker_answer){asker->pieces.bytes, frame->length};
        asker->has_answer = frame->offset == question->offset;
    } else if (wire_chunks_add(&asker->pieces, frame, payload, &payload) == WIRE_COMPLETE) {
        memmove(asker->pieces.bytes, payload, asker->pieces.count);
        *answer = (struct tracker_answer){asker->pieces.bytes + WIRE_LENGTH_BYTES,
                                          asker->pieces.count - WIRE_LENGTH_BYTES};
        asker->has_answer = true;
    }
}

/* What came in until now. */
static enum status drain(struct tracker_client *asker, const struct tracker_query_args *question,
                         struct tracker_answer *answer, struct fault *fault) {
    struct messenger_event event;
    while (!asker->has_answer && messenger_next(asker->messenger, &event)) {
        if (event.kind == MESSENGER_REJECTED) {
            return fault_set(fault, STATUS_INPUT, asker->tracker->address,
                             "ask for the join string again",
                             "who listens there has another key than the join string says");
        }
        asker->is_full =
            event.kind == MESSENGER_FULL || (asker->is_full && event.kind != MESSENGER_OPENED);
        if (event.kind == MESSENGER_FRAME) {
            take(asker, question, &event, answer);
        }
    }
    return asker->refusal[0] == '\0' ? OK
                                     : fault_set(fault, STATUS_INPUT, asker->tracker->address, NULL,
                                                 "the tracker refuses: %s", asker->refusal);
}

enum status tracker_query(struct tracker_client *asker, const struct tracker_query_args *question,
                          struct tracker_answer *answer, struct fault *fault) {
    const bool is_proven = question->ask != WIRE_MANIFEST_REQUEST;
    const struct frame frame = {.kind = (uint8_t)question->ask,
                                .offset = question->offset,
                                .length = is_proven ? asker->proof_bytes : 0};
    const int64_t until_ms = now_ms() + question->timeout_ms;
    int64_t asked_ms = 0;
    enum status status = OK;
    asker->has_answer = false;
    asker->refusal[0] = '\0';
    while (status == OK && !asker->has_answer && now_ms() < until_ms) {
        if (question->keep_on != NULL && !question->keep_on(question->context)) {
            return fault_set(fault, STATUS_STOPPED, asker->tracker->address, NULL, "asked to stop");
        }
        bool is_due = asked_ms == 0 || now_ms() - asked_ms >= AGAIN_MS;
        if (is_due && messenger_send(asker->messenger, asker->tracker->keys.curve, CHANNEL_CONTROL,
                                     &frame, asker->proof) == SEND_OK) {
            asked_ms = now_ms();
        }
        messenger_wait(asker->messenger, -1, AGAIN_MS / 10);
        status = drain(asker, question, answer, fault);
    }
    if (status == OK && !asker->has_answer) {
        status = fault_set(fault, STATUS_FAILED, asker->tracker->address,
                           asker->is_full ? NULL : "is the tracker running, and its port open?",
                           "no answer within %d s%s", question->timeout_ms / 1000,
                           asker->is_full ? ": it has no place for one more who asks" : "");
    }
    return status;
}

void tracker_client_close(struct tracker_client *asker) {
    messenger_close(asker->messenger, LINGER_MS);
    keys_wipe(&asker->keys);
}
