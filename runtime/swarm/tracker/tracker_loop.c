#include "runtime/swarm/tracker/tracker.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/protocol/tracker_view.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"

#include <poll.h>
#include <string.h>

enum {
    TICK_MS = 50,             /* at most between two looks at roster and sockets of our own */
    COMPLAINT_MS = 60 * 1000, /* between two lines about a store that cannot be written */
    SERVE_MS = 5,             /* the same while an answer is due */
    LINGER_MS = 500,
};

int64_t tracker_now_ms(void) {
    return clock_monotonic_ns() / 1000000;
}

#define BOTH(name) "before " name, "after " name

/* Two of each enum crash_point_id, in its order. */
static const char *const PLACES[] = {BOTH("write session"), BOTH("write known"),
                                     BOTH("write open"),    BOTH("write table"),
                                     BOTH("write commit"),  BOTH("write abort"),
                                     BOTH("send welcome"),  BOTH("send entry"),
                                     BOTH("send table"),    BOTH("send ask"),
                                     BOTH("send propose"),  BOTH("send goodbye"),
                                     BOTH("send roster"),   NULL};
_Static_assert(ARRAY_COUNT(PLACES) == 2 * HOST_PLACES + 1, "every place has its two names");

const char *const *tracker_crash_points(void) {
    return PLACES;
}

void crash_point(struct tracker_loop *loop, enum crash_moment moment, enum crash_point_id place) {
    if (loop->options.reached != NULL) {
        loop->options.reached(loop->options.reached_context, PLACES[2 * place + moment]);
    }
}

static struct wire_shape shape_of(const struct tracker_loop_options *options) {
    return (struct wire_shape){.slice_count = options->settings.slice_count,
                               .members_max = options->members_max,
                               .swarm = options->manifest_hash};
}

static size_t document_capacity(const struct tracker_loop_options *options,
                                enum document document) {
    const struct wire_shape shape = shape_of(options);
    switch (document) {
    case DOCUMENT_MANIFEST:
        return WIRE_LENGTH_BYTES + options->manifest_bytes;
    case DOCUMENT_STATUS:
        return WIRE_LENGTH_BYTES + WIRE_STATUS_MAX;
    default:
        return wire_payload_max(&shape);
    }
}

static struct messenger_options messenger_options_of(const struct tracker_loop_options *options) {
    const uint32_t strangers = options->strangers_max > 0 ? options->strangers_max : STRANGERS_MAX;
    const uint32_t peers = options->members_max + GUESTS_MAX;
    struct messenger_options made = {
        .keys = options->keys,
        .listen = options->listen,
        .peers_max = peers,
        .bulk_connections = 0,
        .queued_frames = options->queued_frames,
        .guests = {
            .slots =
                {[GUEST_STRANGER] = strangers, [GUEST_LISTED] = GUESTS_MAX, [GUEST_MEMBER] = peers},
            .evict_after_ms = STRANGER_SLOT_MS}};
    wire_allowed_kinds(WIRE_TRACKER, made.known);
    return made;
}

uint64_t tracker_loop_declared(const struct tracker_loop_options *options) {
    const struct messenger_options made = messenger_options_of(options);
    return messenger_memory_bytes(&made);
}

/* A record's arrays, four of them. */
static uint64_t record_bytes(uint64_t slices) {
    return slices * (2 * sizeof(struct entry_slice) + sizeof(struct slice_plan) +
                     SWARM_MEMBERS_MAX * sizeof(struct hash));
}

uint64_t tracker_loop_bytes(const struct tracker_loop_options *options) {
    const struct wire_shape shape = shape_of(options);
    uint64_t slices = options->settings.slice_count;
    uint64_t bytes = sizeof(struct tracker_loop) + tracker_bytes(&options->settings) +
                     wire_arrays_bytes(&shape) + FRAME_PAYLOAD_MAX + record_bytes(slices) +
                     (options->members_max + GUESTS_MAX) * sizeof(struct tracker_guest) +
                     ACTIONS_MAX * sizeof(struct action) + 2 * slices * sizeof(struct entry_slice);
    for (int document = 0; document < DOCUMENTS; document++) {
        bytes += document_capacity(options, (enum document)document);
    }
    return bytes;
}

