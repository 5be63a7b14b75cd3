/* entry_fixture: entries of a small swarm, signed, for the tests of what keeps them. */
#ifndef SKEP_TESTS_UNIT_SWARM_ENTRY_FIXTURE_H
#define SKEP_TESTS_UNIT_SWARM_ENTRY_FIXTURE_H

#include "runtime/swarm/ledger/ledger.h"

#include <stdint.h>

struct entry_fixture {
    uint32_t member_count, slice_count;
    struct key_pairs tracker;
    struct key_pairs operator_keys; /* delegates to the tracker in the genesis */
    struct key_pairs members[SWARM_MEMBERS_MAX];
    struct entry_slice *slices; /* slice_count, of the last commit */
    struct hash head, root;
    struct ledger_chain chain; /* after the last entry */
    uint64_t position;
    uint32_t guest_count;            /* the last seats of a roster are guests' */
    struct roster_epoch next_roster; /* becomes valid with the next OPEN; serial 0: none */
    uint64_t start; /* of the tracker, whose genesis needs leases; 0: it needs none */
};

/* entry_fixture_init: keys that follow from their seat's number; `slices` are the caller's. */
void entry_fixture_init(struct entry_fixture *fixture, uint32_t member_count,
                        struct entry_slice *slices, uint32_t slice_count);

/* entry_fixture_next: entry `index` of a chain: a genesis, then open and commit in turn, signed
 * by the tracker, or by a quorum. Each gives the next its `prev`.
 * entry_fixture_delegate: add a delegation to these keys, which sign from then on. */
void entry_fixture_next(struct entry_fixture *fixture, uint32_t index, struct entry *entry);
void entry_fixture_delegate(struct entry_fixture *fixture, const struct key_pairs *tracker,
                            uint64_t serial, struct entry *entry);

/* entry_fixture_enroll: the next OPEN has a roster epoch that names the first `count` members. */
void entry_fixture_enroll(struct entry_fixture *fixture, uint64_t serial, uint32_t count,
                          bool is_open);

/* entry_fixture_lease: give an OPEN or ABORT the start, and the resignations of these electors.
 * entry_fixture_sign: an entry that was changed gets its hash and signatures anew. */
void entry_fixture_lease(const struct entry_fixture *fixture, uint64_t resigned,
                         struct entry *entry);
void entry_fixture_sign(const struct entry_fixture *fixture, struct entry *entry);

#endif
