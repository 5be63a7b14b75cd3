/* replica: a member's copy of the outer state, and the arithmetic of a round on it: encoding this
 * member's contribution, averaging the contributions to a slice, the outer step, the hashes of the
 * state. The room also fetches the state from other members leaf by leaf, and reads and writes the
 * files of results. It knows only bytes and ranges of the flat parameter space: no layers, no
 * sockets. runtime/swarm/member and runtime/inner_training call it.
 *
 * The outer state is a list of leaves (merkle.h). Leaf i is the parameters in elements
 * [i * LEAF_ELEMENTS, (i + 1) * LEAF_ELEMENTS), then the momentum of the same elements, each fp32
 * little-endian. The last leaf may be shorter:
 *
 *     leaf i   | params [e, e + n) | momentum [e, e + n) |     e = i * 131072, n <= 131072
 *
 * Each leaf therefore advances by a round's results independently of the others.
 *
 * public   leaf_fetch.h replica_cuda.h result_file.h result_index.h */
#ifndef SKEP_SWARM_REPLICA_REPLICA_H
#define SKEP_SWARM_REPLICA_REPLICA_H

#include "base/far.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/merkle.h"
#include "runtime/swarm/replica/replica_device.h"
#include "runtime/swarm/replica/slices.h"

enum {
    LEAF_ELEMENTS = LEAF_BYTES / 8,
    RESULT_ROUNDS = 2, /* rounds whose results are in memory: the open one and the one before */
    REPLICA_CHUNK_ELEMENTS =
        8 * LEAF_ELEMENTS, /* worked on at a time: a leaf for each of a few threads */
};

/* Elements [begin, begin + count) of the flat space as the inner optimizer has them, fp32. */
struct flat_span {
    int64_t begin, count;
    float *values;
    const struct device_memory *far; /* what `values` is in; NULL: ordinary memory */
};

/* What a replica needs of memory: one plan line each. Bytes; 0: not needed. */
struct replica_memory {
    uint64_t params, momentum;   /* f32 [P] */
    uint64_t feedback, residual; /* f32 [P], of codecs with error feedback: what was not sent yet,
                                    and what the re-encoding of the own slices' means left */
    uint64_t contribution;       /* own, encoded */
    uint64_t results;            /* RESULT_ROUNDS x slices, encoded */
    uint64_t slots;              /* others' contributions to own slices:
                                    members_max x CONTRIBUTION_SLOTS_PER_MEMBER x bytes_max */
    uint64_t marks;              /* per slice, what `residual` there is of; where there is one */
    uint64_t leaves;             /* names: of the state, and of the one that is voted on */
    uint64_t scratch;            /* REPLICA_CHUNK_ELEMENTS elements in f32, twice */
};

struct replica_shape {
    struct slices slices;
    uint32_t members_max;
    float outer_rate, outer_momentum;
};

struct replica_memory replica_memory_of(const struct replica_shape *shape);

/* A result that this member made: what its residual is of, and what of the mean the member's own
 * contribution is, by which the residual is divided to become feedback. */
struct residual_source {
    struct hash result;
    float divisor; /* the own share, but at least a quarter of a fair one; 0: not to be used */
};

struct replica {
    struct replica_shape shape;
    const struct compute *compute;
    struct replica_device *device; /* does what it can; NULL: `compute` does it all */
    float *params, *momentum;      /* [P] */
    float *feedback, *residual;    /* [P] or NULL */
    uint8_t *contribution;         /* [slices.bytes] */
    uint8_t *results; /* [RESULT_ROUNDS][slices.bytes]: round r in row r % RESULT_ROUNDS */
    uint8_t *slots;   /* [members_max * CONTRIBUTION_SLOTS_PER_MEMBER][slices.bytes_max] */
    struct residual_source *marks; /* [slices.count], or NULL as `residual` */
    struct hash *leaves, *voted;   /* [leaf_count] each */
    float *scratch;
    const struct flat_span *parts; /* ascending, together all of [0, P) */
    int part_count;
    struct hash root;
    struct hash voted_root; /* what `voted` has the names of, after round `voted_round`; 0: none */
    uint32_t voted_round;
};

