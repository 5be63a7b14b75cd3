#include "base/clock.h"
#include "base/log.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/protocol/tracker.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"

#include <poll.h>
#include <string.h>

enum {
    TICK_MS = 50,     /* at most between two polls of the allow-list and of the probes ... */
    BUSY_TICK_MS = 5, /* ... and while an answer from the ledger is due */
    DRAIN_FRAMES_MAX =
        65536,       /* frames between two ticks: a flood delays deadlines no further ... */
    DRAIN_MS = 1000, /* ... nor does the time that they cost */
    LINGER_MS = 500,
    GUESTS_MAX = 128,            /* connections besides those of a full swarm's members, ... */
    STRANGERS_MAX = 96,          /* ... and of those, from keys that are not on the allow-list */
    STRANGER_SLOT_MS = 5 * 1000, /* a stranger has its slot for so long, then others may take it */
    GUEST_IDLE_MS = 20 * 1000,   /* until a guest is disconnected that sends nothing useful */
};

int64_t tracker_now_ms(void) {
    return clock_monotonic_ms();
}

#define BOTH(name) "before " name, "after " name

/* Two of each enum crash_point_id, in its order. Tests pass these names. */
static const char *const CRASH_POINT_NAMES[] = {BOTH("write session"), BOTH("write known"),
                                                BOTH("write open"),    BOTH("write table"),
                                                BOTH("write commit"),  BOTH("write abort"),
                                                BOTH("send welcome"),  BOTH("send entry"),
                                                BOTH("send table"),    BOTH("send ask"),
                                                BOTH("send propose"),  BOTH("send goodbye"),
                                                BOTH("send roster"),   NULL};
_Static_assert(ARRAY_COUNT(CRASH_POINT_NAMES) == 2 * CRASH_POINTS + 1,
               "each crash point has two names");

const char *const *tracker_crash_points(void) {
    return CRASH_POINT_NAMES;
}

void crash_point(struct tracker_loop *loop, enum crash_moment moment, enum crash_point_id id) {
    if (loop->options.on_crash_point != NULL) {
        loop->options.on_crash_point(loop->options.crash_point_context,
                                     CRASH_POINT_NAMES[2 * id + moment]);
    }
}

struct wire_shape tracker_wire_shape(const struct tracker_loop_options *options) {
    return (struct wire_shape){.slice_count = options->settings.slice_count,
                               .members_max = options->members_max,
                               .swarm = options->manifest_hash};
}

static struct messenger_options messenger_options_of(struct tracker_loop *loop) {
    const struct tracker_loop_options *options = &loop->options;
    const uint32_t peers = options->members_max + GUESTS_MAX;
    struct messenger_options made = {.keys = options->keys,
                                     .listen = options->listen,
                                     .peers_max = peers,
                                     .bulk_connections = 0,
                                     .queued_frames = options->queued_frames,
                                     .guests = {.slots = {[GUEST_STRANGER] = options->strangers_max,
                                                          [GUEST_LISTED] = GUESTS_MAX,
                                                          [GUEST_MEMBER] = peers},
                                                .evict_after_ms = STRANGER_SLOT_MS,
                                                .class_of = guest_class_of,
                                                .context = loop}};
    wire_allowed_kinds(WIRE_TRACKER, made.accepted_kinds);
    return made;
}

uint64_t tracker_loop_bytes(const struct tracker_loop_options *options) {
    const struct wire_shape shape = tracker_wire_shape(options);
    return sizeof(struct tracker_loop) + sizeof(struct member_table) +
           sizeof(struct allow_list_watch) + machine_driver_bytes(&options->settings) +
           guest_table_bytes(options->members_max + GUESTS_MAX) + document_table_bytes(options) +
           ledger_server_bytes(shape.slice_count) + wire_arrays_size(&shape) + FRAME_PAYLOAD_MAX;
}

static void bind_tables(struct tracker_loop *loop, struct region *region) {
    loop->members = region_alloc(region, 1, sizeof *loop->members);
    loop->guests = guest_table_init(loop->options.members_max + GUESTS_MAX, region);
    loop->documents = document_table_init(&loop->options, region);
    loop->ledger = ledger_server_init(loop->shape.slice_count, region);
    loop->scratch = region_alloc(region, FRAME_PAYLOAD_MAX, 1);
    wire_arrays_bind(&loop->shape, region_alloc(region, wire_arrays_size(&loop->shape), 1),
                     &loop->arrays);
}

static enum status open_driver(struct tracker_loop *loop, struct region *region,
                               struct fault *fault) {
    const struct durable_options options = {.path = loop->options.store_path,
                                            .keys = loop->options.keys,
                                            .slice_count = loop->shape.slice_count,
                                            .manifest = loop->options.manifest_hash,
                                            .root = loop->options.genesis_root};
    return machine_driver_open(&options, &loop->options.settings, region, &loop->driver, fault);
}

static struct tracker_loop *make_loop(const struct tracker_loop_options *options,
                                      struct region *region) {
    struct tracker_loop *loop = region_alloc(region, 1, sizeof *loop);
    loop->options = *options;
    loop->options.idle_ms = options->idle_ms > 0 ? options->idle_ms : GUEST_IDLE_MS;
    loop->options.strangers_max =
        options->strangers_max > 0 ? options->strangers_max : STRANGERS_MAX;
    loop->shape = tracker_wire_shape(options);
    loop->timing = options->settings.timing;
    loop->started_ms = tracker_now_ms();
    loop->received_ms = loop->started_ms;
    loop->started_unix_s = clock_unix_s();
    return loop;
}

