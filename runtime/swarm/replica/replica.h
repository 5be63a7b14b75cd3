/* replica: a member's copy of the outer state, and the arithmetic of a round on it: encoding
 * this member's contribution, averaging the contributions to a slice, the outer step and the
 * hashes of the state. This module also fetches the state from other members leaf by leaf, and
 * reads and writes the files of results. It knows only bytes and ranges of the flat parameter
 * space: no layers, no sockets. runtime/swarm/member and runtime/inner_training call it.
 *
 * The outer state is a list of leaves (merkle.h). Leaf i is the parameters in elements
 * [i * LEAF_ELEMENTS, (i + 1) * LEAF_ELEMENTS), then the momentum of the same elements, each fp32
 * little-endian. The last leaf may be shorter:
 *
 *     leaf i   | params [e, e + n) | momentum [e, e + n) |     e = i * 131072, n <= 131072
 *
 * With a sparse codec there is no momentum, and a leaf has twice as many parameters:
 *
 *     leaf i   | params [e, e + n)                       |     e = i * 262144, n <= 262144
 *
 * Each leaf therefore advances by a round's results independently of the others.
 *
 * public   leaf_fetch.h replica_cuda.h opposition.h result_file.h sparse_result.h state_file.h
 *          sum_check.h */
#ifndef SKEP_SWARM_REPLICA_REPLICA_H
#define SKEP_SWARM_REPLICA_REPLICA_H

#include "base/check.h"
#include "base/device_memory.h"
#include "kernels/codec.h"
#include "kernels/sparse.h"
#include "runtime/swarm/ledger/contribution.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/merkle.h"
#include "transport/messages/frame.h"

#include <stdbool.h>
#include <stdint.h>

/* slices: the fixed partition of the flat parameter space [0, P) into the units of an exchange.
 *
 *     [0, P)   |---- slice 0 ----|---- slice 1 ----| ... |-- last --|     in blueprint order
 *
 * The partition depends only on P, the codec and members_max, so all members compute the same
 * one. */

enum {
    SLICES_PER_MEMBER = 4, /* target number of slices for each member */
    /* number of elements of a slice granule, a multiple of each codec's block and of each SIMD
     * vector; with a sparse codec, SPARSE_BLOCK takes its place */
    SLICE_GRANULE = 256,
    /* maximum encoded size of a slice; 4096 bytes of a payload are reserved for other fields */
    SLICE_BYTES_MAX = FRAME_PAYLOAD_MAX - 4096,
    SLICE_BYTES_MIN = 16 << 10, /* minimum encoded size of a slice, unless the model is smaller */
    /* minimum encoded size of a slice with a sparse codec, so that a proof is at most a ninth of a
     * contribution */
    SLICE_SPARSE_BYTES_MIN = 4 << 10,
};

struct slices {
    int64_t parameter_count;    /* number of parameters of the model */
    enum codec codec;           /* encoding of the slices, unless they are sparse */
    struct sparse_shape sparse; /* sparse encoding; if its `keep` is 0, `codec` applies */
    /* elements per slice, a multiple of the granule; the last slice may have fewer */
    int64_t elements;
    uint32_t count;       /* number of slices, 1 .. SWARM_SLICES_MAX */
    uint32_t members_max; /* with a sparse codec: maximum number of contributions in a result */
    uint64_t bytes_max;   /* encoded size of the longest slice, at most SLICE_BYTES_MAX */
    uint64_t bytes;       /* encoded size of all slices */
};

struct slice_range {        /* the elements of a slice, and the position and size of its bytes */
    int64_t begin, end;     /* first element, and the one after the last */
    uint64_t offset;        /* offset of the slice in the concatenated encodings */
    uint64_t bytes;         /* encoded size of the slice */
    uint64_t result_offset; /* offset of the result in the results of a round */
    uint64_t result_bytes; /* size of the longest result: `bytes`, or a list of members_max parts */
};

/* slices_are_sparse: whether the codec is sparse (kernels/sparse.h). */
static inline bool slices_are_sparse(const struct slices *slices) {
    return slices->sparse.keep > 0;
}

