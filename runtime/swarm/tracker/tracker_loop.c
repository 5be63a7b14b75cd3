#include "base/clock.h"
#include "base/log.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "runtime/swarm/tracker_machine/tracker_machine.h"

#include <math.h>
#include <poll.h>
#include <string.h>

enum {
    WAIT_MAX_MS = 50, /* longest wait for frames; allow-list and probes are polled between waits */
    BUSY_WAIT_MAX_MS = 5,        /* longest wait for frames while a ledger query is not answered */
    INCOMING_FRAMES_MAX = 65536, /* maximum frames handled before deadlines are checked again */
    INCOMING_MAX_MS = 1000, /* longest time to handle frames before deadlines are checked again */
    LINGER_MS = 500,        /* time to send queued frames before the sockets close */
    GUESTS_MAX = 128,       /* maximum connections of guests that are not members */
    STRANGERS_MAX = 96, /* maximum connections of strangers, unless options.strangers_max is set */
    STRANGER_SLOT_MS = 5 * 1000, /* after this time, another guest may evict a stranger */
    /* time after which an idle guest is disconnected, unless options.idle_ms is set */
    GUEST_IDLE_MS = 20 * 1000,
};

int64_t tracker_now_ms(void) {
    return clock_monotonic_ms();
}

#define BEFORE_AND_AFTER(name) "before " name, "after " name

/* Two names for each enum crash_point_id, in its order. Tests select a crash point by these
 * names. */
static const char *const CRASH_POINT_NAMES[] = {
    BEFORE_AND_AFTER("write session"), BEFORE_AND_AFTER("write known"),
    BEFORE_AND_AFTER("write open"),    BEFORE_AND_AFTER("write table"),
    BEFORE_AND_AFTER("write commit"),  BEFORE_AND_AFTER("write abort"),
    BEFORE_AND_AFTER("send welcome"),  BEFORE_AND_AFTER("send entry"),
    BEFORE_AND_AFTER("send table"),    BEFORE_AND_AFTER("send ask"),
    BEFORE_AND_AFTER("send propose"),  BEFORE_AND_AFTER("send goodbye"),
    BEFORE_AND_AFTER("send roster"),   NULL};
_Static_assert(ARRAY_COUNT(CRASH_POINT_NAMES) == 2 * CRASH_POINT_COUNT + 1,
               "each crash point has two names");

const char *const *tracker_crash_points(void) {
    return CRASH_POINT_NAMES;
}

