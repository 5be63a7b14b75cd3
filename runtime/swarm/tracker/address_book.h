/* address_book: the member table as it is announced and as it is stored. A change is durable before
 * it is announced, so that a restarted tracker does not tell members to disconnect from peers. */
#ifndef SKEP_SWARM_TRACKER_ADDRESS_BOOK_H
#define SKEP_SWARM_TRACKER_ADDRESS_BOOK_H

#include "runtime/swarm/tracker/member_table.h"

enum {
    /* The longest stored form: version, count, then keys, name and address of each member. */
    ADDRESS_BOOK_BYTES_MAX = 12 + SWARM_MEMBERS_MAX * (2 * KEY_BYTES + WIRE_MEMBER_NAME_BYTES +
                                                       MESSAGE_ADDRESS_BYTES + 4),
};

/* address_book_announce: the message that all members receive. It contains the address of a member
 * only when that address is reachable. */
void address_book_announce(const struct member_table *table, const struct swarm_timing *timing,
                           struct wire_address_book *message);

/* address_book_write, address_book_read: the stored form. `bytes` has room for
 * ADDRESS_BOOK_BYTES_MAX. address_book_write returns the length.
 * errors  what is wrong with the bytes, else NULL; *table is undefined after an error */
size_t address_book_write(const struct member_table *table, uint8_t *bytes);
MUST_CHECK const char *address_book_read(const uint8_t *bytes, size_t count,
                                         struct member_table *table);

struct tracker_loop;

/* address_book_restore: the table as an earlier start of the tracker stored it.
 * errors  those of ledger_store_read_promise; STATUS_INPUT when the stored bytes are damaged */
MUST_CHECK enum status address_book_restore(struct tracker_loop *loop, struct fault *fault);

/* address_book_run_due: save a changed table; once it is durable, send it to each member that has
 * an older version. */
void address_book_run_due(struct tracker_loop *loop);

#endif
