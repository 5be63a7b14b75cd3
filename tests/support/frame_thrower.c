/* frame_thrower: a process whose key is let in, and which says anything to a tracker and members.
 *
 *     frame_thrower JOIN_STRING FRAMES SEED SLICES MEMBERS_MAX
 *     frame_thrower JOIN_STRING stranger          a key that nobody knows: what is it told?
 *
 * Who is cut off for bad frames comes again with a new key, so an open roster is needed. A frame
 * counts once its hearer has answered a ping behind it: it was taken, looked at and survived. The
 * last line says how many; exit 1 when nobody answers any more. A stranger prints the kinds of
 * frames that it heard, the last second after it was refused. */
#include "tests/support/thrown_frame.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/region.h"
#include "runtime/swarm/delegation/delegation_search.h"
#include "runtime/swarm/wire/wire_service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 4,        /* frames between two pings: more would meet a closed door */
    BATCHES_MAX = 64, /* with one key */
    WAIT_MS = 10000,  /* for an answer of a living process, under sanitizers */
    MEMBER_MS = 3000, /* for a member to have heard that the key is let in */
    STRANGER_MS = 1000,
    SILENT_KEYS_MAX = 5, /* in a row that nobody let in: something is dead */
    MS = 1000000,
};

struct target {
    uint8_t curve[KEY_BYTES];
    bool is_open, is_closed; /* is_closed: it cut us off */
    uint64_t pinged, ponged;
};

struct thrower {
    struct thrower_view view;
    struct tracker_contact contact;
    struct key_pairs keys;
    struct messenger *messenger;
    struct region region;
    struct target targets[1 + SWARM_MEMBERS_MAX]; /* the tracker first */
    uint32_t target_count;
    struct wire_address_book roster; /* version 0: none yet */
    bool has_manifest;
    struct wire_chunks pieces;
    struct dice dice;
    uint64_t heard[WIRE_KIND_END];
    uint64_t frames, confirmed, keys_used, cut_off, refused;
    uint8_t payload[FRAME_PAYLOAD_MAX];
};

static _Noreturn void give_up(const char *what, const char *detail) {
    fprintf(stderr, "frame_thrower: %s%s%s\n", what, detail[0] != '\0' ? ": " : "", detail);
    exit(1);
}

static struct target *target_of(struct thrower *thrower, const uint8_t *curve) {
    for (uint32_t i = 0; i < thrower->target_count; i++) {
        if (memcmp(thrower->targets[i].curve, curve, KEY_BYTES) == 0) {
            return &thrower->targets[i];
        }
    }
    return NULL;
}

/* ---- hearing ---- */

static void hear_manifest(struct thrower *thrower, const struct messenger_event *event) {
    const uint8_t *whole, *manifest;
    size_t count;
    if (wire_chunks_add(&thrower->pieces, &event->frame, event->payload, &whole) == WIRE_COMPLETE &&
        wire_read_document(WIRE_MANIFEST, whole + WIRE_LENGTH_BYTES,
                           thrower->pieces.payload_bytes - WIRE_LENGTH_BYTES, &manifest,
                           &count) == NULL) {
        thrower->view.shape.swarm = hash_of(manifest, count);
        thrower->has_manifest = true;
    }
}

static void hear_frame(struct thrower *thrower, struct target *target,
                       const struct messenger_event *event) {
    const struct frame *frame = &event->frame;
    if (frame->kind < WIRE_KIND_END) {
        thrower->heard[frame->kind]++;
    }
    if (frame->kind == WIRE_MANIFEST) {
        hear_manifest(thrower, event);
    } else if (frame->kind == WIRE_ADDRESS_BOOK) {
        struct wire_address_book roster;
        if (wire_read_address_book(event->payload, frame->length, &roster) == NULL) {
            thrower->roster = roster;
        }
    } else if (frame->kind == WIRE_PONG) {
        (void)!wire_read_ping(event->payload, frame->length, &target->ponged);
    } else if (frame->kind == MESSAGE_WELCOME) {
        thrower->view.session = frame->session;
    } else if (frame->kind == MESSAGE_ENTRY || frame->kind == MESSAGE_TABLE) {
        thrower->view.round = frame->round;
    }
}

