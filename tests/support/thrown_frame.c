#include "tests/support/thrown_frame.h"

#include "base/check.h"
#include "base/random.h"

#include <string.h>

enum {
    BITS_MAX = 8,        /* flipped at once */
    TAIL_MAX = 64,       /* bytes behind the end */
    BULK_MAX = 40 << 10, /* a slice of a small model */
    WHOLLY_RANDOM_MAX = 2048,
    ROUNDS_AROUND = 4, /* of the open one */
};

static const enum message_kind MEMBERS_KINDS[] = {
    MESSAGE_HELLO,
    MESSAGE_REPORT,
    MESSAGE_DECLARE,
    MESSAGE_VOTE,
    MESSAGE_LEAVE,
    MESSAGE_CONTRIBUTION,
    MESSAGE_FETCH_CONTRIBUTION,
    MESSAGE_FETCH_RESULT,
    MESSAGE_RESULT,
};

uint32_t dice_word(struct dice *dice) {
    uint32_t words[4];
    random_block(dice->key, dice->at++, words);
    return words[0];
}

uint32_t dice_below(struct dice *dice, uint32_t count) {
    return dice_word(dice) % count;
}

static void fill(struct dice *dice, void *bytes, size_t count) {
    uint8_t *at = bytes;
    while (count > 0) {
        uint32_t words[4];
        random_block(dice->key, dice->at++, words);
        size_t part = count < sizeof words ? count : sizeof words;
        memcpy(at, words, part);
        at += part;
        count -= part;
    }
}

/* Small numbers mostly, which mean something; now and then any. */
static uint32_t number(struct dice *dice, uint32_t usual) {
    return dice_below(dice, 16) == 0 ? dice_word(dice) : dice_below(dice, usual);
}

static void fill_arrays(struct thrower_view *view, struct dice *dice) {
    for (uint32_t i = 0; i < view->shape.slice_count; i++) {
        struct slice_report *report = &view->arrays.reports[i];
        *report = (struct slice_report){.epoch = number(dice, 3) % SWARM_EPOCH_MAX,
                                        .has_result = dice_below(dice, 2),
                                        .received_seats = dice_below(dice, 8),
                                        .rejected_seats = dice_below(dice, 2),
                                        .repeated_seats = dice_below(dice, 2),
                                        .changed = dice_below(dice, 1 << 20)};
        if (report->has_result != 0) {
            report->contributors = dice_below(dice, 8);
            fill(dice, &report->hash, sizeof report->hash);
        }
    }
}

static void fill_proof(struct slice_proof *proof, struct dice *dice) {
    proof->norm = number(dice, 1 << 16);
    proof->path_count = dice_below(dice, CONTRIBUTION_PATH_MAX + 1);
    fill(dice, proof->path, sizeof proof->path);
}

static struct message random_message(struct thrower_view *view, struct dice *dice) {
    fill_arrays(view, dice);
    fill_proof(&view->arrays.proof, dice);
    struct message message = {
        .kind = MEMBERS_KINDS[dice_below(dice, ARRAY_COUNT(MEMBERS_KINDS))],
        .session = dice_below(dice, 4) == 0 ? number(dice, 16) : view->session,
        .round = view->round + dice_below(dice, ROUNDS_AROUND) - 1,
        .slice = number(dice, view->shape.slice_count),
        .epoch = dice_below(dice, 3),
        .version = number(dice, 4),
        .poll.number = number(dice, 4),
        .number = 1 + dice_below(dice, 1 << 20),
        .report.parts = dice_below(dice, REPORT_ALL + 1),
        .trained = {number(dice, 1 << 16), number(dice, 1 << 16), number(dice, 1 << 16)},
        .contributors = dice_below(dice, 16),
        .links = {dice_below(dice, 16), view->arrays.awaited_ms},
        .measured = {.step_ms = number(dice, 1000),
                     .transfer_ms = number(dice, 1000),
                     .round_trip_ms = number(dice, 100),
                     .upload_kib_s = number(dice, 1 << 16)},
        .report.rows = view->arrays.reports,
        .proof = &view->arrays.proof,
    };
    message.report.base = dice_below(dice, 4) == 0 ? dice_below(dice, (uint32_t)message.number) : 0;
    fill(dice, &message.root, sizeof message.root);
    fill(dice, &message.hash, sizeof message.hash);
    fill(dice, &message.signature, sizeof message.signature);
    memcpy(message.owner.bytes, view->keys->public_keys.sign, sizeof message.owner.bytes);
    if (dice_below(dice, 2) == 0) {
        wire_sign_message(&view->shape, view->keys, &message);
    }
    return message;
}

static void write_message(struct thrower_view *view, struct dice *dice, struct frame *frame,
                          uint8_t *payload) {
    struct message message = random_message(view, dice);
    bool has_bulk = message.kind == MESSAGE_CONTRIBUTION || message.kind == MESSAGE_RESULT;
    uint64_t bulk = has_bulk ? 1 + dice_below(dice, BULK_MAX) : 0;
    size_t count = wire_write_message(&view->shape, &message, bulk, frame, payload,
                                      FRAME_PAYLOAD_MAX - BULK_MAX);
    fill(dice, payload + count, bulk);
    ASSERT(frame->length == count + bulk);
}

static void spoil_bits(struct dice *dice, const struct frame *frame, uint8_t *payload) {
    uint32_t flips = 1 + dice_below(dice, BITS_MAX);
    for (uint32_t i = 0; i < flips && frame->length > 0; i++) {
        payload[dice_below(dice, frame->length)] ^= (uint8_t)(1 << dice_below(dice, 8));
    }
}

static void spoil_header(struct dice *dice, struct frame *frame) {
    switch (dice_below(dice, 5)) {
    case 0:
        frame->epoch = (uint16_t)dice_word(dice);
        break;
    case 1:
        frame->round = dice_word(dice);
        break;
    case 2:
        frame->slice = dice_word(dice);
        break;
    case 3:
        frame->offset = dice_word(dice);
        break;
    default:
        frame->session = dice_word(dice);
    }
}

enum spoiling thrown_make(struct thrower_view *view, struct dice *dice, struct frame *frame,
                          uint8_t *payload) {
    write_message(view, dice, frame, payload);
    enum spoiling spoiling = (enum spoiling)dice_below(dice, SPOILINGS);
    switch (spoiling) {
    case SPOILED_BITS:
        spoil_bits(dice, frame, payload);
        break;
    case SPOILED_SHORT:
        frame->length = frame->length > 0 ? dice_below(dice, frame->length) : 0;
        break;
    case SPOILED_LONG: {
        uint32_t more = 1 + dice_below(dice, TAIL_MAX);
        fill(dice, payload + frame->length, more);
        frame->length += more;
        break;
    }
    case SPOILED_HEADER:
        spoil_header(dice, frame);
        break;
    case SPOILED_KIND:
        frame->kind = (uint8_t)dice_below(dice, WIRE_KIND_END + 4);
        break;
    case SPOILED_ALTOGETHER:
        frame->kind = (uint8_t)dice_below(dice, WIRE_KIND_END);
        frame->length = dice_below(dice, WHOLLY_RANDOM_MAX);
        fill(dice, payload, frame->length);
        break;
    default:
        break;
    }
    return spoiling;
}
