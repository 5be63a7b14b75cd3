/* known_members: who was let in, and where they are reached: what a tracker announces. It is
 * durable before it is announced, so that a restarted tracker sends nobody's partners away. */
#ifndef SKEP_SWARM_TRACKER_MEMBER_TABLE_H
#define SKEP_SWARM_TRACKER_MEMBER_TABLE_H

#include "base/check.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BOOK_NONE = -1,
    /* The longest form: version, count, then keys, name and address of each. */
    ADDRESS_BOOK_BYTES_MAX =
        12 + SWARM_MEMBERS_MAX * (2 * KEY_BYTES + WIRE_NAME_BYTES + MESSAGE_ADDRESS_BYTES + 4),
};

struct book_entry {
    struct public_keys keys;
    char name[WIRE_NAME_BYTES];
    char address[MESSAGE_ADDRESS_BYTES]; /* where it says that it listens; "" for nowhere */
    uint32_t is_reached;                 /* 1: somebody listens there, tried from here */
};

struct address_book {
    uint32_t version; /* of what is announced; rises with every change */
    uint32_t count;
    struct book_entry rows[SWARM_MEMBERS_MAX];
};

/* address_book_find_curve, address_book_find_identity: the row, or BOOK_NONE. */
int address_book_find_curve(const struct address_book *known,
                            const uint8_t curve[static KEY_BYTES]);
int address_book_find_identity(const struct address_book *known, const struct identity *id);

/* address_book_add: a row for these keys, the one that they have already if so.
 * limits  there is one, or fewer than SWARM_MEMBERS_MAX */
struct book_entry *address_book_add(struct address_book *known, const struct public_keys *keys);

/* address_book_remove: the rows behind it move up. */
void address_book_remove(struct address_book *known, int row);

/* address_book_announce: what everybody is told: an address is one only once it was reached. */
void address_book_announce(const struct address_book *known, const struct swarm_timing *timing,
                           struct wire_address_book *roster);

/* address_book_write, address_book_read: the form that is kept; `bytes` has room for
 * ADDRESS_BOOK_BYTES_MAX.
 * errors  what is wrong, else NULL; *known is undefined after a fault */
size_t address_book_write(const struct address_book *known, uint8_t *bytes);
MUST_CHECK const char *address_book_read(const uint8_t *bytes, size_t count,
                                         struct address_book *known);

#endif