static void hear_all(struct thrower *thrower) {
    struct messenger_event event;
    while (messenger_next_event(thrower->messenger, &event)) {
        struct target *target = target_of(thrower, event.curve);
        if (target == NULL) {
            continue;
        }
        if (event.kind == MESSENGER_FRAME) {
            hear_frame(thrower, target, &event);
        } else if (event.kind == MESSENGER_OPENED) {
            target->is_open = true;
        } else {
            thrower->refused += event.kind == MESSENGER_REJECTED;
            target->is_closed = target->is_open;
        }
    }
}

/* Hear until `done` or the time is over; whether it was done. */
typedef bool condition(const struct thrower *thrower);

static bool wait_for(struct thrower *thrower, condition *done, int ms) {
    int64_t end = clock_monotonic_ns() + (int64_t)ms * MS;
    hear_all(thrower);
    while (!done(thrower)) {
        int64_t left = end - clock_monotonic_ns();
        if (left <= 0) {
            return false;
        }
        messenger_wait(thrower->messenger, -1, (int)(left / MS) + 1);
        hear_all(thrower);
    }
    return true;
}

static bool tracker_is_open(const struct thrower *thrower) {
    return thrower->targets[0].is_open;
}

static bool has_manifest(const struct thrower *thrower) {
    return thrower->has_manifest;
}

static bool is_let_in(const struct thrower *thrower) {
    return thrower->roster.version > 0 || thrower->targets[0].is_closed;
}

static bool all_open(const struct thrower *thrower) {
    for (uint32_t i = 0; i < thrower->target_count; i++) {
        if (!thrower->targets[i].is_open) {
            return false;
        }
    }
    return true;
}

static bool all_answered(const struct thrower *thrower) {
    for (uint32_t i = 0; i < thrower->target_count; i++) {
        const struct target *target = &thrower->targets[i];
        if (target->is_open && !target->is_closed && target->ponged < target->pinged) {
            return false;
        }
    }
    return true;
}

static bool was_refused(const struct thrower *thrower) {
    return thrower->heard[WIRE_REJECTED] > 0;
}

static bool never(const struct thrower *thrower) {
    (void)thrower;
    return false;
}

/* ---- speaking ---- */

static void say(struct thrower *thrower, const struct target *target, const struct frame *frame,
                const void *payload) {
    while (messenger_send(thrower->messenger, target->curve, CHANNEL_CONTROL, frame, payload) ==
               SEND_WOULD_BLOCK &&
           !target->is_closed) {
        messenger_wait(thrower->messenger, -1, 10);
        hear_all(thrower);
    }
}

static void add_target(struct thrower *thrower, const uint8_t *curve, const char *address) {
    struct fault fault;
    struct target *target = &thrower->targets[thrower->target_count++];
    *target = (struct target){0};
    memcpy(target->curve, curve, KEY_BYTES);
    if (messenger_register_peer(thrower->messenger, curve, address, &fault) != OK) {
        give_up(fault.subject, fault.reason);
    }
}

/* A new identity, connected to the tracker. */
static bool begin(struct thrower *thrower) {
    struct fault fault;
    keys_generate(&thrower->keys);
    thrower->keys_used++;
    thrower->target_count = 0;
    thrower->roster = (struct wire_address_book){0};
    struct messenger_options options = {
        .keys = &thrower->keys, .peers_max = 1 + SWARM_MEMBERS_MAX, .queued_frames = 16};
    memset(options.accepted_kinds, 0xff, sizeof options.accepted_kinds);
    options.accepted_kinds[3] &= UINT64_MAX >> 1; /* the messenger's own kind */
    if (messenger_open(&options, &thrower->region, &thrower->messenger, &fault) != OK) {
        give_up(fault.subject, fault.reason);
    }
    add_target(thrower, thrower->contact.keys.curve, thrower->contact.address);
    return wait_for(thrower, tracker_is_open, WAIT_MS);
}

