/* member_table: the admitted members of a swarm, one row each, found by either of their keys. A row
 * holds what the address book announces and what the tracker has received from the member. Only
 * member_table.c changes a row, except for its probe (reachability.c) and usage (serving.c). */
#ifndef SKEP_SWARM_TRACKER_MEMBER_TABLE_H
#define SKEP_SWARM_TRACKER_MEMBER_TABLE_H

#include "base/check.h"
#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/tracker/reachability.h"
#include "runtime/swarm/tracker/serving.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MEMBER_NONE = -1,  /* no row of the table */
    START_IDS_MAX = 8, /* maximum number of recent starts of one identity that are stored */
};

/* A member, as the tracker's process knows it. */
struct admitted_member {
    struct public_keys keys;             /* public keys of the member */
    char name[WIRE_MEMBER_NAME_BYTES];   /* display name; "" for none */
    char address[MESSAGE_ADDRESS_BYTES]; /* advertised address; "" for none */
    uint32_t is_reachable;               /* 1: the tracker has connected to `address` */
    /* The fields below are not stored on disk. */
    struct member_probe probe;       /* checks whether `address` is reachable */
    struct member_usage usage;       /* use of the member's limits (serving.h) */
    struct timing_measured measured; /* times in the member's last REPORT */
    uint32_t report_round;           /* round of the member's last REPORT */
    int64_t last_received_ms; /* time of the member's last message; initially the tracker's start */
    uint64_t start_ids[START_IDS_MAX]; /* ids of recent starts, newest first */
    uint32_t start_count;              /* number of elements of start_ids in use */
};

/* The admitted members. Zero-initialise the table before the first call. */
struct member_table {
    uint32_t version; /* version of the address book; increases with every change */
    uint32_t count;   /* number of rows in use */
    bool is_unsaved;  /* the address book has changed since it was last saved */
    struct admitted_member rows[SWARM_MEMBERS_MAX]; /* [count]: the members */
};

/* member_table_find_by_channel_key, member_table_find_by_identity: return the index of the row with
 * this key, or MEMBER_NONE. */
int member_table_find_by_channel_key(const struct member_table *table,
                                     const uint8_t curve[static KEY_BYTES]);
int member_table_find_by_identity(const struct member_table *table, const struct identity *id);

/* member_identity: returns the signing key of a row as the identity that the state machine uses. */
struct identity member_identity(const struct admitted_member *member);

/* member_table_add: returns the row of these keys. If there is none, adds one at the end.
 * limits  if the keys have no row, fewer than SWARM_MEMBERS_MAX rows are in use */
struct admitted_member *member_table_add(struct member_table *table,
                                         const struct public_keys *keys);

/* member_table_remove: ends the row's probe, and moves the following rows up by one. */
void member_table_remove(struct member_table *table, int row);

/* member_table_mark_changed: increments the version. The table must be saved before it is
 * announced.
 * member_table_mark_saved: records that the current version is durable. */
void member_table_mark_changed(struct member_table *table);
void member_table_mark_saved(struct member_table *table);

/* member_set_name, member_set_address, member_set_reachable: set one field. A new address counts as
 * unreachable until a probe succeeds. The caller must call member_table_mark_changed. */
void member_set_name(struct admitted_member *member, const char *name);
void member_set_address(struct admitted_member *member, const char *address);
void member_set_reachable(struct admitted_member *member, bool is_reachable);

/* member_record_received: records that a message of the member was received.
 * member_record_report: stores the measurements of its REPORT. */
void member_record_received(struct admitted_member *member, int64_t now_ms);
void member_record_report(struct admitted_member *member, const struct message *report);

/* member_table_shift_received_times: adds `gap_ms` to the time of every member's last message,
 * because the tracker's process did not run during that time. */
void member_table_shift_received_times(struct member_table *table, int64_t gap_ms);

/* member_record_start: records the start id of a process of this identity. Returns true when it
 * replaces an earlier process.
 * member_was_replaced: whether a later start has replaced the process with this start id. */
bool member_record_start(struct admitted_member *member, uint64_t start_id);
bool member_was_replaced(const struct admitted_member *member, uint64_t start_id);

#endif
