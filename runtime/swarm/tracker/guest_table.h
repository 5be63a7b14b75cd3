/* guest_table: the processes that are connected to the tracker, members included, found by the
 * channel key of their connection. Only guest_table.c changes a row, except for its stream
 * (tracker_documents.c), its ledger request (ledger_server.c) and its usage (serving.c). */
#ifndef SKEP_SWARM_TRACKER_GUEST_TABLE_H
#define SKEP_SWARM_TRACKER_GUEST_TABLE_H

#include "base/region.h"
#include "runtime/swarm/tracker/ledger_server.h"
#include "runtime/swarm/tracker/reachability.h"
#include "runtime/swarm/tracker/serving.h"
#include "runtime/swarm/tracker/tracker_documents.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* A process that is connected to the tracker. */
struct tracker_guest {
    bool is_used;                   /* the slot has a guest */
    bool has_introduced;            /* the introduction is valid, and no later start replaced it */
    bool was_rejected;              /* the guest received the reason for its rejection */
    bool may_query;                 /* the allow-list permits the queries of this connection */
    uint32_t strikes;               /* number of protocol violations */
    uint32_t announced_version;     /* version of the address book sent to the guest; 0: none */
    uint32_t attendance_version;    /* version of the attendance sent to the guest; 0: none */
    int64_t last_active_ms;         /* time of the last connection, introduction or query */
    uint8_t curve[KEY_BYTES];       /* channel key of the connection */
    char ip[MESSAGE_ADDRESS_BYTES]; /* IP address that the guest connects from */
    struct wire_introduction introduction; /* the newest valid introduction */
    struct document_stream stream;         /* documents that are being sent to the guest */
    struct ledger_request ledger_request;  /* the guest's open request for ledger entries */
    struct guest_usage usage;              /* limits on queries and pings of the connection */
};

/* All processes that are connected to the tracker. */
struct guest_table {
    struct tracker_guest *rows; /* [capacity]: slots, of which some are in use */
    uint32_t capacity;          /* number of guest slots */
    uint64_t rejected_messages; /* messages that failed their checks, since the tracker started */
    struct guest_probe probes[GUEST_PROBES_MAX]; /* tests that guests requested (reachability.c) */
};

/* guest_table_bytes: size of the memory that guest_table_init allocates from the region. */
uint64_t guest_table_bytes(uint32_t capacity);
struct guest_table *guest_table_init(uint32_t capacity, struct region *region);

/* guest_find: returns the guest with this channel key, or NULL.
 * guest_find_or_add: adds the guest if there is none. Returns NULL when all slots are in use. */
struct tracker_guest *guest_find(const struct guest_table *table,
                                 const uint8_t curve[static KEY_BYTES]);
struct tracker_guest *guest_find_or_add(struct guest_table *table,
                                        const uint8_t curve[static KEY_BYTES], int64_t now_ms);
void guest_remove(struct tracker_guest *guest);

void guest_set_ip(struct tracker_guest *guest, const char ip[static MESSAGE_ADDRESS_BYTES]);
void guest_record_activity(struct tracker_guest *guest, int64_t now_ms);
void guest_set_announced_version(struct tracker_guest *guest, uint32_t version);
void guest_set_attendance_version(struct tracker_guest *guest, uint32_t version);

/* guest_set_rejected: records whether the newest introduction was rejected. */
void guest_set_rejected(struct tracker_guest *guest, bool was_rejected);

/* guest_permit_queries: records that the allow-list permits the guest's queries. */
void guest_permit_queries(struct tracker_guest *guest);

/* guest_store_introduction: stores a valid introduction. The address book and the attendance will
 * be sent to the guest again.
 * guest_withdraw_introduction: marks the introduction as invalid, because a later start has
 * replaced this process. */
void guest_store_introduction(struct tracker_guest *guest,
                              const struct wire_introduction *introduction, int64_t now_ms);
void guest_withdraw_introduction(struct tracker_guest *guest);

/* guest_add_strike: counts a protocol violation of one guest.
 * guest_table_count_rejected_message: counts a message that failed its checks, for the swarm
 * status. */
void guest_add_strike(struct tracker_guest *guest);
void guest_table_count_rejected_message(struct guest_table *table);

#endif
