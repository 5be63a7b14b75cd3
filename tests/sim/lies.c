/* lies: what hostile members do to their messages, to bytes on their way, and to contributions. */
#include "tests/sim/fields.h"
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DAY_MS = 24 * 3600 * 1000,
    SCALE = 1000,
    TRICKLE = 1000,
    DRIP_PERCENT = 60, /* of the exchange deadline */
};
static const float HUGE = 1e38f;

static const char *const NAMES[HOSTILITIES] = {
    [HONEST] = "honest",
    [HOSTILE_NAN] = "nan",
    [HOSTILE_HUGE] = "huge",
    [HOSTILE_SCALED] = "scaled",
    [HOSTILE_SIGN] = "sign",
    [HOSTILE_REPLAY] = "replay",
    [HOSTILE_PATCH] = "patch",
    [HOSTILE_COPY] = "copy",
    [HOSTILE_LATE] = "late",
    [HOSTILE_ZEROS] = "zeros",
    [HOSTILE_TOKENS] = "tokens",
    [HOSTILE_SUM] = "sum",
    [HOSTILE_SWAP] = "swap",
    [HOSTILE_SKETCH] = "sketch",
    [HOSTILE_ACCUSE] = "accuse",
    [HOSTILE_HIDE] = "hide",
    [HOSTILE_DAMAGE] = "damage",
    [HOSTILE_UNLIKE] = "unlike",
    [HOSTILE_WITHHOLD] = "withhold",
    [HOSTILE_DRIP] = "drip",
    [HOSTILE_TRICKLE] = "trickle",
    [HOSTILE_MUTE] = "mute",
    [HOSTILE_CLAIM] = "claim",
    [HOSTILE_IDLE] = "idle",
    [HOSTILE_TOGGLE] = "toggle",
    [HOSTILE_FAIL_3] = "fail/3",
    [HOSTILE_FAIL_4] = "fail/4",
    [HOSTILE_FAIL_5] = "fail/5",
    [HOSTILE_LOST_3] = "lost/3",
    [HOSTILE_LOST_4] = "lost/4",
    [HOSTILE_LOST_5] = "lost/5",
    [HOSTILE_WITHDRAW] = "withdraw",
    [HOSTILE_VOTE] = "vote",
    [HOSTILE_LINKS] = "links",
    [HOSTILE_RATE_ZERO] = "rate-zero",
    [HOSTILE_RATE_MAX] = "rate-max",
    [HOSTILE_DAY] = "day",
    [HOSTILE_STALE] = "stale",
    [HOSTILE_RETURNING] = "returning",
    [HOSTILE_FIELD] = "field",
};

const char *lie_name(enum hostility hostility) {
    return NAMES[hostility];
}

bool lie_has_teller(const struct world *world) {
    bool has_any = false;
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        has_any |= world->nodes[n].hostility != HONEST;
    }
    return has_any;
}

/* An owner is named for a sum that has its own contribution, if that is no valid encoding or the
 * owner does not send it to voters as it declared it. */
static bool is_wrong_owner(enum hostility hostility) {
    return hostility == HOSTILE_SUM || hostility == HOSTILE_SWAP || hostility == HOSTILE_NAN ||
           (hostility >= HOSTILE_DAMAGE && hostility <= HOSTILE_TRICKLE);
}

bool lie_explains(enum hostility hostility, uint32_t reason) {
    switch (reason) {
    case SUSPENSION_WRONG_SUM:
    case SUSPENSION_WITHHELD:
        return is_wrong_owner(hostility);
    case SUSPENSION_WRONG_SKETCH:
        return hostility == HOSTILE_SWAP || hostility == HOSTILE_SKETCH;
    case SUSPENSION_OPPOSED:
        return hostility == HOSTILE_SIGN;
    case SUSPENSION_INVALID:
    case SUSPENSION_REPETITION:
        return hostility != HONEST;
    default:
        return true;
    }
}

/* ---- contributions ---- */

static void scale_values(const struct world *world, struct coded *coded, float factor) {
    float values[SLICE_ELEMENTS];
    values_decode(world, coded, values);
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        values[i] *= factor;
    }
    *coded = values_encode(world, values);
}

struct coded lie_swapped(const struct world *world, const struct coded *coded) {
    struct coded swapped = *coded;
    if (values_are_sound(world, coded)) {
        scale_values(world, &swapped, -1);
    }
    return swapped;
}

struct coded lie_own_addend(const struct world *world, uint32_t index, uint32_t slice) {
    const struct node *node = &world->nodes[index];
    const struct coded *own = &node->own.slices[slice];
    return node->hostility == HOSTILE_SWAP ? lie_swapped(world, own) : *own;
}

