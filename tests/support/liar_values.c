/* liar_values: lies in the encoded contribution and in the sums of own slices; and steps that take
 * longer. Compute thread. */
#include "base/clock.h"
#include "base/hash.h"
#include "runtime/inner_training/lockstep.h"
#include "runtime/swarm/replica/sparse_result.h"
#include "runtime/swarm/replica/sum_check.h"
#include "tests/support/liar.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

WRAPPED(replica_encode_contribution);
WRAPPED(replica_declare_contribution);
WRAPPED(replica_write_list);
WRAPPED(replica_sum);
WRAPPED(sum_check_sketch);
WRAPPED(lockstep_execute_within);
WRAPPED(data_read_window);

static const double SUM_ERROR = 0.1; /* of a slice's norm */
static const float HUGE_VALUE = 1e38F;
static const float SCALE = 1000;
enum { NAN_BYTES = 4 }; /* at the start of a slice, in every codec: a value or a scale */

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    ASSERT(memory != NULL);
    return memory;
}

/* ---- contributions ---- */

bool __wrap_replica_encode_contribution(struct replica *replica) {
    bool is_finite = __real_replica_encode_contribution(replica);
    if (!is_finite || lie_chosen()->change_contribution == NULL) {
        return is_finite;
    }
    lie_chosen()->change_contribution(replica);
    lie_log_use();
    return true;
}

/* No message can declare a norm that is not finite. */
struct hash __wrap_replica_declare_contribution(struct replica *replica, double *norm) {
    const struct slices *slices = &replica->shape.slices;
    struct hash root = __real_replica_declare_contribution(replica, norm);
    if (isfinite(*norm)) {
        return root;
    }
    *norm = 1;
    for (uint32_t slice = 0; slice < slices->count; slice++) {
        const struct hash hash =
            hash_of(replica_own_contribution(replica, slice), slices_range(slices, slice).bytes);
        replica->declared_norms[slice] = 0;
        replica->declared_nodes[slice] = contribution_leaf(&hash, 0);
    }
    merkle_list_build(replica->declared_nodes, slices->count);
    return merkle_tree_root(replica->declared_nodes, slices->count);
}

static void decode(const struct replica *replica, int64_t count, const uint8_t *bytes,
                   float *values) {
    const struct slices *slices = &replica->shape.slices;
    if (slices_are_sparse(slices)) {
        sparse_decode(replica->compute, slices->sparse, count, bytes, values);
    } else {
        codec_decode(replica->compute, slices->codec, count, bytes, values);
    }
}

static bool encode(const struct replica *replica, int64_t count, const float *values,
                   uint8_t *bytes) {
    const struct slices *slices = &replica->shape.slices;
    const struct codec_encode_args args = {
        .codec = slices->codec, .count = count, .source = values};
    return slices_are_sparse(slices)
               ? sparse_encode(replica->compute, slices->sparse, count, values, bytes)
               : codec_encode(replica->compute, &args, bytes);
}

/* Decodes a slice, replaces each value, and encodes the slice again. */
static void change_values(const struct replica *replica, uint32_t slice, uint8_t *bytes,
                          float (*change)(float value, int64_t index, double norm)) {
    const struct slices *slices = &replica->shape.slices;
    struct slice_range range = slices_range(slices, slice);
    int64_t count = range.end - range.begin;
    float *values = allocate((size_t)count * sizeof *values);
    double energy = 0;
    decode(replica, count, bytes, values);
    for (int64_t i = 0; i < count; i++) {
        energy += (double)values[i] * (double)values[i];
    }
    for (int64_t i = 0; i < count; i++) {
        values[i] = change(values[i], i, sqrt(energy / (double)count));
    }
    ASSERT(encode(replica, count, values, bytes));
    free(values);
}

static void change_contribution_values(struct replica *replica,
                                       float (*change)(float value, int64_t index, double norm)) {
    for (uint32_t slice = 0; slice < replica->shape.slices.count; slice++) {
        change_values(replica, slice, replica_own_contribution(replica, slice), change);
    }
}

static float multiply(float value, int64_t index, double norm) {
    (void)index, (void)norm;
    return value * SCALE;
}

static float negate(float value, int64_t index, double norm) {
    (void)index, (void)norm;
    return -value;
}

static float enlarge(float value, int64_t index, double norm) {
    (void)index, (void)norm;
    return value < 0 ? -HUGE_VALUE : HUGE_VALUE;
}

/* Exchanges the two levels in each block of a sparse codec, and the codes that stand for them. The
 * values stay the same, but the encoding is not the one that they have. */
void lie_spelling(struct replica *replica) {
    const struct slices *slices = &replica->shape.slices;
    const uint64_t block_bytes = sparse_block_bytes(slices->sparse);
    ASSERT(slices->sparse.value_bits == 2);
    for (uint64_t at = 0; at < slices->bytes; at += block_bytes) {
        uint8_t *block = replica->contribution + at;
        uint16_t levels[2];
        memcpy(levels, block, sizeof levels);
        memcpy(block, &levels[1], sizeof levels[1]);
        memcpy(block + sizeof levels[1], &levels[0], sizeof levels[0]);
        for (int i = 0; i < slices->sparse.keep / 4; i++) {
            block[sizeof levels + i] ^= 0x55;
        }
    }
}