/* slices_divide: choose the longest slices with which each of members_max members gets
 * SLICES_PER_MEMBER slices, from SLICE_BYTES_MIN to SLICE_BYTES_MAX encoded bytes each. So even a
 * small model is distributed over all members.
 * limits  parameter_count > 0, members_max > 0
 * errors  STATUS_INPUT when P needs more than SWARM_SLICES_MAX slices; *slices untouched */
MUST_CHECK enum status slices_divide(int64_t parameter_count, enum codec codec,
                                     uint32_t members_max, struct slices *slices,
                                     struct fault *fault);

/* slices_divide_sparse: slices_divide for a sparse codec. The encoding of a slice has at least
 * SLICE_SPARSE_BYTES_MIN bytes, and a result with the contributions of all members at most
 * SLICE_BYTES_MAX. */
MUST_CHECK enum status slices_divide_sparse(int64_t parameter_count, struct sparse_shape shape,
                                            uint32_t members_max, struct slices *slices,
                                            struct fault *fault);

/* slices_codec_name: the name of the codec.
 * slices_sent_values: with a sparse codec, the number of values that a whole contribution sends;
 * 0 with others.
 * slices_result_bytes_max: size of the longest result of a slice.
 * slices_results_bytes: size of the memory for the results of a round. */
const char *slices_codec_name(const struct slices *slices);
uint64_t slices_sent_values(const struct slices *slices);
uint64_t slices_result_bytes_max(const struct slices *slices);
uint64_t slices_results_bytes(const struct slices *slices);

/* slices_leaf_elements: the number of elements of each leaf of the outer state but the last. */
int64_t slices_leaf_elements(const struct slices *slices);

/* slices_range: return the elements and encoded bytes of slice `index`.
 * limits  index < slices->count */
struct slice_range slices_range(const struct slices *slices, uint32_t index);

/* slices_zero_root: the root of a contribution whose values are all 0. */
struct hash slices_zero_root(const struct slices *slices);

/* replica_device: a device that does a replica's arithmetic when the trained weights are in its
 * memory. The outer state stays in pinned host memory, where it is hashed, sent and saved. The
 * device works on one chunk at a time and has two slots, so it copies one chunk while it computes
 * on the other:
 *
 *     slot 0   | in | work | out |        | in | work | out |
 *     slot 1        |    in    | work | out |     |  in   | work | out |
 *
 * Its results are bit-identical to those of the CPU (kernels/codec.h, kernels/outer.h). */

enum { REPLICA_DEVICE_SLOTS = 2 }; /* number of chunks that a device processes at a time */

/* Elements [begin, begin + count) of the flat parameter space: whole leaves, or whole codec
 * blocks of a slice. */
struct replica_chunk {
    int64_t begin, count; /* first element, and number of elements */
};

/* The outer step of one chunk with the results of `round`. */
struct device_step {
    struct replica_chunk chunk; /* elements to step */
    uint32_t round;             /* round whose results are applied */
    float outer_momentum;       /* outer momentum of `round` */
    float *params, *momentum;   /* [chunk.count], pinned: receive the new params and momentum */
    /* whether the new params are also copied to the device's inner weights */
    bool resets_inner;
};

struct replica_device;

/* Methods of a device. encode, advance and step return once the work is enqueued; before them,
 * the caller must have waited for the slot's previous work. The device records its first failure
 * (program_failure) and then ignores all further work. No method allocates. */
struct replica_device_methods {
    /* Encode the contribution of a chunk: outer - inner weights plus the feedback. */
    void (*encode)(struct replica_device *device, int slot, struct replica_chunk chunk);
    /* Replace the feedback of a chunk by the encoding error of the chunk's contribution. */
    void (*advance)(struct replica_device *device, int slot, struct replica_chunk chunk);
    void (*step)(struct replica_device *device, int slot, const struct device_step *step);
    /* Wait until the slot's results are in host memory. Returns false if the slot encoded a value
     * that is not finite. */
    MUST_CHECK bool (*wait)(struct replica_device *device, int slot);
    /* Copy the outer weights to the inner weights on the device. */
    void (*reset_inner)(struct replica_device *device);
    void (*release)(struct replica_device *device);
};

struct replica_device {
    const struct replica_device_methods *methods; /* methods of this kind of device */
};

