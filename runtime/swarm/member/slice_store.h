/* slice_store: the encoded slices that a member can send to others, in the buffers of its replica:
 * its own contribution, and results of two rounds with their owners' signatures. Received bytes are
 * placed in `incoming` first, aligned and apart from everything that the compute thread reads. */
#ifndef SKEP_SWARM_MEMBER_SLICE_STORE_H
#define SKEP_SWARM_MEMBER_SLICE_STORE_H

#include "runtime/swarm/member/member.h"
#include "runtime/swarm/replica/result_file.h"

struct outbox_item; /* uplink.h */

struct slice_store { /* encoded slices that this member stores and sends */
    const struct member_loop_options *options;
    const struct wire_shape *shape;
    struct identity id;          /* of this member */
    struct result_index index;   /* finds the stored results */
    uint8_t *incoming;           /* [slices.bytes_max]: the slice received last */
    size_t incoming_bytes;       /* size of the slice in `incoming` */
    struct slice_proof proof;    /* of the contribution that was sent last */
    uint32_t contribution_round; /* round of the contribution in the replica; 0: none */
};

/* slice_store_init: initialize with the results that an earlier start left on disk. Results of
 * slices that this member owned can be sent again, because signing them again gives the same
 * signature.
 * memory  slice_store_memory_bytes bytes; the pointers to it, options and shape are kept */
size_t slice_store_memory_bytes(const struct member_loop_options *options);
void slice_store_init(struct slice_store *store, const struct member_loop_options *options,
                      const struct wire_shape *shape, void *memory);

/* slice_store_receive: copy received bytes to `incoming`. Returns false when their length is not
 * that of the slice. slice_store_incoming_norm: the L2 norm of the values in `incoming`, or
 * infinity if that is not a valid encoding of the slice. */
MUST_CHECK bool slice_store_receive(struct slice_store *store, uint32_t slice, const uint8_t *bytes,
                                    size_t byte_count);
double slice_store_incoming_norm(const struct slice_store *store, uint32_t slice);

/* slice_store_keep_result, slice_store_keep_contribution: copy `incoming` into the replica: as
 * the result that `message` describes, or as the contribution of a seat in its slot. */
void slice_store_keep_result(struct slice_store *store, const struct message *message);
void slice_store_keep_contribution(struct slice_store *store, uint32_t seat, uint32_t slot);

/* slice_store_begin_sum: the result of the slice is about to be overwritten.
 * slice_store_add_own_result: the compute thread wrote the result of the job's slice; sign it. */
void slice_store_begin_sum(struct slice_store *store, uint32_t round, uint32_t slice);
void slice_store_add_own_result(struct slice_store *store, const struct member_job *sum,
                                const struct hash *hash);

/* slice_store_set_contribution: the contribution in the replica is that of `round`; 0: it is being
 * overwritten. */
void slice_store_set_contribution(struct slice_store *store, uint32_t round);

/* slice_store_find_bytes: the bytes of a CONTRIBUTION or RESULT, from the replica or from disk;
 * NULL when they are no longer available. For a result in the replica, its fields are copied to
 * *message, and for a contribution its proof. The proof is valid until the next call, as are bytes
 * from disk, which are in `incoming`. */
const uint8_t *slice_store_find_bytes(struct slice_store *store, const struct outbox_item *item,
                                      struct message *message);

#endif
