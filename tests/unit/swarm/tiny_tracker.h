/* tiny_tracker: the tracker's state machine with real sockets and its ledger in memory, for tests
 * of a member's network thread. */
#ifndef SKEP_TESTS_UNIT_SWARM_TINY_TRACKER_H
#define SKEP_TESTS_UNIT_SWARM_TINY_TRACKER_H

#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/tracker_machine/tracker_machine.h"
#include "runtime/swarm/wire/wire.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TINY_ENTRIES_MAX = 256, TINY_MEMBERS_MAX = 8 };

struct tiny_member {
    struct wire_member as;
    bool is_known;
};

struct tiny_tracker {
    struct key_pairs keys, operator_keys;
    struct tracker_settings settings;
    struct wire_shape shape;
    char address[MESSAGE_ADDRESS_BYTES];

    struct region region;
    struct messenger *messenger;
    struct tracker *machine;
    struct tracker_record record;
    struct actions actions;
    struct wire_arrays arrays;
    struct entry open;
    uint8_t *payload;
    size_t payload_capacity;
    struct wire_address_book roster;
    struct roster_epoch epoch; /* the operator's newest */
    char seen_ip[MESSAGE_ADDRESS_BYTES];

    pthread_t thread;
    atomic_bool is_over;
    atomic_bool lets_in;       /* false: every member is rejected */
    atomic_int lie;            /* its misbehaviour: enum tiny_lie */
    pthread_mutex_t lock;      /* of the ledger */
    struct entry *entries;     /* [TINY_ENTRIES_MAX] */
    struct ledger_chain chain; /* after the last entry */
    uint32_t entry_count;
};

enum tiny_lie { TINY_HONEST, TINY_OTHER_HISTORY };

/* tiny_tracker_start: a new swarm with this genesis root.
 * limits  tracker->settings and tracker->shape are set */
void tiny_tracker_start(struct tiny_tracker *tracker, const struct hash *root);
void tiny_tracker_stop(struct tiny_tracker *tracker);
void tiny_tracker_free(struct tiny_tracker *tracker);

/* tiny_tracker_entry: the entry at this index, valid until the end; NULL: there are fewer. */
const struct entry *tiny_tracker_entry(struct tiny_tracker *tracker, uint32_t number);

#endif
