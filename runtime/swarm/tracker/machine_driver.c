#include "runtime/swarm/tracker/machine_driver.h"

#include "base/log.h"
#include "runtime/swarm/leases/continue_file.h"
#include "runtime/swarm/ledger/training_share.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "runtime/swarm/tracker_machine/tracker_machine.h"

#include <string.h>
#include <sys/random.h>

enum {
    WRITE_RETRY_MS = 1000,               /* time between a failed write and its retry */
    FAILURE_LOG_INTERVAL_MS = 60 * 1000, /* time between two log lines about failed writes */
    /* Time between two warnings that members trained on too few of their samples. */
    TRAINING_WARNING_MS = 10 * 60 * 1000,
};

/* Size of the arrays that make_record allocates. */
static uint64_t record_arrays_bytes(uint64_t slices) {
    return slices * (2 * sizeof(struct entry_slice) + sizeof(struct slice_plan));
}

uint64_t machine_driver_bytes(const struct tracker_settings *settings) {
    const uint64_t slices = settings->slice_count;
    return sizeof(struct machine_driver) + tracker_memory_bytes(settings) +
           record_arrays_bytes(slices) + ACTIONS_MAX * sizeof(struct action) +
           slices * sizeof(struct entry_slice);
}

static struct tracker_record *make_record(uint32_t slices, struct region *region) {
    struct tracker_record *record = region_alloc(region, 1, sizeof *record);
    record->head.slices = region_alloc(region, slices, sizeof *record->head.slices);
    record->commit.slices = region_alloc(region, slices, sizeof *record->commit.slices);
    record->table.slices = region_alloc(region, slices, sizeof *record->table.slices);
    return record;
}

/* Returns a start number that differs from that of any other start, even of a copy of this
 * tracker. */
static uint64_t draw_start_number(uint32_t place) {
    uint32_t drawn = 0;
    ssize_t count = getrandom(&drawn, sizeof drawn, 0);
    ASSERT(count == (ssize_t)sizeof drawn);
    return tracker_start_number(place, drawn);
}

enum status machine_driver_open(const struct durable_options *options,
                                const struct tracker_settings *settings, struct region *region,
                                struct machine_driver **driver, struct fault *fault) {
    struct machine_driver *opened = region_alloc(region, 1, sizeof *opened);
    struct tracker_record *record = make_record(settings->slice_count, region);
    opened->newest_entry.slices =
        region_alloc(region, settings->slice_count, sizeof *opened->newest_entry.slices);
    opened->action_rows = region_alloc(region, ACTIONS_MAX, sizeof *opened->action_rows);
    TRY(tracker_durable_open(options, region, &opened->durable, record, fault));
    entry_copy(&opened->newest_entry, &record->head);
    void *memory = region_alloc(region, tracker_memory_bytes(settings), 1);
    opened->tracker = tracker_init(memory, settings, record, tracker_now_ms());
    tracker_restore_roster_epoch(opened->tracker, &opened->durable.chain.roster_epoch);
    if (opened->durable.chain.needs_leases == 1) {
        tracker_use_leases(opened->tracker, draw_start_number(opened->durable.place),
                           &opened->durable.chain);
    }
    if (options->delegation != NULL &&
        options->delegation->serial < opened->durable.chain.delegation_serial) {
        tracker_durable_close(&opened->durable);
        return fault_set(fault, STATUS_INPUT, options->path,
                         "restore the newest delegation.signed, or sign a new one with `skep track "
                         "RUN.yaml --delegate KEY`",
                         "the ledger contains a newer delegation than the one that this tracker "
                         "was started with");
    }
    if (options->delegation != NULL &&
        options->delegation->serial > opened->durable.chain.delegation_serial) {
        tracker_queue_delegation(opened->tracker, options->delegation);
    }
    enum status status = tracker_durable_replay(&opened->durable, opened->tracker, fault);
    if (status != OK) {
        tracker_durable_close(&opened->durable);
        return status;
    }
    *driver = opened;
    return OK;
}

