#include "runtime/swarm/tracker/ledger_server.h"

#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"

enum {
    TIME_SHARE = 4,  /* reading the ledger takes at most one part in so many of the time */
    RETRY_MS = 1000, /* an answer for which there was no room is not read again sooner */
};

uint64_t ledger_server_bytes(uint32_t slice_count) {
    return sizeof(struct ledger_server) + slice_count * sizeof(struct entry_slice);
}

struct ledger_server *ledger_server_init(uint32_t slice_count, struct region *region) {
    struct ledger_server *server = region_alloc(region, 1, sizeof *server);
    server->entry.slices = region_alloc(region, slice_count, sizeof *server->entry.slices);
    return server;
}

void ledger_request_set(struct ledger_request *request, uint64_t first) {
    request->is_due = true;
    request->first = first;
}

bool ledger_server_is_busy(const struct tracker_loop *loop) {
    bool is_busy = false;
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        is_busy |= loop->guests->rows[i].is_used && loop->guests->rows[i].ledger.is_due;
    }
    return is_busy;
}

/* Sends whole records, as many as a frame holds. An answer without records is the end of the
 * ledger. */
static bool send_records(struct tracker_loop *loop, const struct tracker_guest *guest) {
    struct ledger_store *store = &loop->driver->durable.store;
    struct entry *entry = &loop->ledger->entry;
    const uint64_t first = guest->ledger.first;
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
    struct ledger_server *server = loop->ledger;
    const int64_t begun_ms = tracker_now_ms();
    for (uint32_t i = 0; begun_ms >= server->next_ms && i < loop->guests->capacity; i++) {
        const uint32_t at = (server->next_guest + i) % loop->guests->capacity;
        struct tracker_guest *guest = &loop->guests->rows[at];
        struct ledger_request *request = &guest->ledger;
        if (!guest->is_used || !request->is_due || begun_ms < request->not_before_ms) {
            continue;
        }
        const bool is_sent = send_records(loop, guest);
        const int64_t ended_ms = tracker_now_ms();
        request->is_due = !is_sent;
        request->not_before_ms = is_sent ? 0 : ended_ms + RETRY_MS;
        server->next_guest = at + 1;
        server->next_ms = ended_ms + (TIME_SHARE - 1) * (ended_ms - begun_ms);
        return;
    }
}
