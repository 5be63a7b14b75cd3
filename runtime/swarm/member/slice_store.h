/* slice_store: the encoded slices that a member can send to others, in the buffers of its replica:
 * its own contribution, and results of two rounds with their owners' signatures. Received bytes
 * are first copied to `incoming`, which is aligned and which the compute thread does not read. */
#ifndef SKEP_SWARM_MEMBER_SLICE_STORE_H
#define SKEP_SWARM_MEMBER_SLICE_STORE_H

#include "runtime/swarm/member/member.h"
#include "runtime/swarm/replica/result_file.h"
#include "runtime/swarm/replica/sum_check.h"

struct outbox_item; /* uplink.h */

/* ---- sketches (sketch_store.c) ----
 *
 * The sketches of a proposal, by which this member checks its sums: those of its own contribution,
 * which it signs and sends to other voters, and those that it received. */

/* Hash and signature of one page of a member's sketches. */
struct sketch_page {
    struct hash hash;           /* hash of the encoded sketches */
    struct signature signature; /* the sender's signature of the page */
};

struct sketch_store {
    /* settings of the member loop: keys, replica and number of members */
    const struct member_loop_options *options;
    const struct wire_shape *shape; /* numbers of slices and members */
    /* seed of this member's own sketches; zero: they are missing or being computed */
    struct hash own_seed;
    struct sketch_page own_pages[SKETCH_PAGES_MAX]; /* signed statements about the pages of `own` */
    /* by seat: signatures of received pages */
    struct sketch_page pages[SWARM_MEMBERS_MAX][SKETCH_PAGES_MAX];
    uint8_t *own;      /* [slice_count * SKETCH_BYTES]: sketches of this member's contribution */
    uint8_t *received; /* [members_max][slice_count * SKETCH_BYTES]: received sketches, by seat */
};

struct slice_store { /* encoded slices that this member stores and sends */
    /* settings of the member loop: keys, replica and stored results */
    const struct member_loop_options *options;
    const struct wire_shape *shape; /* numbers of slices and members */
    struct identity id;             /* public key of this member */
    struct result_index index;      /* index of the stored results, by round and slice */
    uint8_t *incoming;              /* [slices_result_bytes_max]: the slice received last */
    size_t incoming_bytes;          /* size of the slice in `incoming` */
    struct slice_proof proof;       /* proof of the contribution that was sent last */
    /* [members_max]: contributions that the sparse result received last lists */
    struct listed_contribution *listed;
    uint32_t contribution_round;  /* round of the contribution in the replica; 0: none */
    int contribution_seat;        /* this member's seat in that round; -1: none */
    struct sketch_store sketches; /* sketches of the current proposal */
};

/* slice_store_init: initialize with the results that an earlier start left on disk. Results of
 * slices that this member owned can be sent again, because signing them again gives the same
 * signature.
 * memory  slice_store_memory_bytes bytes; the pointers to it, options and shape are kept */
size_t slice_store_memory_bytes(const struct member_loop_options *options);
void slice_store_init(struct slice_store *store, const struct member_loop_options *options,
                      const struct wire_shape *shape, void *memory);

/* slice_store_receive: copy the bytes of a CONTRIBUTION or RESULT to `incoming`, and put this
 * member's encoding back into the list of a sparse codec that lacks it. Returns false when the
 * length does not match that of the slice, or this member's contribution of the round is not
 * available.
 * slice_store_compute_values: set the norm of *values from `incoming`, and for a sparse result also
 * the value limit and the listed contributions. The norm is infinite if `incoming` is not valid. */
MUST_CHECK bool slice_store_receive(struct slice_store *store, const struct message *message,
                                    const uint8_t *bytes, size_t byte_count);
void slice_store_compute_values(struct slice_store *store, const struct message *message,
                                struct message_values *values);

/* slice_store_keep_result, slice_store_keep_contribution: copy `incoming` into the replica: as
 * the result that `message` describes, or as the contribution of a seat, with this proof, in its
 * slot. */
void slice_store_keep_result(struct slice_store *store, const struct message *message);
void slice_store_keep_contribution(struct slice_store *store, uint32_t seat, uint32_t slot,
                                   const struct slice_proof *proof);

/* slice_store_drop_result: drop the result of the slice, before the compute thread overwrites it.
 * slice_store_add_own_result: sign and index the result that the compute thread wrote for the
 * job's slice. */
void slice_store_drop_result(struct slice_store *store, uint32_t round, uint32_t slice);
void slice_store_add_own_result(struct slice_store *store, const struct member_job *sum,
                                const struct hash *hash);

/* slice_store_record_own_contribution: record that the replica has this member's contribution to
 * `round`, in which it has `seat`. round 0: training is overwriting the contribution. */
void slice_store_record_own_contribution(struct slice_store *store, uint32_t round, int seat);

/* Bytes that follow a message. With a gap, they are all bytes of a result but those of the
 * receiver's own contribution, which the receiver inserts. */
struct slice_data {
    const uint8_t *bytes;          /* NULL: not available */
    uint64_t byte_count;           /* size in bytes, including the gap of gap_bytes */
    uint64_t gap_begin, gap_bytes; /* position and size of the gap */
};

/* slice_store_find_bytes: the bytes of a CONTRIBUTION or RESULT, from the replica or from disk.
 * *message receives the fields of a result in the replica, or the proof of a contribution. The
 * proof, and bytes from disk, which are in `incoming`, are valid until the next call. */
struct slice_data slice_store_find_bytes(struct slice_store *store, const struct outbox_item *item,
                                         struct message *message);

/* slice_store_add_evidence: complete an accusation of a false sum with the signature of the
 * accused result. */
void slice_store_add_evidence(struct slice_store *store, struct message *message);

/* sketch_store_init: initialize without sketches.
 * memory  sketch_store_memory_bytes bytes; the pointers to it, options and shape are kept */
size_t sketch_store_memory_bytes(const struct member_loop_options *options);
void sketch_store_init(struct sketch_store *store, const struct member_loop_options *options,
                       const struct wire_shape *shape, void *memory);

/* sketch_store_add_to_job: set the sketches in a job of the compute thread. A SKETCH job
 * overwrites this member's own sketches, so they are not sent from then on.
 * sketch_store_sign_own: sign the sketches that a SKETCH job has computed. */
void sketch_store_add_to_job(struct sketch_store *store, struct member_job *job);
void sketch_store_sign_own(struct sketch_store *store, const struct member_job *job);

/* sketch_store_page_bytes: size of the page that begins with this slice.
 * sketch_store_find_page: the bytes of a page of this member's own sketches, whose signature is
 * copied to *message; NULL if they belong to another seed than the item's.
 * sketch_store_keep_page: store a page that a seat sent.
 * sketch_store_add_evidence: complete an accusation of false sketches with the statement about the
 * page that contains message->slice. */
uint64_t sketch_store_page_bytes(const struct wire_shape *shape, uint32_t slice);
const uint8_t *sketch_store_find_page(const struct sketch_store *store,
                                      const struct outbox_item *item, struct message *message);
void sketch_store_keep_page(struct sketch_store *store, uint32_t seat,
                            const struct message *message, const uint8_t *bytes);
void sketch_store_add_evidence(const struct sketch_store *store, struct message *message);

#endif