static void end(struct thrower *thrower) {
    messenger_close(thrower->messenger, 0);
    region_finish(&thrower->region);
}

static void ask_manifest(struct thrower *thrower) {
    struct frame frame = {.kind = WIRE_MANIFEST_REQUEST};
    say(thrower, &thrower->targets[0], &frame, NULL);
    if (!wait_for(thrower, has_manifest, WAIT_MS)) {
        give_up("the tracker gives no manifest", "");
    }
}

static void introduce(struct thrower *thrower) {
    struct wire_introduction introduction = {.keys = thrower->keys.public_keys,
                                             .name = "thrower",
                                             .version = SWARM_PROTOCOL_VERSION,
                                             .manifest = thrower->view.shape.swarm};
    wire_sign_introduction(&thrower->keys, &introduction);
    struct frame frame = {.kind = WIRE_INTRODUCE};
    frame.length = (uint32_t)wire_write_introduction(&introduction, thrower->payload);
    say(thrower, &thrower->targets[0], &frame, thrower->payload);
}

/* A session of the tracker's, so that what is said later passes its first check. */
static void hello(struct thrower *thrower) {
    struct message message = {.kind = MESSAGE_HELLO, .number = dice_word(&thrower->dice)};
    struct frame frame;
    wire_write_message(&thrower->view.shape, &message, 0, &frame, thrower->payload,
                       FRAME_PAYLOAD_MAX);
    say(thrower, &thrower->targets[0], &frame, thrower->payload);
}

static void meet_members(struct thrower *thrower) {
    for (uint32_t i = 0; i < thrower->roster.count; i++) {
        const struct wire_member *member = &thrower->roster.members[i];
        if (member->address[0] != '\0' &&
            memcmp(member->keys.curve, thrower->keys.public_keys.curve, KEY_BYTES) != 0) {
            add_target(thrower, member->keys.curve, member->address);
        }
    }
    (void)wait_for(thrower, all_open, MEMBER_MS);
}

/* Some frames and a ping to everybody who listens still; how many do. */
static uint32_t throw_batch(struct thrower *thrower) {
    uint32_t listening = 0;
    for (uint32_t i = 0; i < thrower->target_count; i++) {
        struct target *target = &thrower->targets[i];
        for (int k = 0; k < BATCH && target->is_open && !target->is_closed; k++) {
            struct frame frame;
            thrown_make(&thrower->view, &thrower->dice, &frame, thrower->payload);
            say(thrower, target, &frame, thrower->payload);
            thrower->frames++;
        }
        if (target->is_open && !target->is_closed) {
            uint8_t payload[WIRE_SMALL_BYTES_MAX];
            struct frame ping = {.kind = WIRE_PING};
            target->pinged++;
            ping.length = (uint32_t)wire_write_ping(target->pinged, payload);
            say(thrower, target, &ping, payload);
            listening++;
        }
    }
    return listening;
}

static void count_batch(struct thrower *thrower, const bool *was_open) {
    for (uint32_t i = 0; i < thrower->target_count; i++) {
        const struct target *target = &thrower->targets[i];
        if (was_open[i]) {
            thrower->confirmed += target->is_closed ? 0 : BATCH;
            thrower->cut_off += target->is_closed;
        }
    }
}

