#include "runtime/swarm/tracker/ledger_server.h"

#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"

enum {
    TIME_SHARE_DIVISOR = 4, /* at most 1/4 of the time is spent on reading the ledger */
    SEND_RETRY_MS = 1000,   /* delay before an answer that could not be sent is read again */
};

uint64_t ledger_server_bytes(uint32_t slice_count) {
    return sizeof(struct ledger_server) + slice_count * sizeof(struct entry_slice);
}

struct ledger_server *ledger_server_init(uint32_t slice_count, struct region *region) {
    struct ledger_server *server = region_alloc(region, 1, sizeof *server);
    server->entry.slices = region_alloc(region, slice_count, sizeof *server->entry.slices);
    return server;
}

void ledger_request_store(struct ledger_request *request, uint64_t first_index,
                          enum requester requester) {
    request->is_due = true;
    request->first_index = first_index;
    request->requester = requester;
}

bool ledger_server_is_busy(const struct tracker_loop *loop) {
    const int64_t now_ms = tracker_now_ms();
    bool is_busy = false;
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        const struct tracker_guest *guest = &loop->guests->rows[i];
        is_busy |= guest->is_used && guest->ledger_request.is_due &&
                   guest->ledger_request.retry_ms <= now_ms;
    }
    return is_busy;
}

/* Returns the usage of the member with a guest's connection; NULL: the guest is no member. */
static struct member_usage *find_usage(struct tracker_loop *loop,
                                       const struct tracker_guest *guest) {
    const int row = member_table_find_curve(loop->members, guest->curve);
    return row == MEMBER_NONE ? NULL : &loop->members->rows[row].usage;
}

/* Whether the sender of a query may be sent entries now. */
static bool may_send(struct tracker_loop *loop, const struct tracker_guest *guest) {
    struct member_usage *usage = find_usage(loop, guest);
    const int64_t now_ms = tracker_now_ms();
    return usage != NULL
               ? serving_has_entries(usage, loop->driver->durable.store.entry_count, now_ms)
               : serving_has_bytes(&loop->serving, guest->ledger_request.requester, now_ms);
}

static void charge_answer(struct tracker_loop *loop, const struct tracker_guest *guest,
                          uint64_t entries, size_t bytes) {
    struct member_usage *usage = find_usage(loop, guest);
    if (usage != NULL) {
        serving_charge_entries(usage, loop->driver->durable.store.entry_count, entries,
                               tracker_now_ms());
    } else {
        serving_charge_bytes(&loop->serving, guest->ledger_request.requester, bytes,
                             tracker_now_ms());
    }
}

/* Sends as many whole records as fit into a frame. An answer without records marks the end of the
 * ledger. */
static bool send_records(struct tracker_loop *loop, const struct tracker_guest *guest) {
    struct ledger_store *store = &loop->driver->durable.store;
    struct entry *entry = &loop->ledger_server->entry;
    const uint64_t first = guest->ledger_request.first_index;
    struct fault fault;
    size_t count = 0;
    uint64_t index = first;
    for (; index < store->entry_count; index++) {
        if (ledger_store_read(store, index, entry->slices, loop->shape.slice_count, entry,
                              &fault) != OK ||
            entry_record_bytes(entry) > FRAME_PAYLOAD_MAX - count) {
            break;
        }
        count += entry_write(entry, loop->scratch + count, FRAME_PAYLOAD_MAX - count);
    }
    charge_answer(loop, guest, index - first, count);
    return tracker_loop_send(loop, guest, WIRE_LEDGER, first, loop->scratch, count);
}

void ledger_server_run(struct tracker_loop *loop) {
    struct ledger_server *server = loop->ledger_server;
    const int64_t begun_ms = tracker_now_ms();
    for (uint32_t i = 0; begun_ms >= server->next_answer_ms && i < loop->guests->capacity; i++) {
        const uint32_t at = (server->next_guest + i) % loop->guests->capacity;
        struct tracker_guest *guest = &loop->guests->rows[at];
        struct ledger_request *request = &guest->ledger_request;
        if (!guest->is_used || !request->is_due || begun_ms < request->retry_ms) {
            continue;
        }
        const bool is_sent = may_send(loop, guest) && send_records(loop, guest);
        const int64_t ended_ms = tracker_now_ms();
        request->is_due = !is_sent;
        request->retry_ms = is_sent ? 0 : ended_ms + SEND_RETRY_MS;
        server->next_guest = at + 1;
        server->next_answer_ms = ended_ms + (TIME_SHARE_DIVISOR - 1) * (ended_ms - begun_ms);
        return;
    }
}
