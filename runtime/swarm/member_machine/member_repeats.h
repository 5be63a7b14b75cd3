/* member_repeats: the contributions that this member received as an owner in the newest rounds, by
 * their hashes. It rejects one that repeats a slice of an earlier round. The tracker compares whole
 * contributions only, and one changed bit gives these another hash.
 *
 * The rows are a table of buckets, and the hash of a contribution selects its bucket. In a full
 * bucket a new row replaces the oldest one. Where few members own slices to which many contribute,
 * a round has more contributions than there are rows for. An owner then remembers only one in
 * `period` of them, which their hashes select: one repeated slice is enough to find a member. */
#ifndef SKEP_SWARM_MEMBER_MACHINE_MEMBER_REPEATS_H
#define SKEP_SWARM_MEMBER_MACHINE_MEMBER_REPEATS_H

#include "runtime/swarm/protocol/protocol.h"

/* A contribution to a slice that was received in some round. */
struct repeat_row {
    uint64_t hash;          /* part of the hash of the encoded slice */
    uint32_t round : 31;    /* 0: the row has no contribution */
    uint32_t is_unused : 1; /* the COMMIT of the round has no contribution of `from` */
    uint32_t from;          /* part of the identity of the contributor */
};

struct member_repeats {
    struct repeat_row *rows;           /* the table: buckets of BUCKET_ROWS rows */
    uint32_t bucket_count;             /* number of buckets */
    uint32_t period;                   /* one in `period` contributions is remembered */
    uint32_t committed[REPEAT_ROUNDS]; /* numbers of the newest committed rounds; 0: none */
    uint32_t next;                     /* index of the oldest round in `committed` */
};

/* repetitions_memory_bytes: the size of the rows. repetitions_bind: carve the rows from *memory. */
size_t repetitions_memory_bytes(size_t slice_count);
void repetitions_bind(struct member_repeats *repeats, char **memory, size_t slice_count);

/* repetitions_begin_exchange: choose which part of the contributions to remember (one in `period`)
 * in an exchange in which this member, as an owner, expects `contributions` contributions of
 * others. repetitions_add: remember a contribution to a slice. repetitions_contain: whether these
 * bytes were contributed in an earlier round that was committed, or by another member in a round
 * that was aborted. After an aborted round, or a commit without the contribution, an honest
 * member may declare the same contribution again.
 * repetitions_on_state: record that the member has applied this COMMIT or ROLLBACK. */
void repetitions_begin_exchange(struct member_repeats *repeats, uint64_t contributions);
void repetitions_add(struct member_repeats *repeats, uint32_t round, const struct identity *from,
                     const struct hash *hash);
bool repetitions_contain(const struct member_repeats *repeats, uint32_t round,
                         const struct identity *from, const struct hash *hash);
void repetitions_on_state(struct member_repeats *repeats, const struct entry *entry);

#endif