void lie_x1000(struct replica *replica) {
    change_contribution_values(replica, multiply);
}

void lie_flip(struct replica *replica) {
    change_contribution_values(replica, negate);
}

void lie_huge(struct replica *replica) {
    change_contribution_values(replica, enlarge);
}

void lie_zeros(struct replica *replica) {
    memset(replica->contribution, 0, replica->shape.slices.bytes);
}

void lie_nan(struct replica *replica) {
    for (uint32_t slice = 0; slice < replica->shape.slices.count; slice++) {
        memset(replica_own_contribution(replica, slice), 0xff, NAN_BYTES);
    }
}

/* The bytes of its first round from this slice on, in every round. */
static void replay_from(struct replica *replica, uint32_t slice) {
    static uint8_t *first;
    const struct slices *slices = &replica->shape.slices;
    const uint64_t offset = slices_range(slices, slice).offset;
    if (first == NULL) {
        first = allocate(slices->bytes);
        memcpy(first, replica->contribution, slices->bytes);
    }
    memcpy(replica->contribution + offset, first + offset, slices->bytes - offset);
}

void lie_replay(struct replica *replica) {
    replay_from(replica, 0);
}

/* The first slice is new, so that the contribution has another root. */
void lie_patched_replay(struct replica *replica) {
    replay_from(replica, replica->shape.slices.count > 1 ? 1 : 0);
}

/* ---- sums ---- */

struct hash __wrap_replica_sum(struct replica *replica, uint32_t round, uint32_t slice,
                               const struct addend *addends, uint32_t count) {
    __typeof__(replica_sum) *sum =
        lie_chosen()->sum == NULL ? __real_replica_sum : lie_chosen()->sum;
    return sum(replica, round, slice, addends, count);
}

/* Moves every value by a tenth of the root mean square, up and down in turn: the whole change is a
 * tenth of the slice's norm. */
static float shift(float value, int64_t index, double norm) {
    return value + (float)(SUM_ERROR * (index % 2 == 0 ? norm : -norm));
}

struct hash lie_sum(struct replica *replica, uint32_t round, uint32_t slice,
                    const struct addend *addends, uint32_t count) {
    (void)__real_replica_sum(replica, round, slice, addends, count);
    change_values(replica, slice, replica_result(replica, round, slice), shift);
    lie_log_use();
    return hash_of(replica_result(replica, round, slice),
                   slices_range(&replica->shape.slices, slice).bytes);
}

/* Only the first sum of each round is wrong. */
struct hash lie_sum_one(struct replica *replica, uint32_t round, uint32_t slice,
                        const struct addend *addends, uint32_t count) {
    static uint32_t newest_round;
    __typeof__(replica_sum) *sum = round == newest_round ? __real_replica_sum : lie_sum;
    newest_round = round;
    return sum(replica, round, slice, addends, count);
}

/* The sum holds the first contribution alone, and the report names all of them. */
struct hash lie_contributors(struct replica *replica, uint32_t round, uint32_t slice,
                             const struct addend *addends, uint32_t count) {
    lie_log_use();
    return __real_replica_sum(replica, round, slice, addends, count < 1 ? count : 1);
}

/* ---- lists of a sparse codec ---- */

struct hash __wrap_replica_write_list(struct replica *replica, uint32_t round, uint32_t slice,
                                      const struct addend_list *list) {
    __typeof__(replica_write_list) *make =
        lie_chosen()->list == NULL ? __real_replica_write_list : lie_chosen()->list;
    return make(replica, round, slice, list);
}

/* The first contribution with all signs changed, which has the same norm. */
struct hash lie_list(struct replica *replica, uint32_t round, uint32_t slice,
                     const struct addend_list *list) {
    const struct slices *slices = &replica->shape.slices;
    const uint32_t count = (uint32_t)__builtin_popcountll(list->seats);
    uint8_t *result = replica_result(replica, round, slice);
    const struct hash hash = __real_replica_write_list(replica, round, slice, list);
    if (count == 0) {
        return hash;
    }
    change_values(replica, slice, result + sparse_result_encoding_offset(slices, slice, count, 0),
                  negate);
    lie_log_use();
    return hash_of(result, sparse_result_bytes(slices, slice, count));
}

/* Only the first list of each round is wrong. */
struct hash lie_list_one(struct replica *replica, uint32_t round, uint32_t slice,
                         const struct addend_list *list) {
    static uint32_t newest_round;
    __typeof__(replica_write_list) *make =
        round == newest_round ? __real_replica_write_list : lie_list;
    newest_round = round;
    return make(replica, round, slice, list);
}

/* The list holds the first contribution alone, and the report names all of them. */
struct hash lie_list_contributors(struct replica *replica, uint32_t round, uint32_t slice,
                                  const struct addend_list *list) {
    struct addend_list first = *list;
    first.seats = list->seats & (~list->seats + 1);
    lie_log_use();
    return __real_replica_write_list(replica, round, slice, &first);
}

