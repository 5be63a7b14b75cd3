/* test_replica_sparse: rounds with a sparse codec against the same rounds in plain arrays: what is
 * sent and owed bit by bit, means and steps in fp64; and lists that must be rejected. Each member
 * computes at a CPU level of its own. */
#include "base/check.h"
#include "base/region.h"
#include "kernels/cpu_level.h"
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/replica/result_file.h"
#include "runtime/swarm/replica/sparse_result.h"
#include "tests/kernels/codec_reference.h"
#include "tests/kernels/sparse_reference.h"
#include "tests/unit/swarm/replica_fixture.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    MEMBERS = 4, /* the last one is in no list of round 2 */
    BLOCKS = 2 * 48 + 2,
    COUNT = BLOCKS * SPARSE_BLOCK + 77, /* several slices, the last one short */
    ROUNDS = 3,
};

static const float RATE = 0.7F;

struct swarm {
    struct sparse_shape shape;
    struct fixture_replica members[MEMBERS];
    struct entry entry;
    struct hash roots[MEMBERS]; /* declared */
    double value_limit;
    float *meant[MEMBERS], *feedback[MEMBERS], *inner[MEMBERS];
    double *decoded[MEMBERS];
    double *params; /* before the round */
    uint8_t *bytes;
    uint64_t limited_blocks;
};

static void *room(size_t bytes) {
    void *memory = calloc(1, bytes);
    assert_non_null(memory);
    return memory;
}

static const struct slices *slices_of(const struct swarm *swarm) {
    return &swarm->members[0].replica.shape.slices;
}

static const struct compute *compute_of(uint32_t member) {
    enum cpu_level levels[CPU_LEVEL_COUNT];
    uint32_t count = 0;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (cpu_supports_level((enum cpu_level)level)) {
            levels[count++] = (enum cpu_level)level;
        }
    }
    return codec_compute(levels[member % count]);
}

static void begin(struct swarm *swarm, struct sparse_shape shape) {
    const struct fixture_shape fixture = {COUNT, CODEC_FP32, MEMBERS, RATE, 0};
    memset(swarm, 0, sizeof *swarm);
    swarm->shape = shape;
    swarm->params = room(COUNT * sizeof *swarm->params);
    swarm->bytes = room(sparse_bytes(shape, COUNT));
    for (uint32_t m = 0; m < MEMBERS; m++) {
        swarm->meant[m] = room(COUNT * sizeof(float));
        swarm->feedback[m] = room(COUNT * sizeof(float));
        swarm->inner[m] = room(COUNT * sizeof(float));
        swarm->decoded[m] = room(COUNT * sizeof(double));
        fixture_replica_make_sparse(&fixture, shape, &swarm->members[m]);
        swarm->members[m].replica.compute = compute_of(m);
        for (int64_t i = 0; i < COUNT; i++) {
            swarm->params[i] = (double)fixture_noise(1, i);
            *fixture_inner(&swarm->members[m], i) = fixture_noise(1, i);
        }
        replica_init_state(&swarm->members[m].replica);
        assert_null(swarm->members[m].replica.momentum);
    }
    swarm->entry.kind = ENTRY_COMMIT;
    swarm->entry.seat_count = MEMBERS;
    swarm->entry.slice_count = slices_of(swarm)->count;
    swarm->entry.slices = room(swarm->entry.slice_count * sizeof *swarm->entry.slices);
    assert_in_range(swarm->entry.slice_count, 2, 32);
}

static void end(struct swarm *swarm) {
    for (uint32_t m = 0; m < MEMBERS; m++) {
        fixture_replica_free(&swarm->members[m]);
        free(swarm->meant[m]);
        free(swarm->feedback[m]);
        free(swarm->inner[m]);
        free(swarm->decoded[m]);
    }
    free(swarm->params);
    free(swarm->bytes);
    free(swarm->entry.slices);
}

/* Block 7 moves much further than the others, and only member 1 moves block 9. */
static float find_movement(uint32_t round, uint32_t member, int64_t i) {
    const int64_t block = i / SPARSE_BLOCK;
    const float size = block == 7 ? 0.5F : 0.001F;
    const bool is_moved = block != 9 || member == 1;
    return is_moved ? size * fixture_noise(100 * round + member, i) + 0.0001F : 0;
}

/* Round 1 has all members in all slices. In round 2 the last member is in none, and slice 1 has no
 * contribution at all. Later each slice lacks one member. */