void machine_driver_close(struct machine_driver *driver) {
    tracker_durable_close(&driver->durable);
}

static enum crash_point_id find_crash_point(const struct action *action) {
    if (action->entry == NULL) {
        return (action->parts & RECORD_SESSIONS) != 0 ? CRASH_WRITE_SESSION : CRASH_WRITE_TABLE;
    }
    switch (action->entry->kind) {
    case ENTRY_OPEN:
        return CRASH_WRITE_OPEN;
    case ENTRY_COMMIT:
        return CRASH_WRITE_COMMIT;
    default:
        return CRASH_WRITE_ABORT;
    }
}

/* Returns the number of members whose contribution is in any slice of a commit. */
static int count_contributors(const struct entry *commit) {
    uint64_t seats = 0;
    for (uint32_t slice = 0; slice < commit->slice_count; slice++) {
        seats |= commit->slices[slice].contributors;
    }
    return __builtin_popcountll(seats);
}

static void log_entry(const struct entry *entry) {
    char root[HASH_HEX_BYTES];
    hash_hex(&entry->root, root);
    struct hash key;
    char id[HASH_HEX_BYTES];
    memcpy(key.bytes, entry->suspension.id.bytes, sizeof key.bytes);
    hash_hex(&key, id);
    switch (entry->kind) {
    case ENTRY_OPEN:
        log_line(LOG_INFO, "round %u opened: %u members, %u ms to train", entry->round,
                 entry->seat_count, entry->train_ms);
        break;
    case ENTRY_COMMIT:
        log_line(LOG_INFO,
                 "round %u committed as commit %u: %d of %u members contributed, %u voted, root "
                 "%.16s",
                 entry->round, entry->commits, count_contributors(entry), entry->seat_count,
                 entry->signature_count, root);
        break;
    case ENTRY_ABORT:
        log_line(LOG_WARNING, "round %u aborted without a result; its samples return to the swarm",
                 entry->round);
        break;
    case ENTRY_SUSPEND:
        log_line(LOG_WARNING, "member %.12s is suspended until round %u: %s", id,
                 entry->suspension.until_round, ledger_suspension_cause(entry->suspension.reason));
        break;
    default:
        log_line(LOG_WARNING, "rolled back to root %.16s: %s", root,
                 hash_is_zero(&entry->order.newest) ? "no member has a newer state"
                                                    : "the operator ordered it");
    }
}

/* Warns of a commit whose members trained on too few of their samples, at most once in
 * TRAINING_WARNING_MS. */
static void warn_of_low_training_share(struct machine_driver *driver, const struct entry *commit,
                                       uint64_t sample_tokens) {
    const int64_t now_ms = tracker_now_ms();
    const struct training_share share = training_share_of(commit, sample_tokens);
    if (!training_share_is_low(&share) ||
        (driver->training_warned_ms != 0 &&
         now_ms - driver->training_warned_ms < TRAINING_WARNING_MS)) {
        return;
    }
    driver->training_warned_ms = now_ms;
    log_line(
        LOG_WARNING,
        "round %u: members trained on %.0f %% of their samples before the deadline: other programs "
        "slow their machines down, or swarm.patience is too low, which only a new swarm can change",
        commit->round, 100.0 * (double)share.tokens / (double)share.planned);
}

static void log_write_failure(struct machine_driver *driver, int64_t now_ms) {
    const struct fault *fault = &driver->fault;
    if (driver->failure_logged_ms == 0 ||
        now_ms - driver->failure_logged_ms >= FAILURE_LOG_INTERVAL_MS) {
        driver->failure_logged_ms = now_ms;
        log_line(LOG_ERROR, "%s: %s; %s; retrying every %d s", fault->subject, fault->reason,
                 fault->remedy[0] != '\0' ? fault->remedy : "no data is lost",
                 WRITE_RETRY_MS / 1000);
    }
}

/* Performs an ACTION_WRITE, and sets *event to its outcome. Returns false after a failed write, of
 * which the state machine is notified only after a delay, because it retries the write at once. */
