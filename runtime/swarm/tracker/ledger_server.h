/* ledger_server: answers queries for the ledger. An answer can be a megabyte to read and to decode,
 * so that queries are only noted as they arrive, and answered one at a time beside other work. */
#ifndef SKEP_SWARM_TRACKER_LEDGER_SERVER_H
#define SKEP_SWARM_TRACKER_LEDGER_SERVER_H

#include "base/region.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>
#include <stdint.h>

/* The newest query of one guest. */
struct ledger_request {
    bool is_due;
    uint64_t first;        /* index of the first entry to send */
    int64_t not_before_ms; /* there was no room for the answer */
};

struct ledger_server {
    struct entry entry; /* that is being sent */
    int64_t next_ms;    /* no answer before this time */
    uint32_t next_guest;
};

uint64_t ledger_server_bytes(uint32_t slice_count);
struct ledger_server *ledger_server_init(uint32_t slice_count, struct region *region);

struct tracker_loop;

/* ledger_request_set: note a query; it replaces an earlier one that was not answered. */
void ledger_request_set(struct ledger_request *request, uint64_t first);

/* ledger_server_is_busy: a query waits for its answer. ledger_server_run: answer one of them, if
 * the time for it has come. */
bool ledger_server_is_busy(const struct tracker_loop *loop);
void ledger_server_run(struct tracker_loop *loop);

#endif