static void deal(struct swarm *swarm, uint32_t round) {
    const uint64_t all = ((uint64_t)1 << MEMBERS) - 1;
    swarm->entry.round = round;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        swarm->entry.members[m].weight = 1000 + 370 * m * round;
    }
    for (uint32_t s = 0; s < swarm->entry.slice_count; s++) {
        struct entry_slice *slice = &swarm->entry.slices[s];
        slice->owner = (s + round) % (MEMBERS - 1);
        slice->contributors = round == 1   ? all
                              : round == 2 ? (s == 1 ? 0 : all >> 1)
                                           : all & ~((uint64_t)1 << (s + round) % MEMBERS);
    }
}

static void train(struct swarm *swarm, uint32_t round) {
    for (uint32_t m = 0; m < MEMBERS; m++) {
        for (int64_t i = 0; i < COUNT; i++) {
            swarm->inner[m][i] = (float)swarm->params[i] - find_movement(round, m, i);
            *fixture_inner(&swarm->members[m], i) = swarm->inner[m][i];
        }
    }
}

static void check_contribution(struct swarm *swarm, uint32_t m) {
    struct replica *replica = &swarm->members[m].replica;
    double energy = 0, norm;
    for (int64_t i = 0; i < COUNT; i++) {
        float gradient = (float)swarm->params[i] - swarm->inner[m][i];
        float kept = 0.95F * swarm->feedback[m][i];
        swarm->meant[m][i] = gradient + kept;
    }
    assert_true(replica_encode_contribution(replica));
    const uint64_t bytes = sparse_reference_encode(swarm->shape, COUNT, swarm->meant[m],
                                                   swarm->bytes, swarm->decoded[m]);
    assert_int_equal(bytes, replica->shape.slices.bytes);
    assert_memory_equal(replica->contribution, swarm->bytes, bytes);
    for (int64_t i = 0; i < COUNT; i++) {
        energy += swarm->decoded[m][i] * swarm->decoded[m][i];
    }
    swarm->roots[m] = replica_declare_contribution(replica, &norm);
    assert_true(fabs(norm - sqrt(energy)) <= 1e-12 * norm);
    swarm->entry.members[m].norm = norm;
}

static void list(struct swarm *swarm, uint32_t s) {
    struct entry_slice *line = &swarm->entry.slices[s];
    struct replica *owner = &swarm->members[line->owner].replica;
    struct addend addends[MEMBERS];
    struct slice_proof proofs[MEMBERS];
    const struct slice_proof *shown[MEMBERS];
    uint32_t count = 0;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        if ((line->contributors >> m & 1) == 0) {
            continue;
        }
        const struct replica *from = &swarm->members[m].replica;
        replica_prove_slice(from, s, &proofs[count]);
        addends[count] = (struct addend){
            .bytes = replica_own_contribution(from, s),
            .weight = swarm->entry.members[m].weight,
            .clip = norms_clip_factor(swarm->entry.members[m].norm, swarm->entry.reference_norm),
            .is_own = m == line->owner};
        shown[count] = m == line->owner ? NULL : &proofs[count];
        count++;
    }
    const struct addend_list addend_list = {line->contributors, addends, shown, swarm->value_limit};
    line->hash = replica_write_list(owner, swarm->entry.round, s, &addend_list);
    const uint8_t *bytes = replica_result(owner, swarm->entry.round, s);
    const uint64_t size = sparse_result_bytes(slices_of(swarm), s, count);
    const struct hash hash = hash_of(bytes, size);
    assert_true(hash_equal(&hash, &line->hash));
    assert_true(size <= slices_range(slices_of(swarm), s).result_bytes);
    assert_true(sparse_result_is_valid(slices_of(swarm), s, bytes, size));
    for (uint32_t m = 0; m < MEMBERS; m++) {
        memcpy(replica_result(&swarm->members[m].replica, swarm->entry.round, s), bytes, size);
    }
}

/* Every part of a list is what its member declared. */
static void check_list(const struct swarm *swarm, uint32_t s) {
    const struct entry_slice *line = &swarm->entry.slices[s];
    const struct slices *slices = slices_of(swarm);
    const uint8_t *bytes = replica_result(&swarm->members[3].replica, swarm->entry.round, s);
    const uint32_t count = (uint32_t)__builtin_popcountll(line->contributors);
    uint32_t index = 0;
    assert_int_equal(sparse_result_seats(bytes), line->contributors);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        struct contribution_part part;
        if ((line->contributors >> m & 1) == 0) {
            continue;
        }
        const uint64_t at = sparse_result_encoding_offset(slices, s, count, index);
        const struct hash hash = hash_of(bytes + at, slices_range(slices, s).bytes);
        assert_true(sparse_result_read_head(slices, bytes, index, &part));
        assert_int_equal(part.weight, swarm->entry.members[m].weight);
        assert_true(contribution_is_proven(&swarm->roots[m], slices->count, s, &hash, &part.proof));
        index++;
    }
}