enum status tracker_loop_open(const struct tracker_loop_options *options, struct region *region,
                              struct tracker_loop **loop, struct fault *fault) {
    ASSERT(options->manifest_bytes <= MANIFEST_BYTES_MAX);
    ASSERT(options->members_max >= 1 && options->members_max <= SWARM_MEMBERS_MAX);
    struct tracker_loop *opened = make_loop(options, region);
    const struct messenger_options channels = messenger_options_of(opened);
    TRY(allow_list_watch_open(options->allow_list_path, region, &opened->watch, fault));
    bind_tables(opened, region);
    TRY(open_driver(opened, region, fault));
    enum status status = address_book_restore(opened, fault);
    if (status == OK) {
        status = messenger_open(&channels, region, &opened->messenger, fault);
    }
    if (status != OK) {
        machine_driver_close(opened->driver);
        return status;
    }
    admission_review_all(opened);
    *loop = opened;
    return OK;
}

uint16_t tracker_loop_port(const struct tracker_loop *loop) {
    return messenger_port(loop->messenger);
}

/* Sends changed deadlines to all members, and logs what they were derived from. */
static void announce_timing(struct tracker_loop *loop) {
    struct tracker_view view;
    const struct swarm_timing *timing = tracker_timing(loop->driver->tracker);
    if (memcmp(timing, &loop->timing, sizeof *timing) == 0) {
        return;
    }
    tracker_read_view(loop->driver->tracker, &view);
    loop->timing = *timing;
    member_table_mark_changed(loop->members);
    log_line(LOG_INFO, "deadlines: %s", view.derivation);
}

static void tick(struct tracker_loop *loop, int64_t now_ms) {
    const struct event ticked = {.kind = EVENT_TICK};
    loop->tick_ms = now_ms + loop->timing.heartbeat_ms;
    machine_driver_retry(loop, now_ms);
    machine_driver_step(loop, &ticked);
    announce_timing(loop);
}

/* A process that did not run for a while received nothing during that time: members are not to
 * blame for it. */
static void forgive_gap(struct tracker_loop *loop) {
    const int64_t now_ms = tracker_now_ms();
    const int64_t gap_ms = now_ms - loop->received_ms;
    ASSERT(gap_ms >= 0);
    if (gap_ms > DRAIN_MS) {
        member_table_forgive(loop->members, gap_ms);
    }
    loop->received_ms = now_ms;
}

static void handle_event(struct tracker_loop *loop, const struct messenger_event *event) {
    struct tracker_guest *guest;
    switch (event->kind) {
    case MESSENGER_OPENED:
        guest_on_connect(loop, event);
        break;
    case MESSENGER_CLOSED:
        guest_on_disconnect(loop, event->curve);
        break;
    case MESSENGER_FRAME:
        guest = guest_find_or_add(loop->guests, event->curve, tracker_now_ms());
        if (guest != NULL) {
            tracker_loop_receive(loop, guest, event);
        }
        break;
    default:
        break; /* the others concern processes that open connections; a tracker opens none */
    }
}

/* Handles all that has arrived, before any deadline is checked. */
static void drain(struct tracker_loop *loop) {
    struct messenger_event event;
    const int64_t until_ms = tracker_now_ms() + DRAIN_MS;
    for (int i = 0; i < DRAIN_FRAMES_MAX && tracker_now_ms() < until_ms &&
                    !loop->driver->is_fenced && messenger_next(loop->messenger, &event);
         i++) {
        handle_event(loop, &event);
    }
}

static bool is_asked_to_stop(const struct tracker_loop *loop) {
    struct pollfd stop = {.fd = loop->options.stop_fd, .events = POLLIN};
    return loop->options.stop_fd >= 0 && poll(&stop, 1, 0) > 0;
}

static int wait_ms(const struct tracker_loop *loop) {
    const int64_t left_ms = loop->tick_ms - tracker_now_ms();
    const int max_ms = ledger_server_is_busy(loop) ? BUSY_TICK_MS : TICK_MS;
    return left_ms < 0 ? 0 : left_ms > max_ms ? max_ms : (int)left_ms;
}

static void run_due(struct tracker_loop *loop) {
    const int64_t now_ms = tracker_now_ms();
    if (allow_list_watch_poll(loop->watch, now_ms)) {
        messenger_reclassify(loop->messenger);
        admission_review_all(loop);
    }
    admission_disconnect_idle(loop, now_ms);
    reachability_run_due(loop, now_ms);
    address_book_run_due(loop);
    if (now_ms >= loop->tick_ms) {
        tick(loop, now_ms);
    }
}

enum status tracker_loop_run(struct tracker_loop *loop, struct fault *fault) {
    while (!is_asked_to_stop(loop) && !loop->driver->is_fenced) {
        messenger_wait(loop->messenger, loop->options.stop_fd, wait_ms(loop));
        forgive_gap(loop);
        drain(loop);
        tracker_loop_pump_documents(loop);
        ledger_server_run(loop);
        run_due(loop);
    }
    if (loop->driver->is_fenced) {
        return fault_set(fault, STATUS_FAILED, loop->options.store_path,
                         "leave that one running, or stop it and start this one again",
                         "another tracker of this swarm has taken over: %s",
                         loop->driver->fault.reason);
    }
    return OK;
}

void tracker_loop_close(struct tracker_loop *loop) {
    for (uint32_t row = 0; row < loop->members->count; row++) {
        member_probe_end(&loop->members->rows[row].probe);
    }
    messenger_close(loop->messenger, LINGER_MS);
    machine_driver_close(loop->driver);
}