static void make_huge(const struct world *world, struct coded *coded) {
    float values[SLICE_ELEMENTS];
    float most = 0;
    values_decode(world, coded, values);
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        most = fmaxf(most, fabsf(values[i]));
    }
    scale_values(world, coded, most > 0 ? HUGE / most : 1);
}

static void change_slice(const struct world *world, const struct node *node, uint32_t slice,
                         struct coded *coded) {
    switch (node->hostility) {
    case HOSTILE_NAN: /* with a usual norm, because half of the slices are valid */
        if (slice % 2 == 0) {
            values_destroy(world, coded);
        }
        break;
    case HOSTILE_HUGE:
        make_huge(world, coded);
        break;
    case HOSTILE_SCALED:
        scale_values(world, coded, SCALE);
        break;
    case HOSTILE_SIGN:
        scale_values(world, coded, -1);
        break;
    case HOSTILE_REPLAY:
        *coded = node->replayed.slices[slice];
        break;
    case HOSTILE_PATCH:
        *coded = slice > 0 || world->slice_count == 1 ? node->replayed.slices[slice] : *coded;
        break;
    case HOSTILE_ZEROS:
        *coded = (struct coded){0};
        break;
    default:
        break;
    }
}

void lie_contribution(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    if (node->replayed.round == 0) {
        node->replayed = node->own;
    }
    for (uint32_t s = 0; s < world->slice_count; s++) {
        change_slice(world, node, s, &node->own.slices[s]);
    }
    if (theft_is_lie(node->hostility)) {
        theft_contribute(world, index);
    }
}

void lie_bytes(const struct world *world, uint32_t index, uint32_t to, struct coded *coded) {
    enum hostility hostility = world->nodes[index].hostility;
    if (hostility == HOSTILE_DAMAGE || (hostility == HOSTILE_UNLIKE && to % 2 == 0)) {
        values_damage(world, coded, 0, 1);
    }
}

/* ---- times ---- */

/* Whether a member that is faulty in every third, fourth or fifth round is faulty now. */
static bool is_faulty_round(const struct world *world, enum hostility hostility,
                            enum hostility every_third) {
    const uint32_t rounds = 3 + (uint32_t)(hostility - every_third);
    return hostility >= every_third && rounds <= 5 &&
           world->stores[0].record.head.round % rounds == 0;
}

/* Whether a member sums nothing and sends no results now. */
static bool is_idle(const struct world *world, enum hostility hostility) {
    return hostility == HOSTILE_IDLE || hostility == HOSTILE_TOGGLE ||
           is_faulty_round(world, hostility, HOSTILE_FAIL_3);
}

static bool is_in_exchange(const struct world *world) {
    const struct tracker_record *record = &world->stores[0].record;
    return record->head.kind == ENTRY_OPEN && record->table.round == record->head.round &&
           record->table.version > 0;
}

bool lie_withholds(const struct world *world, uint32_t index, const struct message *message) {
    enum hostility hostility = world->nodes[index].hostility;
    bool is_silent_owner =
        hostility == HOSTILE_MUTE || hostility == HOSTILE_CLAIM || is_idle(world, hostility);
    bool is_lost = is_faulty_round(world, hostility, HOSTILE_LOST_3) && is_in_exchange(world);
    return is_lost || (is_silent_owner && message->kind == MESSAGE_RESULT) ||
           (hostility == HOSTILE_HIDE && message->kind == MESSAGE_SKETCHES) ||
           (hostility == HOSTILE_WITHHOLD && message->kind == MESSAGE_CONTRIBUTION);
}

int64_t lie_wait_ms(const struct world *world, uint32_t index, enum message_kind kind) {
    const struct node *node = &world->nodes[index];
    bool is_dripping = node->hostility == HOSTILE_DRIP && kind == MESSAGE_CONTRIBUTION;
    return is_dripping && node->drip_at > world->now ? node->drip_at - world->now : 0;
}

void lie_mark_sent(struct world *world, uint32_t index, enum message_kind kind) {
    int64_t wait_ms = (int64_t)world->timing.exchange_ms * DRIP_PERCENT / 100;
    if (kind == MESSAGE_CONTRIBUTION) {
        world->nodes[index].drip_at = world->now + wait_ms;
    }
}

uint64_t lie_slowness(const struct world *world, uint32_t index) {
    return world->nodes[index].hostility == HOSTILE_TRICKLE ? TRICKLE : 1;
}

/* ---- messages ---- */

/* Whether the tracker's table makes this node the owner of a slice. */
static bool is_owner(const struct world *world, uint32_t index, uint32_t slice) {
    const struct round_table *table = &world->stores[0].record.table;
    uint32_t owner = table->slices[slice].owner;
    return table->version > 0 && world->stores[0].record.head.seats[owner].id.bytes[0] == index;
}