static double find_peak(const struct swarm *swarm, uint32_t m, int64_t block) {
    double peak = 0;
    for (int64_t i = block * SPARSE_BLOCK; i < COUNT && i < (block + 1) * SPARSE_BLOCK; i++) {
        peak = fmax(peak, fabs(swarm->decoded[m][i]));
    }
    return peak;
}

/* The step of one block in fp64. */
static void check_block(struct swarm *swarm, const struct replica *replica, int64_t block) {
    const struct entry *entry = &swarm->entry;
    const int64_t begin = block * SPARSE_BLOCK;
    const uint32_t s = (uint32_t)(begin / slices_of(swarm)->elements);
    double factors[MEMBERS] = {0};
    for (uint32_t m = 0; m < MEMBERS; m++) {
        const double clip = norms_clip_factor(entry->members[m].norm, entry->reference_norm);
        const double peak = find_peak(swarm, m, block);
        const bool is_limited = peak * clip > swarm->value_limit;
        const bool is_listed = (entry->slices[s].contributors >> m & 1) != 0;
        factors[m] = !is_listed ? 0 : is_limited ? swarm->value_limit / peak : clip;
        swarm->limited_blocks += is_listed && is_limited;
    }
    for (int64_t i = begin; i < COUNT && i < begin + SPARSE_BLOCK; i++) {
        double sum = 0, weight = 0;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            const bool is_sent = factors[m] > 0 && swarm->decoded[m][i] != 0;
            const double own = (double)entry->members[m].weight;
            sum += is_sent ? own * factors[m] * swarm->decoded[m][i] : 0;
            weight += is_sent ? own : 0;
        }
        const double step = weight > 0 ? (double)RATE * sum / weight : 0;
        const double expected = swarm->params[i] - step;
        const double found = (double)replica->params[i];
        const double allowed = 8 * (double)FLT_EPSILON * (fabs(step) + fabs(expected));
        if (!(fabs(found - expected) <= allowed) || (step == 0 && found != swarm->params[i])) {
            fail_msg("round %u, element %lld: %.9g instead of %.9g", entry->round, (long long)i,
                     found, expected);
        }
    }
}

static void check_feedback(struct swarm *swarm, uint32_t m) {
    const struct entry *entry = &swarm->entry;
    uint64_t contributed = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        contributed |= entry->slices[s].contributors >> m & 1;
    }
    for (int64_t i = 0; i < COUNT && contributed != 0; i++) {
        const uint32_t s = (uint32_t)(i / slices_of(swarm)->elements);
        const bool is_sent = (entry->slices[s].contributors >> m & 1) != 0;
        swarm->feedback[m][i] =
            is_sent ? swarm->meant[m][i] - (float)swarm->decoded[m][i] : swarm->meant[m][i];
    }
    assert_memory_equal(swarm->members[m].replica.feedback, swarm->feedback[m],
                        COUNT * sizeof(float));
}

static void run_round(struct swarm *swarm, uint32_t round) {
    deal(swarm, round);
    train(swarm, round);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        check_contribution(swarm, m);
    }
    /* the others' norms are scaled down a little */
    swarm->entry.reference_norm = 0.499 * swarm->entry.members[0].norm;
    swarm->value_limit =
        norms_value_limit(swarm->entry.reference_norm, slices_sent_values(slices_of(swarm)));
    for (uint32_t s = 0; s < swarm->entry.slice_count; s++) {
        list(swarm, s);
        check_list(swarm, s);
    }
    for (uint32_t m = 0; m < MEMBERS; m++) {
        struct replica *replica = &swarm->members[m].replica;
        const struct hash root = replica_root_after(replica, round, MEMBERS);
        assert_false(hash_is_zero(&root));
        swarm->entry.root = m == 0 ? root : swarm->entry.root;
        assert_true(hash_equal(&root, &swarm->entry.root));
        const struct hash applied = replica_apply(replica, &swarm->entry, (int)m);
        assert_true(hash_equal(&applied, &root));
        check_feedback(swarm, m);
    }
    for (int64_t block = 0; block * SPARSE_BLOCK < COUNT; block++) {
        check_block(swarm, &swarm->members[1].replica, block);
    }
    for (int64_t i = 0; i < COUNT; i++) {
        swarm->params[i] = (double)swarm->members[1].replica.params[i];
    }
}