static void bind_documents(struct tracker_loop *loop, struct region *region) {
    for (int i = 0; i < DOCUMENTS; i++) {
        struct document_buffer *document = &loop->documents[i];
        document->capacity = document_capacity(&loop->options, (enum document)i);
        document->bytes = region_alloc(region, document->capacity, 1);
    }
    struct document_buffer *manifest = &loop->documents[DOCUMENT_MANIFEST];
    manifest->count = manifest->capacity;
    manifest->generation = 1;
    wire_put_length(manifest->bytes, manifest->count);
    memcpy(manifest->bytes + WIRE_LENGTH_BYTES, loop->options.manifest,
           loop->options.manifest_bytes);
}

static void bind_tables(struct tracker_loop *loop, struct region *region) {
    const uint32_t slices = loop->shape.slice_count;
    loop->peers_max = loop->options.members_max + GUESTS_MAX;
    loop->peers = region_alloc(region, loop->peers_max, sizeof *loop->peers);
    loop->scratch = region_alloc(region, FRAME_PAYLOAD_MAX, 1);
    loop->open.slices = region_alloc(region, slices, sizeof *loop->open.slices);
    loop->served.slices = region_alloc(region, slices, sizeof *loop->served.slices);
    loop->actions.rows = region_alloc(region, ACTIONS_MAX, sizeof *loop->actions.rows);
    loop->actions.capacity = ACTIONS_MAX;
    wire_arrays_bind(&loop->shape, region_alloc(region, wire_arrays_bytes(&loop->shape), 1),
                     &loop->arrays);
    for (int row = 0; row < SWARM_MEMBERS_MAX; row++) {
        loop->members[row].reach.fd = -1;
    }
    bind_documents(loop, region);
}

static enum status open_store(struct tracker_loop *loop, struct region *region,
                              struct fault *fault) {
    const struct durable_options options = {.path = loop->options.store_path,
                                            .keys = loop->options.keys,
                                            .slice_count = loop->shape.slice_count,
                                            .manifest = loop->options.manifest_hash,
                                            .root = loop->options.genesis_root};
    const uint32_t slices = loop->shape.slice_count;
    struct tracker_record *record = region_alloc(region, 1, sizeof *record);
    record->head.slices = region_alloc(region, slices, sizeof *record->head.slices);
    record->commit.slices = region_alloc(region, slices, sizeof *record->commit.slices);
    record->table.slices = region_alloc(region, slices, sizeof *record->table.slices);
    record->table.hashes =
        region_alloc(region, (size_t)SWARM_MEMBERS_MAX * slices, sizeof *record->table.hashes);
    enum status status = tracker_durable_open(&options, region, &loop->durable, record, fault);
    if (status != OK) {
        return status;
    }
    status = address_book_restore(loop, fault);
    if (status != OK) {
        tracker_durable_close(&loop->durable);
        return status;
    }
    entry_copy(&loop->open, &record->head);
    void *memory = region_alloc(region, tracker_bytes(&loop->options.settings), 1);
    loop->machine = tracker_init(memory, &loop->options.settings, record, tracker_now_ms());
    status = tracker_durable_past(&loop->durable, loop->machine, fault);
    if (status != OK) {
        tracker_durable_close(&loop->durable);
    }
    return status;
}

enum status tracker_loop_open(const struct tracker_loop_options *options, struct region *region,
                              struct tracker_loop **loop, struct fault *fault) {
    ASSERT(options->manifest_bytes <= MANIFEST_BYTES_MAX);
    ASSERT(options->members_max >= 1 && options->members_max <= SWARM_MEMBERS_MAX);
    struct messenger_options channels = messenger_options_of(options);
    struct tracker_loop *opened = region_alloc(region, 1, sizeof *opened);
    channels.guests.class_of = guest_class_of;
    channels.guests.context = opened;
    opened->options = *options;
    opened->options.idle_ms = options->idle_ms > 0 ? options->idle_ms : GUEST_IDLE_MS;
    opened->shape = shape_of(options);
    opened->known_is_durable = true;
    opened->timing = options->settings.timing;
    opened->started_ms = tracker_now_ms();
    opened->passed_ms = opened->started_ms;
    opened->started_unix_s = clock_unix_s();
    enum status status = allow_list_read(options->roster_path, &opened->roster, fault);
    if (status != OK) {
        return status;
    }
    bind_tables(opened, region);
    status = open_store(opened, region, fault);
    if (status != OK) {
        return status;
    }
    status = messenger_open(&channels, region, &opened->messenger, fault);
    if (status != OK) {
        tracker_durable_close(&opened->durable);
        return status;
    }
    admission_review_all(opened);
    *loop = opened;
    return OK;
}