/* Memory of a device in bytes. It depends only on the shape, so any machine can plan it. */
struct replica_device_memory {
    uint64_t slots;   /* device memory: three vectors and one encoding for each slot */
    uint64_t scratch; /* pinned, in place of replica_memory.scratch: two vectors for each slot, and
                         REPLICA_DEVICE_ALIGNMENT bytes */
};

/* alignment of a device slot's buffers, and size of its counter, in bytes */
enum { REPLICA_DEVICE_ALIGNMENT = 64 };

struct replica_shape;
struct replica_device_memory replica_device_memory_of(const struct replica_shape *shape);

enum {
    /* number of elements of a leaf, each a parameter and its momentum in f32 */
    LEAF_ELEMENTS = LEAF_BYTES / 8,
    /* number of elements of a leaf with a sparse codec, each a parameter in f32 */
    LEAF_SPARSE_ELEMENTS = LEAF_BYTES / 4,
    /* number of rounds whose results are in memory: the open one and the previous one */
    RESULT_ROUNDS = 2,
    /* maximum number of elements of a chunk, which is processed at a time: a leaf for each of eight
     * threads */
    REPLICA_CHUNK_ELEMENTS = 8 * LEAF_ELEMENTS,
};

/* A part of the inner weights: elements [begin, begin + count) of the flat parameter space,
 * fp32. */
struct flat_span {
    int64_t begin, count; /* first element, and number of elements */
    float *values;        /* inner weights of these elements */
    /* access to the memory of `values`; NULL: the CPU can access that memory directly */
    const struct device_memory *device_memory;
};

/* Memory of a replica in bytes, one extent of the plan for each field; 0: not needed. */
struct replica_memory {
    uint64_t params, momentum;   /* size of f32 [P] each: parameters and, without sparse codec,
                                    outer momentum */
    uint64_t feedback, residual; /* size of f32 [P], for codecs with error feedback: error of this
                                    member's contributions that is still to be sent, and, of int4
                                    only, the error of re-encoding the means of own slices */
    uint64_t contribution;       /* size of this member's encoded contribution */
    /* size of the Merkle tree and the norms of the contribution's slices (contribution.h) */
    uint64_t declared;
    uint64_t results;          /* size of the encoded results of RESULT_ROUNDS rounds */
    uint64_t slots;            /* size of others' contributions to slices that this member owns:
                                    members_max x CONTRIBUTION_SLOTS_PER_MEMBER x bytes_max, and
                                    with a sparse codec the proof of each */
    uint64_t residual_sources; /* size of the table that assigns residuals to results */
    /* size of the hashes of the leaves of the current and of the voted state */
    uint64_t leaves;
    uint64_t scratch; /* size of two buffers of REPLICA_CHUNK_ELEMENTS f32 elements */
};

struct replica_shape {
    struct slices slices;             /* division of the parameters into slices */
    uint32_t members_max;             /* maximum number of members */
    float outer_rate, outer_momentum; /* learning rate and momentum of the outer step */
    /* swarm.outer_lr / swarm.outer_gain, from which the momentum of a round follows; 0: the
     * momentum is outer_momentum in every round */
    double rate_per_gain;
};

/* replica_outer_momentum: the outer momentum of a round in whose OPEN `members` members have seats:
 * outer_momentum, or with a gain G the one that makes rate / (1 - momentum) G sqrt(members), but at
 * least 0. All verifiers of a round compute the same bits: division, square root and difference are
 * exact up to one rounding in fp64, and nothing can be fused. */
float replica_outer_momentum(const struct replica_shape *shape, uint32_t members);

struct replica_memory replica_memory_of(const struct replica_shape *shape);

/* The result to which the residual of a slice belongs. Dividing the residual by `divisor` gives the
 * feedback: a member's contribution enters the mean with only its share of the weight. */
struct residual_source {
    struct hash result; /* hash of the result that the residual belongs to */
    float divisor; /* this member's share, at least a quarter of an equal share; 0: no feedback */
};