static bool write_action(struct tracker_loop *loop, const struct action *action,
                         struct event *event) {
    struct machine_driver *driver = loop->driver;
    const enum crash_point_id id = find_crash_point(action);
    ASSERT(!driver->is_retrying);
    reach_crash_point(loop, CRASH_BEFORE, id);
    tracker_durable_write(&driver->durable, action, event, &driver->fault);
    if (event->write_outcome == WRITE_FAILED) {
        log_write_failure(driver, tracker_now_ms());
        driver->is_retrying = true;
        driver->retry_ms = tracker_now_ms() + WRITE_RETRY_MS;
        return false;
    }
    driver->is_fenced |= event->write_outcome == WRITE_FENCED;
    driver->failure_logged_ms = 0;
    if (event->write_outcome == WRITE_OK && action->entry != NULL) {
        entry_copy(&driver->newest_entry, &driver->durable.entry);
        log_entry(&driver->newest_entry);
        warn_of_low_training_share(driver, &driver->newest_entry,
                                   loop->options.settings.sample_tokens);
    }
    reach_crash_point(loop, CRASH_AFTER, id);
    return true;
}

/* Logs the duration of each stage, so that a slow stage can be found. */
static void log_stage(struct machine_driver *driver) {
    const char *stage = tracker_stage_name(driver->tracker);
    if (stage == driver->stage) {
        return;
    }
    int64_t now_ms = tracker_now_ms();
    if (driver->stage != NULL) {
        log_line(LOG_DEBUG, "round %u: the stage %s took %lld ms; the next is %s",
                 driver->newest_entry.round, driver->stage,
                 (long long)(now_ms - driver->stage_since_ms), stage);
    }
    driver->stage = stage;
    driver->stage_since_ms = now_ms;
}

/* Gives the state machine new random bytes for the seed of a proposal. getrandom always returns all
 * 32 bytes, because the kernel's generator was seeded before the tracker started. */
static void draw_next_seed(struct tracker *tracker) {
    struct hash random;
    ssize_t count = getrandom(&random, sizeof random, 0);
    ASSERT(count == (ssize_t)sizeof random);
    tracker_set_next_seed(tracker, &random);
}

static struct continue_file make_continue_file(const struct tracker_loop *loop) {
    struct hash state;
    struct tracker_start start;
    struct continue_order order;
    tracker_fill_continue_order(loop->driver->tracker, &state, &start, &order);
    return (struct continue_file){
        .swarm = loop->options.manifest_hash, .state = state, .start = start, .order = order};
}

/* Writes the file with the order that the operator can sign, and writes it again when the number of
 * ready members has changed. */