uint16_t tracker_loop_port(const struct tracker_loop *loop) {
    return messenger_port(loop->messenger);
}

static enum crash_point_id place_of_write(const struct action *action) {
    if (action->entry == NULL) {
        return (action->parts & RECORD_SESSIONS) != 0 ? PLACE_WRITE_SESSION : PLACE_WRITE_TABLE;
    }
    switch (action->entry->kind) {
    case ENTRY_OPEN:
        return PLACE_WRITE_OPEN;
    case ENTRY_COMMIT:
        return PLACE_WRITE_COMMIT;
    default:
        return PLACE_WRITE_ABORT;
    }
}

static void say_entry(const struct entry *entry) {
    char root[HASH_HEX_BYTES];
    hash_hex(&entry->root, root);
    switch (entry->kind) {
    case ENTRY_OPEN:
        log_line(LOG_INFO, "round %u: %u members, %u ms to train", entry->round, entry->seat_count,
                 entry->deadline_ms);
        break;
    case ENTRY_COMMIT:
        log_line(LOG_INFO, "round %u committed by %u of %u members, commit %u, root %.16s",
                 entry->round, entry->signature_count, entry->seat_count, entry->commits, root);
        break;
    case ENTRY_ABORT:
        log_line(LOG_WARNING, "round %u ended without a result; its samples are kept",
                 entry->round);
        break;
    default:
        log_line(LOG_WARNING, "back to root %.16s: nobody has a later state", root);
    }
}

static void complain(struct tracker_loop *loop, int64_t now_ms) {
    if (loop->complained_ms == 0 || now_ms - loop->complained_ms >= COMPLAINT_MS) {
        loop->complained_ms = now_ms;
        log_line(LOG_ERROR, "%s: %s; %s; tried again every %d s", loop->fault.place,
                 loop->fault.reason,
                 loop->fault.remedy[0] != '\0' ? loop->fault.remedy : "nothing was lost",
                 HOST_RETRY_MS / 1000);
    }
}

/* Makes it durable. False when the machine must not be told yet: a write that failed is tried again
 * after a while, not at once and without end. */
static bool write_down(struct tracker_loop *loop, const struct action *action,
                       struct event *event) {
    const enum crash_point_id place = place_of_write(action);
    crash_point(loop, CRASH_BEFORE, place);
    tracker_durable_write(&loop->durable, action, event, &loop->fault);
    if (event->written == WRITE_FAILED) {
        complain(loop, tracker_now_ms());
        loop->is_retrying = true;
        loop->retry_ms = tracker_now_ms() + HOST_RETRY_MS;
        return false;
    }
    loop->is_fenced |= event->written == WRITE_FENCED;
    loop->complained_ms = 0;
    if (event->written == WRITE_OK && action->entry != NULL) {
        entry_copy(&loop->open, &loop->durable.entry);
        say_entry(&loop->open);
    }
    crash_point(loop, CRASH_AFTER, place);
    return true;
}

/* How long each stage of a round took, for who wants to know where the time goes. */
static void say_stage(struct tracker_loop *loop) {
    const char *stage = tracker_stage_name(loop->machine);
    if (stage == loop->stage) {
        return;
    }
    int64_t now_ms = tracker_now_ms();
    if (loop->stage != NULL) {
        log_line(LOG_DEBUG, "round %u: %s took %lld ms, now %s", loop->open.round, loop->stage,
                 (long long)(now_ms - loop->stage_ms), stage);
    }
    loop->stage = stage;
    loop->stage_ms = now_ms;
}

void tracker_loop_step(struct tracker_loop *loop, const struct event *event) {
    struct event written;
    while (event != NULL && !loop->is_fenced) {
        const struct action *write = NULL;
        loop->actions.count = 0;
        tracker_step(loop->machine, event, tracker_now_ms(), &loop->actions);
        for (uint32_t i = 0; i < loop->actions.count; i++) {
            const struct action *action = &loop->actions.rows[i];
            if (action->kind == ACTION_SEND) {
                tracker_loop_send_action(loop, action);
            } else {
                ASSERT(action->kind == ACTION_WRITE && write == NULL);
                write = action;
            }
        }
        event = write != NULL && write_down(loop, write, &written) ? &written : NULL;
        say_stage(loop);
    }
}