struct replica {
    struct replica_shape shape;    /* sizes and outer rates */
    const struct compute *compute; /* kernels and threads that compute on the CPU */
    struct replica_device *device; /* device for most of the arithmetic; NULL: `compute` does all */
    float *params, *momentum;      /* [P]: outer state; momentum is NULL with a sparse codec */
    float *feedback, *residual;    /* [P], see struct replica_memory; NULL: the codec has none */
    uint8_t *contribution;         /* [slices.bytes]: this member's encoded contribution */
    /* [merkle_list_node_count(slices.count)]: Merkle tree over the slices of `contribution` */
    struct hash *declared_nodes;
    double *declared_norms; /* [slices.count]: norms of the slices of `contribution` */
    /* [RESULT_ROUNDS][slices_results_bytes]: the results of round r are in row r % RESULT_ROUNDS */
    uint8_t *results;
    /* [members_max * CONTRIBUTION_SLOTS_PER_MEMBER]: slots for other members' contributions */
    uint8_t *slots;
    /* [slices.count]: the result to which each slice's residual belongs; NULL without `residual` */
    struct residual_source *residual_sources;
    /* [leaf_count] each: hashes of the current leaves, and of the leaves of the state voted for */
    struct hash *leaves, *voted_leaves;
    float *scratch; /* two buffers of chunk length, or four with a device (replica_scratch) */
    const struct flat_span *parts; /* spans of inner weights in ascending order that cover [0, P) */
    int part_count;                /* number of elements of `parts` */
    struct hash root;              /* root of the current state */
    struct hash voted_root;        /* root over `voted_leaves` */
    uint32_t voted_round; /* round whose results lead to the state with voted_root; 0: none */
};

/* replica_bind_declared: set declared_nodes and declared_norms to point into `memory`, which has
 * replica_memory.declared bytes and is 8-byte aligned.
 * limits  replica->shape is set */
void replica_bind_declared(struct replica *replica, void *memory);

/* replica_leaf_count, replica_state_bytes: number of leaves and of bytes of the whole outer state.
 * */
uint64_t replica_leaf_count(const struct slices *slices);
uint64_t replica_state_bytes(const struct slices *slices);

/* replica_init_state: copy the inner weights to params, zero momentum and feedback, and compute the
 * leaf hashes and the root. replica_refresh_hashes: compute the leaf hashes and the root again,
 * after the caller filled params and momentum from a snapshot. */
void replica_init_state(struct replica *replica);
void replica_refresh_hashes(struct replica *replica);

/* replica_release_device: release the device, if there is one. From then on, `compute` does all
 * work. */
void replica_release_device(struct replica *replica);

/* replica_encode_contribution: encode this member's contribution to every slice: outer - inner
 * weights plus the feedback, which stays unchanged. Returns false if a value is not finite; the
 * contribution is then all zeros, and the member must declare 0 tokens. */
MUST_CHECK bool replica_encode_contribution(struct replica *replica);

/* replica_declare_contribution: compute the norms of the slices of the encoded contribution and the
 * tree over them. Returns its root.
 * norm  receives the L2 norm of the contribution: the root of the sum of codec_energy over all
 *       slices in ascending order, so it depends only on the bytes */
struct hash replica_declare_contribution(struct replica *replica, double *norm);

/* replica_decode_contribution: decode the encoded contribution.
 * shapes  values [P] */
void replica_decode_contribution(const struct replica *replica, float *values);

/* replica_prove_slice: the proof for a slice of the declared contribution. */
void replica_prove_slice(const struct replica *replica, uint32_t slice, struct slice_proof *proof);

/* replica_slice_energy: the sum of the squares of the decoded values of a slice.
 * limits  the bytes passed replica_encoding_is_valid */
double replica_slice_energy(const struct replica *replica, uint32_t slice, const uint8_t *bytes);

/* replica_encoding_is_valid: whether received bytes are an encoding of the slice with only finite
 * values. */
MUST_CHECK bool replica_encoding_is_valid(const struct replica *replica, uint32_t slice,
                                          const uint8_t *bytes, uint64_t size);

/* One contribution to the mean of a slice. */
struct addend {
    const uint8_t *bytes; /* the encoded contribution */
    uint64_t weight;      /* weight of the contribution, in tokens */
    /* factor in [0, 1] that limits the norm of the contribution (norms_clip_factor) */
    float clip;
    /* whether this is the member's own contribution, whose share is the residual's divisor */
    bool is_own;
};

/* replica_sum: the weighted mean of the addends, each times its clip factor, summed in their order
 * (roster order) and re-encoded into replica_result(round, slice); returns its hash. The factor of
 * an addend is its share of the weights, rounded to fp32, times its clip factor. The result is all
 * zeros when the total weight is 0 or at least 2^53, and when the mean is too large for the codec.
 * limits  the addends passed replica_encoding_is_valid */