static void write_waiting_file(struct tracker_loop *loop) {
    struct machine_driver *driver = loop->driver;
    const struct continue_file file = make_continue_file(loop);
    struct fault fault;
    if (loop->options.waiting_path == NULL || file.order.count == 0 ||
        file.order.count == driver->waiting_count) {
        return;
    }
    driver->waiting_count = file.order.count;
    if (continue_file_write(loop->options.waiting_path, &file, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s", fault.subject, fault.reason);
    }
}

void machine_driver_read_continue_order(struct tracker_loop *loop) {
    const char *path = loop->options.continue_path;
    const struct continue_file current = make_continue_file(loop);
    struct continue_file file;
    struct fault fault;
    if (continue_file_read(path, &file, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; the order is ignored", fault.subject, fault.reason);
    } else if (!hash_equal(&file.state, &current.state) || current.start.number == 0 ||
               !tracker_start_equal(&file.start, &current.start)) {
        log_line(LOG_INFO,
                 "%s: the order is for another start of the tracker, or for an older state; it is "
                 "ignored",
                 path);
    } else if (!continue_order_is_signed(loop->options.operator_keys.sign, &current.swarm,
                                         &file.state, &file.start, &file.order)) {
        log_line(LOG_WARNING,
                 "%s: the operator of this swarm did not sign the order; it is ignored", path);
    } else {
        tracker_set_continue_order(loop->driver->tracker, &file.order);
        log_line(LOG_WARNING, "the operator ordered this tracker to continue with %u members",
                 file.order.count);
    }
}

/* Logs whether a fork is possible, when that has changed. */
static void log_fork_change(struct machine_driver *driver) {
    struct elector_count count = {0};
    const bool is_possible = tracker_is_fork_possible(driver->tracker, &count);
    const enum fork_state state = !is_possible      ? FORK_NONE
                                  : count.is_enough ? FORK_CONTINUES
                                                    : FORK_WAITS;
    if (state == FORK_WAITS && state != driver->fork && count.promised > 0) {
        log_line(LOG_ERROR,
                 "possible fork: %u of the %u electors of the newest state can vote here, which is "
                 "too few; %u members promised their votes to another start of the tracker, and "
                 "missing ones may follow a copy of it: stop the copy, wait for the members, or "
                 "order this one to continue with `skep track --continue`",
                 count.here, count.all, count.promised);
    } else if (state == FORK_WAITS && state != driver->fork) {
        log_line(LOG_ERROR,
                 "possible fork: %u of the %u electors of the newest state can vote here, which is "
                 "too few: start the missing ones again; if they are lost, and no copy of this "
                 "tracker runs, order it to continue with `skep track --continue`",
                 count.here, count.all);
    } else if (state == FORK_CONTINUES && state != driver->fork) {
        log_line(LOG_WARNING,
                 "possible fork: %u of the %u electors of the newest state can vote here; this "
                 "tracker continues, because the first one is among them; a copy of it that the "
                 "others follow cannot",
                 count.here, count.all);
    }
    driver->fork = state;
    driver->waiting_count = state == FORK_WAITS ? driver->waiting_count : 0;
}

void machine_driver_step(struct tracker_loop *loop, const struct event *event) {
    struct machine_driver *driver = loop->driver;
    struct event written;
    while (event != NULL && !driver->is_fenced) {
        const struct action *write = NULL;
        struct actions actions = {.rows = driver->action_rows, .capacity = ACTIONS_MAX};
        draw_next_seed(driver->tracker);
        tracker_step(driver->tracker, event, tracker_now_ms(), &actions);
        for (uint32_t i = 0; i < actions.count; i++) {
            const struct action *action = &actions.rows[i];
            if (action->kind == ACTION_SEND) {
                tracker_loop_send_action(loop, action);
            } else {
                ASSERT(action->kind == ACTION_WRITE && write == NULL);
                write = action;
            }
        }
        event = write != NULL && write_action(loop, write, &written) ? &written : NULL;
        log_stage(driver);
    }
    log_fork_change(driver);
    if (driver->fork == FORK_WAITS) {
        write_waiting_file(loop);
    }
}

void machine_driver_retry_write(struct tracker_loop *loop, int64_t now_ms) {
    const struct event failed = {.kind = EVENT_WRITTEN, .write_outcome = WRITE_FAILED};
    if (loop->driver->is_retrying && now_ms >= loop->driver->retry_ms) {
        loop->driver->is_retrying = false;
        machine_driver_step(loop, &failed);
    }
}

bool machine_driver_store_promise(struct machine_driver *driver,
                                  const struct store_promise *promise) {
    struct fault fault;
    const struct store_transaction write = {
        .incarnation = driver->durable.incarnation, .promises = promise, .promise_count = 1};
    enum write_outcome outcome = ledger_store_write(&driver->durable.store, &write, &fault);
    if (outcome == WRITE_FENCED) {
        driver->is_fenced = true;
        driver->fault = fault;
    }
    return outcome == WRITE_OK;
}

enum status machine_driver_load_promise(struct machine_driver *driver, const char *name,
                                        void *bytes, size_t capacity, size_t *count,
                                        struct fault *fault) {
    return ledger_store_read_promise(&driver->durable.store, name, bytes, capacity, count, fault);
}