/* Every deadline that changed, with what it follows from. */
static void announce_timing(struct tracker_loop *loop) {
    struct tracker_view view;
    const struct swarm_timing *timing = tracker_timing(loop->machine);
    if (memcmp(timing, &loop->timing, sizeof *timing) == 0) {
        return;
    }
    tracker_read_view(loop->machine, &view);
    loop->timing = *timing;
    loop->known.version++;
    loop->known_is_durable = false;
    log_line(LOG_INFO, "deadlines: %s", view.derivation);
}

static void tick(struct tracker_loop *loop, int64_t now_ms) {
    const struct event ticked = {.kind = EVENT_TICK};
    const struct event failed = {.kind = EVENT_WRITTEN, .written = WRITE_FAILED};
    loop->tick_ms = now_ms + loop->timing.heartbeat_ms;
    if (loop->is_retrying && now_ms >= loop->retry_ms) {
        loop->is_retrying = false;
        tracker_loop_step(loop, &failed);
    }
    tracker_loop_step(loop, &ticked);
    announce_timing(loop);
}

/* A process that was stopped has heard nobody meanwhile, and blames nobody for it. */
static void forgive_gap(struct tracker_loop *loop) {
    const int64_t now_ms = tracker_now_ms();
    const int64_t gap_ms = now_ms - loop->passed_ms;
    for (uint32_t row = 0; gap_ms > HOST_DRAIN_MS && row < loop->known.count; row++) {
        loop->members[row].heard_ms += gap_ms;
    }
    loop->passed_ms = now_ms;
}

/* All that has come in, before any deadline is looked at. */
static void drain(struct tracker_loop *loop) {
    struct messenger_event event;
    const int64_t until_ms = tracker_now_ms() + HOST_DRAIN_MS;
    for (int i = 0; i < HOST_DRAIN_MAX && tracker_now_ms() < until_ms &&
                    messenger_next(loop->messenger, &event);
         i++) {
        struct tracker_guest *peer;
        switch (event.kind) {
        case MESSENGER_OPENED:
            guest_opened(loop, &event);
            break;
        case MESSENGER_CLOSED:
            guest_closed(loop, event.curve);
            break;
        case MESSENGER_FRAME:
            peer = guest_find(loop, event.curve);
            if (peer != NULL) {
                tracker_loop_receive(loop, peer, &event);
            }
            break;
        default:
            break; /* refused: only those who dial are */
        }
        if (loop->is_fenced) {
            return;
        }
    }
}

static bool is_asked_to_stop(const struct tracker_loop *loop) {
    struct pollfd wanted = {.fd = loop->options.stop_fd, .events = POLLIN};
    return loop->options.stop_fd >= 0 && poll(&wanted, 1, 0) > 0;
}

static bool is_serving(const struct tracker_loop *loop) {
    bool is_asked = false;
    for (uint32_t i = 0; i < loop->peers_max; i++) {
        is_asked |= loop->peers[i].is_used && loop->peers[i].wants_ledger;
    }
    return is_asked;
}

enum status tracker_loop_run(struct tracker_loop *loop, struct fault *fault) {
    while (!is_asked_to_stop(loop) && !loop->is_fenced) {
        int64_t left_ms = loop->tick_ms - tracker_now_ms();
        int most_ms = is_serving(loop) ? SERVE_MS : TICK_MS;
        int timeout_ms = left_ms < 0 ? 0 : left_ms > most_ms ? most_ms : (int)left_ms;
        messenger_wait(loop->messenger, loop->options.stop_fd, timeout_ms);
        forgive_gap(loop);
        drain(loop);
        tracker_loop_pump_documents(loop);
        tracker_loop_serve_ledger(loop);
        int64_t now_ms = tracker_now_ms();
        admission_run_due(loop, now_ms);
        if (now_ms >= loop->tick_ms) {
            tick(loop, now_ms);
        }
    }
    if (loop->is_fenced) {
        return fault_set(fault, STATUS_FAILED, loop->options.store_path,
                         "let that one go on, or end it and start this one again",
                         "another tracker of this swarm has taken over: %s", loop->fault.reason);
    }
    return OK;
}

void tracker_loop_close(struct tracker_loop *loop) {
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        connect_probe_end(&loop->members[row].reach);
    }
    messenger_close(loop->messenger, LINGER_MS);
    tracker_durable_close(&loop->durable);
}