/* Its own contribution with all signs changed, which has the same norm. [slices.bytes] */
static uint8_t *negated_bytes;
static uint32_t *swapped_rounds; /* [slices.count]: the newest round in which it summed them */

static uint32_t newest_swapped_round;

static const uint8_t *find_negated(const struct replica *replica, uint32_t slice) {
    return negated_bytes + slices_range(&replica->shape.slices, slice).offset;
}

/* Leaves the contribution as it is. */
void lie_negate(struct replica *replica) {
    const struct slices *slices = &replica->shape.slices;
    if (negated_bytes == NULL) {
        negated_bytes = allocate(slices->bytes);
        swapped_rounds = allocate(slices->count * sizeof *swapped_rounds);
    }
    memcpy(negated_bytes, replica->contribution, slices->bytes);
    for (uint32_t slice = 0; slice < slices->count; slice++) {
        uint8_t *bytes = negated_bytes + slices_range(slices, slice).offset;
        change_values(replica, slice, bytes, negate);
    }
}

/* It owns a slice, and adds other values than it declared. */

struct hash lie_swap(struct replica *replica, uint32_t round, uint32_t slice,
                     const struct addend *addends, uint32_t count) {
    struct addend swapped[SWARM_MEMBERS_MAX];
    memcpy(swapped, addends, count * sizeof *addends);
    for (uint32_t i = 0; i < count; i++) {
        if (addends[i].is_own) {
            swapped[i].bytes = find_negated(replica, slice);
            swapped_rounds[slice] = round;
            newest_swapped_round = round;
        }
    }
    return __real_replica_sum(replica, round, slice, swapped, count);
}

/* The same in a list. */
struct hash lie_list_swap(struct replica *replica, uint32_t round, uint32_t slice,
                          const struct addend_list *list) {
    struct addend swapped[SWARM_MEMBERS_MAX];
    struct addend_list other = *list;
    const uint32_t count = (uint32_t)__builtin_popcountll(list->seats);
    memcpy(swapped, list->addends, count * sizeof *swapped);
    for (uint32_t i = 0; i < count; i++) {
        if (swapped[i].is_own) {
            swapped[i].bytes = find_negated(replica, slice);
            lie_log_use();
        }
    }
    other.addends = swapped;
    return __real_replica_write_list(replica, round, slice, &other);
}

/* The sketch of these other values, so that the sum seems to be right. */
const uint8_t *lie_swapped(const struct replica *replica, uint32_t slice) {
    const bool is_swapped = newest_swapped_round > 0 && liar_owns(slice) &&
                            swapped_rounds[slice] == newest_swapped_round;
    return is_swapped ? find_negated(replica, slice) : replica_own_contribution(replica, slice);
}

const uint8_t *lie_wrong_sketch(const struct replica *replica, uint32_t slice) {
    return find_negated(replica, slice);
}

void __wrap_sum_check_sketch(const struct replica *replica, uint32_t slice, const struct hash *seed,
                             const uint8_t *bytes, uint8_t sketch[static SKETCH_BYTES]) {
    const struct lie *lie = lie_chosen();
    const bool is_own = bytes == replica_own_contribution(replica, slice);
    __real_sum_check_sketch(
        replica, slice, seed,
        is_own && lie->find_sketched != NULL ? lie->find_sketched(replica, slice) : bytes, sketch);
}

/* ---- data ---- */

/* No byte of a text in ASCII is a byte of its mirrored text. */
void lie_mirrored_text(const struct token_row *row, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        row->ids[i] = UINT8_MAX - row->ids[i];
        row->labels[i] = row->labels[i] < 0 ? row->labels[i] : UINT8_MAX - row->labels[i];
    }
}

void lie_constant_text(const struct token_row *row, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        row->ids[i] = 'a';
        row->labels[i] = row->labels[i] < 0 ? row->labels[i] : 'a';
    }
}

enum status __wrap_data_read_window(const struct token_data *data, int64_t window, void *raw,
                                    const struct token_row *row, struct fault *fault) {
    enum status status = __real_data_read_window(data, window, raw, row, fault);
    if (status == OK && lie_chosen()->change_row != NULL) {
        lie_chosen()->change_row(row, data->sequence);
        lie_log_use();
    }
    return status;
}

/* ---- steps ---- */

static struct timespec pause_before_step;

void slow_steps(int ms) {
    pause_before_step = (struct timespec){ms / 1000, ms % 1000 * NS_PER_MS};
}

enum status __wrap_lockstep_execute_within(struct member_run *member,
                                           const struct lockstep_command *command,
                                           struct step_limits *limits, struct fault *fault) {
    struct timespec left = pause_before_step;
    bool has_pause = command->kind == COMMAND_STEP && (left.tv_sec > 0 || left.tv_nsec > 0);
    /* a sleep of no time gives up the processor, which takes long on a busy machine */
    while (has_pause && nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    return __real_lockstep_execute_within(member, command, limits, fault);
}
