/* known_members: who was let in, and where they are reached: what a tracker announces. It is
 * durable before it is announced, so that a restarted tracker sends nobody's partners away. */
#ifndef SKEP_SWARM_TRACKER_KNOWN_MEMBERS_H
#define SKEP_SWARM_TRACKER_KNOWN_MEMBERS_H

#include "base/check.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KNOWN_NOBODY = -1,
    /* The longest form: version, count, then keys, name and address of each. */
    KNOWN_BYTES_MAX =
        12 + SWARM_MEMBERS_MAX * (2 * KEY_BYTES + WIRE_NAME_BYTES + MESSAGE_ADDRESS_BYTES + 4),
};

struct known_member {
    struct public_keys keys;
    char name[WIRE_NAME_BYTES];
    char address[MESSAGE_ADDRESS_BYTES]; /* where it says that it listens; "" for nowhere */
    uint32_t is_reached;                 /* 1: somebody listens there, tried from here */
};

struct known_members {
    uint32_t version; /* of what is announced; rises with every change */
    uint32_t count;
    struct known_member rows[SWARM_MEMBERS_MAX];
};

/* known_of_curve, known_of_identity: the row, or KNOWN_NOBODY. */
int known_of_curve(const struct known_members *known, const uint8_t curve[static KEY_BYTES]);
int known_of_identity(const struct known_members *known, const struct identity *id);

/* known_add: a row for these keys, the one that they have already if so.
 * limits  there is one, or fewer than SWARM_MEMBERS_MAX */
struct known_member *known_add(struct known_members *known, const struct public_keys *keys);

/* known_remove: the rows behind it move up. */
void known_remove(struct known_members *known, int row);

/* known_announce: what everybody is told: an address is one only once it was reached. */
void known_announce(const struct known_members *known, const struct swarm_timing *timing,
                    struct wire_roster *roster);

/* known_write, known_read: the form that is kept; `bytes` has room for KNOWN_BYTES_MAX.
 * errors  what is wrong, else NULL; *known is undefined after a fault */
size_t known_write(const struct known_members *known, uint8_t *bytes);
MUST_CHECK const char *known_read(const uint8_t *bytes, size_t count, struct known_members *known);

#endif