struct hash replica_sum(struct replica *replica, uint32_t round, uint32_t slice,
                        const struct addend *addends, uint32_t count);

/* replica_write_list: with a sparse codec, write the list of the addends into replica_result(round,
 * slice) instead of their mean (sparse_result.h). Returns the hash of the list.
 * limits  the addends are in the order of their seats, `seats`; they passed
 *         replica_encoding_is_valid; value_limit is norms_value_limit of the round */
struct addend_list {
    uint64_t seats;               /* mask of the seats of the addends */
    const struct addend *addends; /* addends, one for each seat of the mask */
    /* for each addend, the proof of another member's contribution; NULL: is_own */
    const struct slice_proof *const *proofs;
    double value_limit; /* largest magnitude of a value in a mean */
};
struct hash replica_write_list(struct replica *replica, uint32_t round, uint32_t slice,
                               const struct addend_list *list);

/* replica_result: return the bytes of a slice's result. replica_own_contribution: the bytes of this
 * member's contribution to a slice. replica_contribution_slot: buffer `slot` of bytes_max bytes for
 * contributions of seat `seat`. replica_slot_proof: with a sparse codec, the proof of the
 * contribution in that buffer. */
uint8_t *replica_result(const struct replica *replica, uint32_t round, uint32_t slice);
uint8_t *replica_own_contribution(const struct replica *replica, uint32_t slice);
uint8_t *replica_contribution_slot(const struct replica *replica, uint32_t seat, uint32_t slot);
struct slice_proof *replica_slot_proof(const struct replica *replica, uint32_t seat, uint32_t slot);

/* replica_root_after: compute the root that the state would have after the results of `round`, in
 * which `members` members have seats. The state stays unchanged; the hashes of the new leaves are
 * kept in voted_leaves for replica_apply.
 * errors  the zero hash when a value of that state would not be finite: infinities and NaN have
 *         different bits on different hardware, so they never enter a hash of the swarm */
struct hash replica_root_after(struct replica *replica, uint32_t round, uint32_t members);

/* replica_apply: apply the results of entry->round to the outer state, then copy the outer weights
 * to the inner weights; returns the new root. It also updates the feedback of the slices to which
 * `seat` contributed or that it owns, and with a sparse codec of all slices if it contributed to
 * any; with seat -1 the feedback stays unchanged. Leaves hashed for
 * a vote on the same root are not hashed again.
 * limits  with a seat, contribution and inner weights are unchanged since
 *         replica_encode_contribution; no result of the round has changed since replica_root_after
 *         returned entry->root */
struct hash replica_apply(struct replica *replica, const struct entry *entry, int seat);

/* replica_clear_feedback: zero the feedback, because it belongs to states that were rolled back.
 * replica_clear_sent_feedback: zero the feedback of the slices in which `entry` contains a
 * contribution of `id` from an earlier process. That contribution included the feedback, and its
 * encoding error is unknown. */
void replica_clear_feedback(struct replica *replica);
void replica_clear_sent_feedback(struct replica *replica, const struct entry *entry,
                                 const struct identity *id);

/* replica_reset_inner: copy the outer weights to the inner weights. The caller then refreshes the
 * compute copies. */
void replica_reset_inner(struct replica *replica);

/* replica_read_leaf: copy leaf `index` into bytes [LEAF_BYTES]; returns its length.
 * replica_write_leaf: overwrite leaf `index` with bytes that the caller checked by their hash. */
size_t replica_read_leaf(const struct replica *replica, uint64_t index, uint8_t *bytes);
void replica_write_leaf(struct replica *replica, uint64_t index, const uint8_t *bytes);

/* replica_replay_leaf: apply the results of `round`, in which `members` members had seats, to leaf
 * `index` only, with bits identical to those of replica_apply, and update the leaf's hash. Root,
 * feedback and inner weights stay unchanged.
 * limits  the results of the slices that overlap the leaf are present; `compute` belongs to the
 *         calling thread; no other thread uses params, momentum and scratch */
void replica_replay_leaf(const struct compute *compute, struct replica *replica, uint64_t index,
                         uint32_t round, uint32_t members);

#endif
