/* member_table: the admitted members of a swarm, one row each, found by either of their keys. A row
 * holds what the address book announces and what the tracker has received from the member. Only
 * member_table.c changes a row, except for its probe (reachability.c). */
#ifndef SKEP_SWARM_TRACKER_MEMBER_TABLE_H
#define SKEP_SWARM_TRACKER_MEMBER_TABLE_H

#include "base/check.h"
#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/tracker/reachability.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MEMBER_NONE = -1,
    START_IDS_MAX = 8, /* recent starts of one identity that the tracker can tell apart */
};

struct admitted_member {
    struct public_keys keys;
    char name[WIRE_MEMBER_NAME_BYTES];
    char address[MESSAGE_ADDRESS_BYTES]; /* that the member advertises; "" for none */
    uint32_t is_reachable;               /* 1: the tracker connected to `address` */
    /* The rest is not durable. */
    struct member_probe probe;
    struct timing_measured measured; /* as in its last REPORT, and that report's round */
    uint32_t round;
    int64_t last_received_ms;          /* after a restart of the tracker: the restart */
    uint64_t start_ids[START_IDS_MAX]; /* newest first: that process is the member */
    uint32_t start_count;
};

/* Zero it before the first call. */
struct member_table {
    uint32_t version; /* of the address book; rises with every change of it */
    uint32_t count;
    bool is_unsaved; /* the address book has changed since it was last durable */
    struct admitted_member rows[SWARM_MEMBERS_MAX];
};

/* member_table_find_curve, member_table_find_identity: the row's index, or MEMBER_NONE. */
int member_table_find_curve(const struct member_table *table,
                            const uint8_t curve[static KEY_BYTES]);
int member_table_find_identity(const struct member_table *table, const struct identity *id);

/* member_identity: the signing key of a row as the state machine names the member. */
struct identity member_identity(const struct admitted_member *member);

/* member_table_add: the row of these keys; a new one at the end if there is none.
 * limits  the keys have a row, or fewer than SWARM_MEMBERS_MAX rows are in use */
struct admitted_member *member_table_add(struct member_table *table,
                                         const struct public_keys *keys);

/* member_table_remove: end the row's probe, and move the rows after it up. */
void member_table_remove(struct member_table *table, int row);

/* member_table_mark_changed: raise the version; what is announced must be saved first.
 * member_table_mark_saved: the current version is durable. */
void member_table_mark_changed(struct member_table *table);
void member_table_mark_saved(struct member_table *table);

/* member_set_name, member_set_address, member_set_reachable: change one field. A new address is not
 * reachable until a probe says so. The caller marks the table as changed. */
void member_set_name(struct admitted_member *member, const char *name);
void member_set_address(struct admitted_member *member, const char *address);
void member_set_reachable(struct admitted_member *member, bool is_reachable);

/* member_note_received: the member sent something. member_note_report: what its REPORT measured. */
void member_note_received(struct admitted_member *member, int64_t now_ms);
void member_note_report(struct admitted_member *member, const struct message *report);

/* member_table_forgive: shift the time of every member's last message by `gap_ms`, during which the
 * tracker's process did not run. */
void member_table_forgive(struct member_table *table, int64_t gap_ms);

/* member_add_start: a process of this identity introduced itself. True when it replaces another.
 * member_was_replaced: whether a later start has introduced itself since this one. */
bool member_add_start(struct admitted_member *member, uint64_t start_id);
bool member_was_replaced(const struct admitted_member *member, uint64_t start_id);

#endif