/* replica_leaf_count, replica_state_bytes: of the whole outer state. */
uint64_t replica_leaf_count(int64_t parameter_count);
uint64_t replica_state_bytes(int64_t parameter_count);

/* replica_begin: from the inner weights as they are, momentum and feedback zero; names and root of
 * the leaves are made. replica_refresh: names and root again, after params and momentum were filled
 * by the caller (a snapshot). */
void replica_begin(struct replica *replica);
void replica_refresh(struct replica *replica);

/* replica_encode: the own contribution to every slice, from outer - inner and the feedback; hashes
 * [slices.count]. false when a value is not finite: the member must declare no tokens, and the
 * contribution is then all zeros. The feedback is untouched. */
MUST_CHECK bool replica_encode(struct replica *replica, struct hash *hashes);

/* replica_sound: whether bytes that came for a slice are an encoding of it, finite throughout. */
MUST_CHECK bool replica_sound(const struct replica *replica, uint32_t slice, const uint8_t *bytes,
                              uint64_t size);

/* One contribution to a sum. */
struct addend {
    const uint8_t *bytes;
    uint64_t weight; /* tokens */
};

/* replica_sum: the mean of the addends in their order (roster order), re-encoded into
 * replica_result(round, slice); its hash. Zeros for a total weight of 0, for one that no tokens
 * come to (2^53), and for a mean that is too large for the codec. `own_weight` is the member's own
 * among them (0: none), for the residual of the re-encoding.
 * limits  the addends passed replica_sound */
struct hash replica_sum(struct replica *replica, uint32_t round, uint32_t slice,
                        const struct addend *addends, uint32_t count, uint64_t own_weight);

/* replica_result: where the result of a slice lies. replica_own: where the own contribution does.
 * replica_slot: where contribution `slot` of seat `seat` lies, bytes_max of room. */
uint8_t *replica_result(const struct replica *replica, uint32_t round, uint32_t slice);
uint8_t *replica_own(const struct replica *replica, uint32_t slice);
uint8_t *replica_slot(const struct replica *replica, uint32_t seat, uint32_t slot);

/* replica_root_after: the root after the results of `round`, overwriting nothing of the state; the
 * new leaves' names are in `voted`, for replica_apply. */
struct hash replica_root_after(struct replica *replica, uint32_t round);

/* replica_apply: the results of entry->round become the outer state; the feedback advances in the
 * slices whose line names `seat` (-1: none) as contributor, or as owner for the re-encoding; then
 * the inner weights follow. Gives the new root. With a seat it needs contribution and inner weights
 * as replica_encode left them. Leaves that were named for a vote on the same root are not hashed
 * again.
 * limits  no result of the round has changed since replica_root_after gave entry->root for it */
struct hash replica_apply(struct replica *replica, const struct entry *entry, int seat);

/* replica_clear_feedback: the feedback is of another history: it becomes zero.
 * replica_clear_sent_feedback: the contribution that `entry` has of this identity is not at hand
 * any more (a start before this one made it): what was owed in the slices that it is in was part of
 * it, and what it left is not known. The feedback of those becomes zero. */
void replica_clear_feedback(struct replica *replica);
void replica_clear_sent_feedback(struct replica *replica, const struct entry *entry,
                                 const struct identity *id);

/* replica_reset_inner: inner weights = outer weights. The caller refreshes compute copies. */
void replica_reset_inner(struct replica *replica);

/* replica_leaf_read: leaf `index` into bytes [LEAF_BYTES]; its length. replica_leaf_write: the same
 * backwards, for a leaf whose name was checked. */
size_t replica_leaf_read(const struct replica *replica, uint64_t index, uint8_t *bytes);
void replica_leaf_write(struct replica *replica, uint64_t index, const uint8_t *bytes);

/* replica_replay_leaf: the outer step on leaf `index` alone, by the results of `round`, of which
 * those that lie over it are there: the bits that replica_apply gives. Its name follows; the root,
 * the feedback and the inner weights do not.
 * limits  `compute` is the calling thread's own; nobody else uses params, momentum and scratch */
void replica_replay_leaf(const struct compute *compute, struct replica *replica, uint64_t index,
                         uint32_t round);

#endif
