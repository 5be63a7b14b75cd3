/* guest_table: the processes that are connected to the tracker, members included, found by the
 * channel key of their connection. Only guest_table.c changes a row, except for its stream
 * (tracker_documents.c) and its ledger request (ledger_server.c). */
#ifndef SKEP_SWARM_TRACKER_GUEST_TABLE_H
#define SKEP_SWARM_TRACKER_GUEST_TABLE_H

#include "base/region.h"
#include "runtime/swarm/tracker/ledger_server.h"
#include "runtime/swarm/tracker/tracker_documents.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct tracker_guest {
    bool is_used;
    bool has_introduced; /* with a valid introduction that no later start has replaced */
    bool was_rejected;   /* and has received the reason, for its newest introduction */
    uint32_t strikes;
    uint32_t announced_version; /* of the address book that was sent to it; 0: none */
    int64_t last_active_ms;     /* when it connected, introduced itself or sent a query last */
    uint8_t curve[KEY_BYTES];
    char ip[MESSAGE_ADDRESS_BYTES]; /* that it connects from */
    struct wire_introduction introduction;
    struct document_stream stream;
    struct ledger_request ledger;
};

struct guest_table {
    struct tracker_guest *rows; /* [capacity] */
    uint32_t capacity;
    uint64_t refused_messages; /* that failed their checks, since the start */
};

/* guest_table_bytes: what guest_table_init takes of the region. */
uint64_t guest_table_bytes(uint32_t capacity);
struct guest_table *guest_table_init(uint32_t capacity, struct region *region);

/* guest_find: the guest with this channel key, or NULL.
 * guest_find_or_add: a new one when there is none, NULL when all slots are in use. */
struct tracker_guest *guest_find(const struct guest_table *table,
                                 const uint8_t curve[static KEY_BYTES]);
struct tracker_guest *guest_find_or_add(struct guest_table *table,
                                        const uint8_t curve[static KEY_BYTES], int64_t now_ms);
void guest_remove(struct tracker_guest *guest);

void guest_set_ip(struct tracker_guest *guest, const char ip[static MESSAGE_ADDRESS_BYTES]);
void guest_set_active(struct tracker_guest *guest, int64_t now_ms);
void guest_set_announced(struct tracker_guest *guest, uint32_t version);

/* guest_set_rejected: whether the newest introduction was answered with a reason. */
void guest_set_rejected(struct tracker_guest *guest, bool was_rejected);

/* guest_introduce: store a valid introduction; the address book is due again.
 * guest_withdraw: it is no longer valid, because a later start has replaced this process. */
void guest_introduce(struct tracker_guest *guest, const struct wire_introduction *introduction,
                     int64_t now_ms);
void guest_withdraw(struct tracker_guest *guest);

/* guest_add_strike: count a frame that no correct process sends.
 * guest_table_count_refused: count it in the swarm status too. */
void guest_add_strike(struct tracker_guest *guest);
void guest_table_count_refused(struct guest_table *table);

#endif