static const struct sparse_shape SHAPES[] = {{64, 2}, {32, 1}, {256, 4}}; /* 3, 2 and more slices */

static void rounds_equal_the_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(SHAPES); i++) {
        static struct swarm swarm;
        begin(&swarm, SHAPES[i]);
        for (uint32_t round = 1; round <= ROUNDS - (i > 0); round++) {
            run_round(&swarm, round);
        }
        assert_true(swarm.limited_blocks > 0); /* the limit is tested, too */
        end(&swarm);
    }
}

/* A joiner with the state before a round replays it from the lists alone. */
static void leaves_replay_a_round(void **state) {
    (void)state;
    static struct swarm swarm;
    static struct fixture_replica joiner;
    const struct fixture_shape fixture = {COUNT, CODEC_FP32, MEMBERS, RATE, 0};
    static uint8_t bytes[LEAF_BYTES];
    begin(&swarm, SHAPES[0]);
    run_round(&swarm, 1);
    fixture_replica_make_sparse(&fixture, SHAPES[0], &joiner);
    for (uint64_t leaf = 0; leaf < replica_leaf_count(slices_of(&swarm)); leaf++) {
        const size_t size = replica_read_leaf(&swarm.members[2].replica, leaf, bytes);
        const struct hash hash = merkle_leaf_hash(bytes, size);
        assert_int_equal(size, merkle_leaf_bytes(replica_state_bytes(slices_of(&swarm)), leaf));
        assert_true(hash_equal(&hash, &swarm.members[2].replica.leaves[leaf]));
        replica_write_leaf(&joiner.replica, leaf, bytes);
    }
    deal(&swarm, 2);
    train(&swarm, 2);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        check_contribution(&swarm, m);
    }
    swarm.entry.reference_norm = swarm.entry.members[0].norm;
    swarm.value_limit = 1;
    for (uint32_t s = 0; s < swarm.entry.slice_count; s++) {
        list(&swarm, s);
        const uint32_t count = (uint32_t)__builtin_popcountll(swarm.entry.slices[s].contributors);
        memcpy(replica_result(&joiner.replica, 2, s),
               replica_result(&swarm.members[0].replica, 2, s),
               sparse_result_bytes(slices_of(&swarm), s, count));
    }
    const struct hash root = replica_root_after(&swarm.members[0].replica, 2, MEMBERS);
    assert_false(hash_is_zero(&root));
    for (uint64_t leaf = 0; leaf < replica_leaf_count(slices_of(&swarm)); leaf++) {
        replica_replay_leaf(joiner.replica.compute, &joiner.replica, leaf, 2, MEMBERS);
        assert_true(
            hash_equal(&joiner.replica.leaves[leaf], &swarm.members[0].replica.voted_leaves[leaf]));
    }
    fixture_replica_free(&joiner);
    end(&swarm);
}

