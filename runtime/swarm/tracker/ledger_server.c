#include "runtime/swarm/tracker/ledger_server.h"

#include "base/log.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "runtime/swarm/wire/wire_service.h"

enum {
    TIME_SHARE_DIVISOR = 4, /* at most 1/4 of the time is spent on reading the ledger */
    SEND_RETRY_MS = 1000, /* delay before an unsent answer is read from the ledger and sent again */
};

uint64_t ledger_server_bytes(uint32_t slice_count) {
    return sizeof(struct ledger_server) + slice_count * sizeof(struct entry_slice) +
           wire_ledger_page_bytes_max(slice_count);
}

struct ledger_server *ledger_server_init(uint32_t slice_count, struct region *region) {
    struct ledger_server *server = region_alloc(region, 1, sizeof *server);
    server->entry.slices = region_alloc(region, slice_count, sizeof *server->entry.slices);
    server->page = region_alloc(region, wire_ledger_page_bytes_max(slice_count), 1);
    return server;
}

void ledger_request_store(struct ledger_request *request, uint64_t first_index,
                          enum requester requester) {
    request->is_due = true;
    request->first_index = first_index;
    request->requester = requester;
}

bool ledger_server_has_query(const struct tracker_loop *loop) {
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
    const int row = member_table_find_by_channel_key(loop->members, guest->curve);
    return row == MEMBER_NONE ? NULL : &loop->members->rows[row].usage;
}

/* Whether entries may be sent to the sender of a query now. */
static bool may_send_entries_to(struct tracker_loop *loop, const struct tracker_guest *guest) {
    struct member_usage *usage = find_usage(loop, guest);
    const int64_t now_ms = tracker_now_ms();
    if (document_stream_is_busy(&guest->stream)) {
        /* a document is being sent: receivers gather chunks of one payload at a time */
        return false;
    }
    return usage != NULL
               ? serving_may_send_entries(usage, loop->driver->durable.store.entry_count, now_ms)
               : serving_may_send_bytes(&loop->serving_buckets, guest->ledger_request.requester,
                                        now_ms);
}

static void charge_answer(struct tracker_loop *loop, const struct tracker_guest *guest,
                          uint64_t entries, size_t bytes) {
    struct member_usage *usage = find_usage(loop, guest);
    if (usage != NULL) {
        serving_charge_entries(usage, loop->driver->durable.store.entry_count, entries,
                               tracker_now_ms());
    } else {
        serving_charge_bytes(&loop->serving_buckets, guest->ledger_request.requester, bytes,
                             tracker_now_ms());
    }
}

/* Reads an entry of the ledger. Returns false if it cannot be read; the first time, logs the
 * reason. */
static bool read_entry(struct tracker_loop *loop, uint64_t index) {
    struct ledger_server *server = loop->ledger_server;
    struct fault fault;
    const bool is_read =
        ledger_store_read(&loop->driver->durable.store, index, server->entry.slices,
                          loop->shape.slice_count, &server->entry, &fault) == OK;
    if (!is_read && !server->has_warned) {
        log_line(LOG_WARNING, "%s: %s; %s", fault.subject, fault.reason, fault.remedy);
        server->has_warned = true;
    }
    return is_read;
}

/* Reads as many entries as fit into a page, but at least one. The page is empty if the first entry
 * cannot be read. */
static struct wire_ledger_page fill_page(struct tracker_loop *loop, uint64_t first) {
    struct ledger_server *server = loop->ledger_server;
    const uint64_t entry_count = loop->driver->durable.store.entry_count;
    struct wire_ledger_page page = wire_begin_ledger_page(first, entry_count);
    uint64_t index = first;
    while (index < entry_count && read_entry(loop, index) &&
           wire_add_ledger_entry(&page, &server->entry, server->page, loop->shape.slice_count)) {
        index++;
    }
    return page;
}

/* Sends one page. A page that does not fit into the connection's queue is sent again as a whole. */
static bool send_page(struct tracker_loop *loop, const struct tracker_guest *guest) {
    const struct frame header = {.kind = WIRE_LEDGER};
    uint8_t *payload = loop->ledger_server->page;
    const struct wire_ledger_page page = fill_page(loop, guest->ledger_request.first_index);
    const size_t count = wire_write_ledger_page(&page, payload);
    size_t sent_bytes = 0;
    while (sent_bytes < count) {
        const struct frame chunk = wire_chunk_header(&header, count, sent_bytes);
        if (messenger_send(loop->messenger, guest->curve, CHANNEL_CONTROL, &chunk,
                           payload + sent_bytes) != SEND_OK) {
            return false;
        }
        sent_bytes += chunk.length;
    }
    charge_answer(loop, guest, page.count, count);
    return true;
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
        const bool is_sent = may_send_entries_to(loop, guest) && send_page(loop, guest);
        const int64_t ended_ms = tracker_now_ms();
        request->is_due = !is_sent;
        request->retry_ms = is_sent ? 0 : ended_ms + SEND_RETRY_MS;
        server->next_guest = at + 1;
        server->next_answer_ms = ended_ms + (TIME_SHARE_DIVISOR - 1) * (ended_ms - begun_ms);
        return;
    }
}