static void claim_result(const struct world *world, struct slice_report *row, uint32_t slice) {
    const struct slice_plan *plan = &world->stores[0].record.table.slices[slice];
    row->has_result = 1;
    row->epoch = plan->epoch;
    row->contributors = plan->expected_seats;
    row->hash = hash_of(row, offsetof(struct slice_report, hash));
}

static void hide_result(struct slice_report *row) {
    row->has_result = 0;
    row->contributors = 0;
    memset(&row->hash, 0, sizeof(row->hash));
}

static void lie_about_slices(struct world *world, uint32_t index, struct slice_report *rows,
                             uint64_t number) {
    enum hostility hostility = world->nodes[index].hostility;
    for (uint32_t s = 0; s < world->slice_count; s++) {
        if (hostility == HOSTILE_CLAIM && world->stores[0].record.table.version > 0) {
            claim_result(world, &rows[s], s);
        } else if (hostility == HOSTILE_WITHDRAW && number % 2 == 0) {
            rows[s] = (struct slice_report){.epoch = rows[s].epoch, .changed = rows[s].changed};
        } else if (is_idle(world, hostility) && is_owner(world, index, s)) {
            hide_result(&rows[s]);
            rows[s].received_seats ^= hostility == HOSTILE_TOGGLE ? number % 2 : 0;
        }
    }
}

/* Gives a report the state of the last report of the round before. */
static void repeat_report(struct node *node, struct message *report) {
    struct message *last = &node->last_report;
    if (report->round > last->round + 1 || last->round == 0) {
        *last = *report;
    }
    report->round = last->round;
    report->version = last->version;
    report->root = last->root;
    report->hash = last->hash;
}

/* Makes a report whole, so that it has what a lie changes. */
static void send_whole_report(const struct world *world, struct parcel *parcel) {
    struct slice_report *rows = parcel->array;
    parcel->message.report.parts = REPORT_ALL;
    for (uint32_t s = 0; s < world->slice_count; s++) {
        rows[s].changed = parcel->message.number;
    }
}

static void lie_in_report(struct world *world, uint32_t index, struct parcel *parcel) {
    struct message *report = &parcel->message;
    struct node *node = &world->nodes[index];
    send_whole_report(world, parcel);
    lie_about_slices(world, index, parcel->array, report->number);
    switch (node->hostility) {
    case HOSTILE_RATE_ZERO:
        report->measured.upload_kib_s = 0;
        break;
    case HOSTILE_RATE_MAX:
        report->measured.upload_kib_s = UINT32_MAX - 1;
        break;
    case HOSTILE_DAY:
        report->measured.step_ms = DAY_MS;
        break;
    case HOSTILE_STALE:
        repeat_report(node, report);
        break;
    case HOSTILE_RETURNING:
        if (world->stores[0].record.head.round / 2 % 2 == 0) {
            memset(&report->root, 0, sizeof(report->root));
        }
        break;
    default:
        break;
    }
}

/* A member can sign whatever it sends, except in the name of another. */
static void sign_again(const struct world *world, uint32_t index, struct message *message) {
    const struct identity id = {{(uint8_t)index}};
    bool is_false_signature = world->false_field->offset == offsetof(struct message, signature);
    if (is_false_signature) {
        return;
    }
    bool is_owner = memcmp(&message->owner, &id, sizeof(id)) == 0;
    if (message->kind == MESSAGE_VOTE) {
        message->signature = post_sign(&id, &message->hash);
    } else if (message->kind != MESSAGE_RESULT || is_owner) {
        post_sign_message(world, &id, message);
    }
}

static void lie_in_field(struct world *world, uint32_t index, struct parcel *parcel) {
    struct node *node = &world->nodes[index];
    if (node->field_memory == NULL) {
        node->field_memory = calloc(1, sizeof(*node->field_memory));
    }
    if (parcel->message.kind == MESSAGE_REPORT) {
        send_whole_report(world, parcel);
    }
    field_change(world, world->false_field, (enum field_change)world->false_change, parcel,
                 node->field_memory);
    sign_again(world, index, &parcel->message);
}

bool lie_message(struct world *world, uint32_t index, struct parcel *parcel) {
    enum hostility hostility = world->nodes[index].hostility;
    if (hostility == HOSTILE_FIELD) {
        lie_in_field(world, index, parcel);
    } else if (hostility != HONEST && parcel->message.kind == MESSAGE_REPORT) {
        lie_in_report(world, index, parcel);
    } else if (hostility == HOSTILE_TOKENS && parcel->message.kind == MESSAGE_DECLARE) {
        parcel->message.trained.tokens = INT64_MAX;
        post_sign_message(world, &parcel->message.from, &parcel->message);
    }
    return hostility == HONEST || parcel_pass_wire(world, parcel);
}