/* The results of a round in a file, together and one by one. */
static void result_files_contain_lists_of_any_length(void **state) {
    (void)state;
    static struct swarm swarm;
    struct region region = {0};
    struct result_files files;
    struct fault fault;
    char folder[] = "/tmp/skep-sparse-XXXXXX", path[64], temporary[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/results-2", folder);
    snprintf(temporary, sizeof temporary, "%s/results.new", folder);
    begin(&swarm, SHAPES[0]);
    run_round(&swarm, 1);
    run_round(&swarm, 2); /* slice 1 has no contribution */
    const struct slices *slices = slices_of(&swarm);
    const uint8_t *results = replica_result(&swarm.members[0].replica, 2, 0);
    uint8_t *read = room(slices_results_bytes(slices));
    struct slice_report reports[3];
    result_files_init(slices, &region, &files);
    assert_int_equal(result_file_write(&files, &swarm.entry, results, path, temporary, &fault), OK);
    assert_int_equal(result_file_read(&files, path, 2, read, reports, &fault), OK);
    for (uint32_t s = 0; s < 3; s++) {
        const struct entry_slice *line = &swarm.entry.slices[s];
        const uint64_t offset = slices_range(slices, s).result_offset;
        const uint64_t size =
            sparse_result_bytes(slices, s, (uint32_t)__builtin_popcountll(line->contributors));
        assert_memory_equal(read + offset, results + offset, size);
        assert_int_equal(reports[s].contributors, line->contributors);
        memset(read, 0, slices_results_bytes(slices));
        assert_true(result_file_read_slice(slices, path, 2, s, &line->hash, read));
        assert_memory_equal(read, results + offset, size);
        assert_int_equal(result_file_read(&files, path, 2, read, reports, &fault), OK);
    }
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(result_file_read(&files, path, 2, read, reports, &fault), STATUS_INPUT);
    unlink(path);
    rmdir(folder);
    free(read);
    region_finish(&region);
    end(&swarm);
}

/* ---- invalid lists ---- */

static struct swarm tested;
static uint8_t *valid, *changed; /* a list of slice 0 with all members */
static uint64_t valid_bytes;

static bool is_accepted(void) {
    return sparse_result_is_valid(slices_of(&tested), 0, changed, valid_bytes);
}

static void reset(void) {
    memcpy(changed, valid, valid_bytes);
    assert_true(is_accepted());
}

static void put_f32(uint64_t offset, float value) {
    memcpy(changed + offset, &value, sizeof value);
}

static void put_f64(uint64_t offset, double value) {
    memcpy(changed + offset, &value, sizeof value);
}

static void lists_in_another_form_are_rejected(void **state) {
    (void)state;
    const uint64_t head = SPARSE_RESULT_HEADER_BYTES + sparse_result_head_bytes(3);
    begin(&tested, SHAPES[0]);
    run_round(&tested, 1);
    valid_bytes = sparse_result_bytes(slices_of(&tested), 0, MEMBERS);
    valid = replica_result(&tested.members[0].replica, 1, 0);
    changed = room(valid_bytes + 1);
    reset();
    assert_false(sparse_result_is_valid(slices_of(&tested), 0, changed, valid_bytes - 1));
    assert_false(sparse_result_is_valid(slices_of(&tested), 0, changed, valid_bytes + 1));
    assert_false(sparse_result_is_valid(slices_of(&tested), 0, changed, 15));
    changed[0] ^= 1; /* three seats */
    assert_false(is_accepted());
    memset(changed, 0xff, 8); /* more seats than members */
    assert_false(is_accepted());
    static const double NORMS[] = {-1, -0.0, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < ARRAY_COUNT(NORMS); i++) {
        reset();
        put_f64(8, NORMS[i]); /* the value limit */
        assert_false(is_accepted());
        reset();
        put_f64(head + 8, NORMS[i]);
        assert_false(is_accepted());
    }
    static const float CLIPS[] = {-1, -0.0F, 1.0001F, NAN, INFINITY};
    for (size_t i = 0; i < ARRAY_COUNT(CLIPS); i++) {
        reset();
        put_f32(head + 16, CLIPS[i]);
        assert_false(is_accepted());
    }
    reset();
    changed[head + 7] = 0x40; /* a weight of 2^62 */
    assert_false(is_accepted());
    reset();
    changed[head + 20] = 3; /* a path longer than any in a tree of three */
    assert_false(is_accepted());
    reset();
    changed[head + 20] = 1; /* a shorter path, after which there must be zeros */
    assert_false(is_accepted());
    reset();
    memset(changed + sparse_result_encoding_offset(slices_of(&tested), 0, MEMBERS, 2), 0xff, 84);
    assert_false(is_accepted());
    free(changed);
    end(&tested);
}

static void values_that_are_not_finite_are_not_sent(void **state) {
    (void)state;
    static struct swarm swarm;
    double norm;
    begin(&swarm, SHAPES[0]);
    *fixture_inner(&swarm.members[1], COUNT - 1) = NAN;
    assert_false(replica_encode_contribution(&swarm.members[1].replica));
    const struct hash root = replica_declare_contribution(&swarm.members[1].replica, &norm);
    const struct hash zero = slices_zero_root(slices_of(&swarm));
    assert_true(hash_equal(&root, &zero) && norm == 0);
    end(&swarm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_equal_the_reference),
        cmocka_unit_test(leaves_replay_a_round),
        cmocka_unit_test(result_files_contain_lists_of_any_length),
        cmocka_unit_test(lists_in_another_form_are_rejected),
        cmocka_unit_test(values_that_are_not_finite_are_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
