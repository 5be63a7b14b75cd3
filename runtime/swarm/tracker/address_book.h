/* address_book: stores the member table, and sends it to the members as the address book. A change
 * is durable before it is sent. Otherwise a restarted tracker could send an older table, and
 * members would disconnect from peers that it lacks. Also sends the attendance, which is not
 * stored. */
#ifndef SKEP_SWARM_TRACKER_ADDRESS_BOOK_H
#define SKEP_SWARM_TRACKER_ADDRESS_BOOK_H

#include "runtime/swarm/tracker/member_table.h"
#include "runtime/swarm/wire/attendance.h"

enum {
    ADDRESS_BOOK_FIELDS_MAX = 8, /* maximum number of fields of the stored map */
    /* Size of the longest stored form: a MessagePack map with the keys, names and addresses. */
    ADDRESS_BOOK_BYTES_MAX =
        PACKER_MAP_BYTES_MAX + ADDRESS_BOOK_FIELDS_MAX * PACKER_FIELD_BYTES_MAX +
        SWARM_MEMBERS_MAX *
            (2 * KEY_BYTES + 1 + 2 * 3 + WIRE_MEMBER_NAME_BYTES + MESSAGE_ADDRESS_BYTES),
};

/* address_book_make_message: fills in the address book message for all members. It contains the
 * address of a member only if that address is reachable. */
void address_book_make_message(const struct member_table *table, const struct swarm_timing *timing,
                               struct wire_address_book *message);

/* address_book_write, address_book_read: write and read the stored form of the table. `bytes` has
 * room for ADDRESS_BOOK_BYTES_MAX. address_book_write returns the length.
 * errors  address_book_read returns a description of the error, else NULL; *table is undefined
 *         after an error */
size_t address_book_write(const struct member_table *table, uint8_t *bytes);
MUST_CHECK const char *address_book_read(const uint8_t *bytes, size_t count,
                                         struct member_table *table);

struct tracker_loop;

/* address_book_restore: loads the table that an earlier start of the tracker stored.
 * errors  those of ledger_store_read_promise; STATUS_INPUT when the stored bytes are damaged */
MUST_CHECK enum status address_book_restore(struct tracker_loop *loop, struct fault *fault);

/* address_book_publish_changes: saves the table if it has changed. When the table is durable, sends
 * it to each member that has an older version. */
void address_book_publish_changes(struct tracker_loop *loop);

struct tracker_view;

/* attendance_count: counts the members that a round needs and those that are connected.
 * attendance_publish_changes: counts the members once a second, and sends a changed attendance to
 * each of them. */
void attendance_count(const struct tracker_loop *loop, const struct tracker_view *view,
                      int64_t now_ms, struct attendance *attendance);
void attendance_publish_changes(struct tracker_loop *loop, int64_t now_ms);

#endif
