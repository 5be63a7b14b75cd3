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

void ledger_request_store(struct ledger_request *request, uint64_t first_index) {
    request->is_due = true;
    request->first_index = first_index;
}

bool ledger_server_is_busy(const struct tracker_loop *loop) {
    bool is_busy = false;
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        is_busy |= loop->guests->rows[i].is_used && loop->guests->rows[i].ledger_request.is_due;
    }
    return is_busy;
}

/* Sends as many whole records as fit into a frame. An answer without records marks the end of the
 * ledger. */
static bool send_records(struct tracker_loop *loop, const struct tracker_guest *guest) {
    struct ledger_store *store = &loop->driver->durable.store;
    struct entry *entry = &loop->ledger_server->entry;
    const uint64_t first = guest->ledger_request.first_index;
    struct fault fault;
    size_t count = 0;
    for (uint64_t index = first; index < store->entry_count; index++) {
        if (ledger_store_read(store, index, entry->slices, loop->shape.slice_count, entry,
                              &fault) != OK ||
            entry_record_bytes(entry) > FRAME_PAYLOAD_MAX - count) {
            break;
        }
        count += entry_write(entry, loop->scratch + count, FRAME_PAYLOAD_MAX - count);
    }
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
        const bool is_sent = send_records(loop, guest);
        const int64_t ended_ms = tracker_now_ms();
        request->is_due = !is_sent;
        request->retry_ms = is_sent ? 0 : ended_ms + SEND_RETRY_MS;
        server->next_guest = at + 1;
        server->next_answer_ms = ended_ms + (TIME_SHARE_DIVISOR - 1) * (ended_ms - begun_ms);
        return;
    }
}