/* All that one key can say. False when it was not let in. */
static bool throw_with_one_key(struct thrower *thrower, uint64_t wanted) {
    if (!begin(thrower)) {
        return false;
    }
    if (!thrower->has_manifest) {
        ask_manifest(thrower);
    }
    introduce(thrower);
    if (!wait_for(thrower, is_let_in, WAIT_MS) || thrower->targets[0].is_closed) {
        return false;
    }
    hello(thrower);
    meet_members(thrower);
    bool was_open[1 + SWARM_MEMBERS_MAX];
    for (int batch = 0; batch < BATCHES_MAX && thrower->confirmed < wanted; batch++) {
        for (uint32_t i = 0; i < thrower->target_count; i++) {
            was_open[i] = thrower->targets[i].is_open && !thrower->targets[i].is_closed;
        }
        if (throw_batch(thrower) == 0) {
            break;
        }
        if (!wait_for(thrower, all_answered, WAIT_MS)) {
            give_up("somebody hears frames but answers no ping", "");
        }
        count_batch(thrower, was_open);
    }
    return true;
}

static void throw_all(struct thrower *thrower, uint64_t wanted) {
    int silent = 0;
    while (thrower->confirmed < wanted) {
        silent = throw_with_one_key(thrower, wanted) ? 0 : silent + 1;
        end(thrower);
        if (silent == SILENT_KEYS_MAX) {
            give_up("nobody lets a new key in any more", "");
        }
    }
    printf("%" PRIu64 " frames heard out of %" PRIu64 ", %" PRIu64 " keys, cut off %" PRIu64
           " times\n",
           thrower->confirmed, thrower->frames, thrower->keys_used, thrower->cut_off);
}

/* Introduces itself too, and says what only members may: for that it is cut off, and might not hear
 * any more why it was refused. */
static void be_a_stranger(struct thrower *thrower) {
    if (!begin(thrower)) {
        give_up("the tracker does not let a stranger in to be told so", "");
    }
    ask_manifest(thrower);
    introduce(thrower);
    if (!wait_for(thrower, was_refused, WAIT_MS)) {
        give_up("the tracker does not say why a stranger is not let in", "");
    }
    hello(thrower);
    for (uint8_t kind = WIRE_STATUS_REQUEST; kind < WIRE_KIND_END; kind++) {
        struct frame frame = {.kind = kind, .length = sizeof(uint64_t)};
        say(thrower, &thrower->targets[0], &frame, &(uint64_t){0});
    }
    (void)wait_for(thrower, never, STRANGER_MS);
    for (int kind = 0; kind < WIRE_KIND_END; kind++) {
        if (thrower->heard[kind] > 0) {
            printf("%d %" PRIu64 "\n", kind, thrower->heard[kind]);
        }
    }
    end(thrower);
}

int main(int argument_count, char **arguments) {
    static struct thrower thrower;
    struct fault fault;
    if (argument_count < 3 || (argument_count != 6 && strcmp(arguments[2], "stranger") != 0)) {
        give_up("usage", "JOIN_STRING FRAMES SEED SLICES MEMBERS_MAX");
    }
    const struct delegation_search_args search = {.timeout_ms = WAIT_MS};
    struct join_string join;
    if (join_string_read(arguments[1], &join, &fault) != OK ||
        delegation_search(&join, &search, &thrower.contact, &fault) != OK) {
        give_up(fault.subject, fault.reason);
    }
    bool is_stranger = argument_count != 6;
    struct wire_shape *shape = &thrower.view.shape;
    shape->slice_count = is_stranger ? 1 : (uint32_t)strtoul(arguments[4], NULL, 10);
    shape->members_max = is_stranger ? 1 : (uint32_t)strtoul(arguments[5], NULL, 10);
    struct region kept = {0};
    wire_arrays_carve(shape, region_alloc(&kept, 1, wire_arrays_size(shape)), &thrower.view.arrays);
    thrower.view.keys = &thrower.keys;
    thrower.pieces.capacity = WIRE_MANIFEST_BYTES_MAX + WIRE_LENGTH_BYTES;
    thrower.pieces.bytes = region_alloc(&kept, 1, thrower.pieces.capacity);
    if (is_stranger) {
        be_a_stranger(&thrower);
    } else {
        thrower.dice.key = random_key(strtoull(arguments[3], NULL, 10), "frames");
        throw_all(&thrower, strtoull(arguments[2], NULL, 10));
    }
    region_finish(&kept);
    return 0;
}