void reach_crash_point(struct tracker_loop *loop, enum crash_moment moment,
                       enum crash_point_id id) {
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

static struct messenger_options make_messenger_options(struct tracker_loop *loop) {
    const struct tracker_loop_options *options = &loop->options;
    const uint32_t peers = options->members_max + GUESTS_MAX;
    struct messenger_options made = {
        .keys = options->keys,
        .listen = options->listen,
        .peers_max = peers,
        .bulk_connections = 0,
        .probes_max = options->members_max + GUEST_PROBES_MAX,
        .queued_frames = options->queued_frames,
        .guests = {.slots = {[PROCESS_STRANGER] = options->strangers_max,
                             [PROCESS_LISTED] = GUESTS_MAX,
                             [PROCESS_MEMBER] = peers},
                   .evict_after_ms = STRANGER_SLOT_MS,
                   .class_of = classify_process,
                   .context = loop}};
    wire_accepted_kinds(WIRE_TRACKER, made.accepted_kinds);
    return made;
}

uint64_t tracker_loop_bytes(const struct tracker_loop_options *options) {
    const struct wire_shape shape = tracker_wire_shape(options);
    return sizeof(struct tracker_loop) + sizeof(struct member_table) +
           sizeof(struct allow_list_watch) + machine_driver_bytes(&options->settings) +
           guest_table_bytes(options->members_max + GUESTS_MAX) + document_table_bytes(options) +
           ledger_server_bytes(shape.slice_count) + wire_arrays_size(&shape) + FRAME_PAYLOAD_MAX +
           delegation_server_bytes();
}

static void alloc_tables(struct tracker_loop *loop, struct region *region) {
    loop->members = region_alloc(region, 1, sizeof *loop->members);
    loop->guests = guest_table_init(loop->options.members_max + GUESTS_MAX, region);
    loop->documents = document_table_init(&loop->options, region);
    loop->ledger_server = ledger_server_init(loop->shape.slice_count, region);
    loop->scratch = region_alloc(region, FRAME_PAYLOAD_MAX, 1);
    wire_arrays_carve(&loop->shape, region_alloc(region, wire_arrays_size(&loop->shape), 1),
                      &loop->arrays);
}

static enum status open_state_machine(struct tracker_loop *loop, struct region *region,
                                      struct fault *fault) {
    const struct durable_options options = {
        .path = loop->options.store_path,
        .keys = loop->options.keys,
        .slice_count = loop->shape.slice_count,
        .manifest = loop->options.manifest_hash,
        .root = loop->options.genesis_root,
        .needs_leases = loop->options.needs_leases,
        .delegation =
            loop->options.delegation == NULL ? NULL : &loop->options.delegation->delegation};
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
    loop->timing = timing_derive(&options->settings.times, options->settings.training.patience);
    loop->order_watch.path = options->order_path;
    loop->continue_watch.path = options->continue_path;
    loop->delegation.file.path = options->delegation_path;
    loop->started_ms = tracker_now_ms();
    loop->received_ms = loop->started_ms;
    loop->started_unix_s = clock_unix_s();
    return loop;
}

static enum status open_delegation_server(struct tracker_loop *loop, struct region *region,
                                          struct fault *fault) {
    const struct tracker_loop_options *options = &loop->options;
    if (options->delegation == NULL) {
        return OK;
    }
    TRY(delegation_server_open(options->listen, region, &loop->delegation_server, fault));
    delegation_server_set_delegation(loop->delegation_server, options->delegation);
    return OK;
}

static void close_delegation_server(struct tracker_loop *loop) {
    if (loop->delegation_server != NULL) {
        delegation_server_close(loop->delegation_server);
    }
}

/* Passes the operator's newest roster epoch to the state machine, unless the ledger has it. */
static void pass_roster_epoch(struct tracker_loop *loop) {
    const struct roster_epoch *epoch = &loop->watch->epoch;
    if (epoch->serial > loop->driver->durable.chain.roster_epoch.serial &&
        epoch->serial > loop->roster_serial) {
        loop->roster_serial = epoch->serial;
        tracker_queue_roster_epoch(loop->driver->tracker, epoch);
    }
}

enum status tracker_loop_open(const struct tracker_loop_options *options, struct region *region,
                              struct tracker_loop **loop, struct fault *fault) {
    ASSERT(options->manifest_bytes <= MANIFEST_BYTES_MAX);
    ASSERT(options->members_max >= 1 && options->members_max <= SWARM_MEMBERS_MAX);
    struct tracker_loop *opened = make_loop(options, region);
    const struct messenger_options channels = make_messenger_options(opened);
    TRY(allow_list_watch_open(options->allow_list_path, options->authority, region, &opened->watch,
                              fault));
    alloc_tables(opened, region);
    TRY(open_state_machine(opened, region, fault));
    allow_list_watch_use_epoch(opened->watch, &opened->driver->durable.chain.roster_epoch);
    enum status status = allow_list_watch_check_epoch(opened->watch, fault);
    if (status == OK) {
        status = address_book_restore(opened, fault);
    }
    if (status == OK) {
        status = open_delegation_server(opened, region, fault);
    }
    if (status == OK) {
        status = messenger_open(&channels, region, &opened->messenger, fault);
    }
    if (status != OK) {
        close_delegation_server(opened);
        machine_driver_close(opened->driver);
        return status;
    }
    delegation_watch_open(opened);
    admission_review_all(opened);
    pass_roster_epoch(opened);
    *loop = opened;
    return OK;
}

uint16_t tracker_loop_port(const struct tracker_loop *loop) {
    return messenger_port(loop->messenger);
}

/* Whether a deadline differs by more than a tenth from the one that was logged last. */
static bool is_timing_worth_logging(const struct swarm_timing *timing,
                                    const struct swarm_timing *logged) {
    const uint32_t now[] = {timing->heartbeat_ms, timing->silence_ms, timing->train_ms,
                            timing->exchange_ms, timing->round_ms};
    const uint32_t before[] = {logged->heartbeat_ms, logged->silence_ms, logged->train_ms,
                               logged->exchange_ms, logged->round_ms};
    bool is_timing_worth_logging = false;
    for (size_t i = 0; i < ARRAY_COUNT(now); i++) {
        const double difference = (double)now[i] - (double)before[i];
        is_timing_worth_logging |= fabs(difference) > 0.1 * (double)before[i];
    }
    return is_timing_worth_logging;
}

/* If the deadlines have changed, sends them to all members with the address book, and logs how they
 * were derived if one of them has changed much. */
static void announce_timing(struct tracker_loop *loop) {
    struct tracker_view view;
    const struct swarm_timing *timing = tracker_timing(loop->driver->tracker);
    if (memcmp(timing, &loop->timing, sizeof *timing) == 0) {
        return;
    }
    tracker_read_view(loop->driver->tracker, &view);
    loop->timing = *timing;
    member_table_mark_changed(loop->members);
    const bool is_logged = is_timing_worth_logging(timing, &loop->logged_timing);
    log_line(is_logged ? LOG_INFO : LOG_DEBUG, "deadlines: %s", view.derivation);
    loop->logged_timing = is_logged ? *timing : loop->logged_timing;
}

static void run_tick(struct tracker_loop *loop, int64_t now_ms) {
    const struct event ticked = {.kind = EVENT_TICK};
    loop->tick_ms = now_ms + loop->timing.heartbeat_ms;
    machine_driver_retry_write(loop, now_ms);
    machine_driver_step(loop, &ticked);
    announce_timing(loop);
}

/* If this process did not run for a while, excludes that time from the members' silence, because it
 * could not receive their messages. */
static void exclude_pause(struct tracker_loop *loop) {
    const int64_t now_ms = tracker_now_ms();
    const int64_t gap_ms = now_ms - loop->received_ms;
    ASSERT(gap_ms >= 0);
    if (gap_ms > INCOMING_MAX_MS) {
        member_table_shift_received_times(loop->members, gap_ms);
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
        break; /* the other events concern outgoing connections, which a tracker never opens */
    }
}

/* Handles all frames that have arrived, before any deadline is checked. */
static void handle_incoming(struct tracker_loop *loop) {
    struct messenger_event event;
    const int64_t until_ms = tracker_now_ms() + INCOMING_MAX_MS;
    for (int i = 0; i < INCOMING_FRAMES_MAX && tracker_now_ms() < until_ms &&
                    !loop->driver->is_fenced && messenger_next_event(loop->messenger, &event);
         i++) {
        handle_event(loop, &event);
    }
}

static bool is_stop_requested(const struct tracker_loop *loop) {
    struct pollfd stop = {.fd = loop->options.stop_fd, .events = POLLIN};
    return loop->options.stop_fd >= 0 && poll(&stop, 1, 0) > 0;
}

static int next_wait_ms(const struct tracker_loop *loop) {
    const int64_t left_ms = loop->tick_ms - tracker_now_ms();
    const int max_ms = ledger_server_has_query(loop) ? BUSY_WAIT_MAX_MS : WAIT_MAX_MS;
    return left_ms < 0 ? 0 : left_ms > max_ms ? max_ms : (int)left_ms;
}

/* Reads a new order of the operator, and passes it to the state machine if it is valid. */
static void read_rollback_order(struct tracker_loop *loop) {
    const struct tracker_loop_options *options = &loop->options;
    struct rollback_file file;
    struct fault fault;
    char root[HASH_HEX_BYTES];
    if (rollback_file_read(options->order_path, &file, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; the order is ignored", fault.subject, fault.reason);
    } else if (!hash_equal(&file.swarm, &options->manifest_hash) ||
               !rollback_order_is_signed(options->operator_keys.sign, &file.swarm, &file.root,
                                         &file.order)) {
        log_line(LOG_WARNING,
                 "%s: the operator of this swarm did not sign the order; it is ignored",
                 options->order_path);
    } else if (!tracker_order_rollback(loop->driver->tracker, &file.root, &file.order)) {
        log_line(LOG_INFO,
                 "%s: the order was carried out before, or is for states that the ledger no longer "
                 "has; it is ignored",
                 options->order_path);
    } else {
        log_line(LOG_WARNING,
                 "the operator ordered a rollback to root %.16s; it happens once a connected "
                 "member has that state",
                 hash_hex(&file.root, root));
    }
}

static void run_due_work(struct tracker_loop *loop) {
    const int64_t now_ms = tracker_now_ms();
    if (allow_list_watch_poll(loop->watch, now_ms)) {
        messenger_reclassify_guests(loop->messenger);
        admission_review_all(loop);
        pass_roster_epoch(loop);
    }
    if (loop->options.order_path != NULL && file_watch_poll(&loop->order_watch, now_ms)) {
        read_rollback_order(loop);
    }
    if (loop->options.continue_path != NULL && file_watch_poll(&loop->continue_watch, now_ms)) {
        machine_driver_read_continue_order(loop);
    }
    delegation_watch_run(loop, now_ms);
    admission_disconnect_idle(loop, now_ms);
    admission_log_strangers(loop, now_ms);
    reachability_advance_probes(loop, now_ms);
    address_book_publish_changes(loop);
    attendance_publish_changes(loop, now_ms);
    if (now_ms >= loop->tick_ms) {
        run_tick(loop, now_ms);
    }
}

enum status tracker_loop_run(struct tracker_loop *loop, struct fault *fault) {
    while (!is_stop_requested(loop) && !loop->driver->is_fenced &&
           !delegation_watch_requires_exit(loop)) {
        messenger_wait(loop->messenger, loop->options.stop_fd, next_wait_ms(loop));
        exclude_pause(loop);
        handle_incoming(loop);
        tracker_loop_continue_documents(loop);
        ledger_server_run(loop);
        run_due_work(loop);
    }
    if (is_stop_requested(loop)) {
        log_line(LOG_INFO, "stopped after %u rounds; start it with the same command to continue",
                 loop->driver->newest_entry.commits);
    }
    if (loop->driver->is_fenced) {
        return fault_set(fault, STATUS_FAILED, loop->options.store_path,
                         "keep the other tracker running, or stop it and restart this one",
                         "another tracker of this swarm has taken over: %s",
                         loop->driver->fault.reason);
    }
    return delegation_watch_requires_exit(loop) ? delegation_watch_set_fault(loop, fault) : OK;
}

void tracker_loop_close(struct tracker_loop *loop) {
    for (uint32_t row = 0; row < loop->members->count; row++) {
        member_probe_end(&loop->members->rows[row].probe);
    }
    reachability_end_guests(loop);
    messenger_close(loop->messenger, LINGER_MS);
    close_delegation_server(loop);
    machine_driver_close(loop->driver);
}
