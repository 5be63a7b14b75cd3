/* ledger_server: answers queries for the ledger in pages of 256 KiB, or of one longer entry.
 * Reading and decoding a page takes some time, so queries are stored when they arrive, and answered
 * one at a time between other work. */
#ifndef SKEP_SWARM_TRACKER_LEDGER_SERVER_H
#define SKEP_SWARM_TRACKER_LEDGER_SERVER_H

#include "base/region.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/tracker/serving.h"

#include <stdbool.h>
#include <stdint.h>

/* The newest ledger query of one guest. */
struct ledger_request {
    bool is_due;          /* the query is not answered yet */
    uint64_t first_index; /* index of the first entry to send */
    /* time of the next attempt, after the connection's queue was full or a limit was exceeded */
    int64_t retry_ms;
    enum requester requester; /* kind of the query's sender */
};

/* The page that is being sent, and when the next answer is due. */
struct ledger_server {
    struct entry entry;     /* the entry that is being encoded */
    uint8_t *page;          /* [wire_ledger_page_bytes_max]: the page that is being sent */
    bool has_warned;        /* a warning that an entry cannot be read was logged */
    int64_t next_answer_ms; /* earliest time of the next answer */
    uint32_t next_guest;    /* guest slot in which the next query is sought first */
};

uint64_t ledger_server_bytes(uint32_t slice_count);
struct ledger_server *ledger_server_init(uint32_t slice_count, struct region *region);

struct tracker_loop;

/* ledger_request_store: stores a query. It replaces an earlier query that was not answered yet. */
void ledger_request_store(struct ledger_request *request, uint64_t first_index,
                          enum requester requester);

/* ledger_server_has_query: whether a stored query waits for an answer, and may be answered now.
 * ledger_server_run: answers one stored query if its time has come. */
bool ledger_server_has_query(const struct tracker_loop *loop);
void ledger_server_run(struct tracker_loop *loop);

#endif
