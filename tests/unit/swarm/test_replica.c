/* test_replica: members' rounds against the same swarm in plain arrays: every byte that is sent,
 * summed, applied and owed. */
#include "base/check.h"
#include "tests/unit/swarm/replica_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Members, their reference, and the entry under way. */
struct swarm {
    struct reference reference;
    struct fixture_replica members[FIXTURE_MEMBERS_MAX];
    struct entry entry;
    uint32_t slice_count;
    float clips[FIXTURE_MEMBERS_MAX];
    const struct slices *cut;
};

static void swarm_begin(const struct fixture_shape *shape, struct swarm *swarm) {
    memset(swarm, 0, sizeof *swarm);
    reference_make(shape, &swarm->reference);
    for (int64_t i = 0; i < shape->count; i++) {
        swarm->reference.params[i] = fixture_noise(1, i);
    }
    for (uint32_t m = 0; m < shape->members; m++) {
        struct fixture_replica *member = &swarm->members[m];
        fixture_replica_make(shape, member);
        for (int64_t i = 0; i < shape->count; i++) {
            *fixture_inner(member, i) = swarm->reference.params[i];
            swarm->reference.inner[m][i] = swarm->reference.params[i];
        }
        replica_init_state(&member->replica);
    }
    swarm->cut = &swarm->members[0].replica.shape.slices;
    swarm->slice_count = swarm->cut->count;
    swarm->entry.kind = ENTRY_COMMIT;
    swarm->entry.seat_count = shape->members;
    swarm->entry.slice_count = swarm->slice_count;
    swarm->entry.slices = calloc(swarm->slice_count, sizeof *swarm->entry.slices);
    assert_non_null(swarm->entry.slices);
}

static void swarm_end(struct swarm *swarm) {
    for (uint32_t m = 0; m < swarm->reference.shape.members; m++) {
        fixture_replica_free(&swarm->members[m]);
    }
    reference_free(&swarm->reference);
    free(swarm->entry.slices);
}

/* Each member goes its own way, the last block of it much further than the others. */
static void train(struct swarm *swarm, uint32_t round) {
    const struct fixture_shape *shape = &swarm->reference.shape;
    for (uint32_t m = 0; m < shape->members; m++) {
        for (int64_t i = 0; i < shape->count; i++) {
            float size = i + 64 > shape->count ? 0.5F : 0.001F;
            float moved =
                swarm->reference.inner[m][i] + size * fixture_noise(100 * round + m, i) + 0.0001F;
            swarm->reference.inner[m][i] = moved;
            *fixture_inner(&swarm->members[m], i) = moved;
        }
    }
}

/* Round 1 has everybody in every slice; later ones leave somebody else out of each slice. */
static void deal(struct swarm *swarm, uint32_t round) {
    uint32_t members = swarm->reference.shape.members;
    uint64_t all = ((uint64_t)1 << members) - 1;
    swarm->entry.round = round;
    for (uint32_t m = 0; m < members; m++) {
        swarm->entry.members[m].weight = 1000 + 37 * m * round;
        swarm->clips[m] = m % 3 == 1 ? 0.3F : 1;
    }
    for (uint32_t s = 0; s < swarm->slice_count; s++) {
        struct entry_slice *line = &swarm->entry.slices[s];
        uint64_t absent = (uint64_t)1 << (s + round) % members;
        line->owner = (s + round / 2) % members;
        line->contributors = round == 1 || members == 1 ? all : all & ~absent;
    }
}

static void encode_all(struct swarm *swarm) {
    reference_encode(&swarm->reference);
    for (uint32_t m = 0; m < swarm->reference.shape.members; m++) {
        struct fixture_replica *member = &swarm->members[m];
        assert_true(replica_encode_contribution(&member->replica));
        for (uint32_t s = 0; s < swarm->slice_count; s++) {
            struct slice_range range = slices_range(swarm->cut, s);
            const uint8_t *own = replica_own_contribution(&member->replica, s);
            assert_memory_equal(own, swarm->reference.sent[m] + range.offset, range.bytes);
            assert_true(replica_encoding_is_valid(&member->replica, s, own, range.bytes));
            assert_false(replica_encoding_is_valid(&member->replica, s, own, range.bytes - 1));
        }
    }
}

/* Bytes go from member to member here as frames do. */
static void sum_slice(struct swarm *swarm, uint32_t slice) {
    struct entry_slice *line = &swarm->entry.slices[slice];
    struct slice_range range = slices_range(swarm->cut, slice);
    struct replica *owner = &swarm->members[line->owner].replica;
    struct addend addends[FIXTURE_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t m = 0; m < swarm->reference.shape.members; m++) {
        if ((line->contributors >> m & 1) == 0) {
            continue;
        }
        uint8_t *slot = replica_contribution_slot(owner, m, slice % CONTRIBUTION_SLOTS_PER_MEMBER);
        memcpy(slot, replica_own_contribution(&swarm->members[m].replica, slice), range.bytes);
        addends[count++] = (struct addend){slot, swarm->entry.members[m].weight, swarm->clips[m],
                                           m == line->owner};
    }
    uint32_t round = swarm->entry.round;
    line->hash = replica_sum(owner, round, slice, addends, count);
    const uint8_t *result = replica_result(owner, round, slice);
    struct hash hash = hash_of(result, range.bytes);
    assert_true(hash_equal(&hash, &line->hash));
    for (uint32_t m = 0; m < swarm->reference.shape.members; m++) {
        memmove(replica_result(&swarm->members[m].replica, round, slice), result, range.bytes);
    }
}

static void sum_all(struct swarm *swarm, const struct reference_round *round) {
    for (uint32_t s = 0; s < swarm->slice_count; s++) {
        sum_slice(swarm, s);
    }
    reference_mean(&swarm->reference, round);
    assert_memory_equal(replica_result(&swarm->members[0].replica, swarm->entry.round, 0),
                        swarm->reference.result, swarm->cut->bytes);
}

static void check_member(struct swarm *swarm, uint32_t m, const struct hash *root) {
    struct fixture_replica *member = &swarm->members[m];
    struct replica *replica = &member->replica;
    size_t bytes = sizeof(float) * (size_t)swarm->reference.shape.count;
    assert_true(hash_equal(&replica->root, root));
    assert_memory_equal(replica->params, swarm->reference.params, bytes);
    assert_memory_equal(replica->momentum, swarm->reference.momentum, bytes);
    if (replica->feedback != NULL) {
        assert_memory_equal(replica->feedback, swarm->reference.feedback[m], bytes);
    }
    for (int64_t i = 0; i < swarm->reference.shape.count; i++) {
        if (*fixture_inner(member, i) != swarm->reference.params[i]) {
            fail_msg("inner weight %lld does not follow", (long long)i);
        }
    }
}

static void vote_and_apply(struct swarm *swarm, const struct reference_round *round) {
    uint32_t members = swarm->reference.shape.members;
    struct hash votes[FIXTURE_MEMBERS_MAX];
    for (uint32_t m = 0; m < members; m++) {
        struct replica *replica = &swarm->members[m].replica;
        size_t bytes = sizeof(float) * (size_t)swarm->reference.shape.count;
        struct hash before = replica->root;
        votes[m] = replica_root_after(replica, swarm->entry.round, swarm->entry.seat_count);
        assert_memory_equal(replica->params, swarm->reference.params, bytes);
        assert_memory_equal(replica->momentum, swarm->reference.momentum, bytes);
        assert_true(hash_equal(&replica->root, &before));
        assert_false(hash_equal(&votes[m], &before));
    }
    reference_apply(&swarm->reference, round);
    struct hash root = reference_root(&swarm->reference);
    swarm->entry.root = swarm->entry.round % 2 == 1 ? root : (struct hash){{0}};
    for (uint32_t m = 0; m < members; m++) {
        struct replica *replica = &swarm->members[m].replica;
        struct hash applied = replica_apply(replica, &swarm->entry, (int)m);
        assert_true(hash_equal(&applied, &votes[m]));
        check_member(swarm, m, &root);
        replica_refresh_hashes(replica); /* names as they were voted on, and as they are */
        assert_true(hash_equal(&replica->root, &root));
    }
}

static void run_round(struct swarm *swarm, uint32_t number) {
    deal(swarm, number);
    struct reference_round round = {.slices = swarm->entry.slices, .cut = swarm->cut};
    for (uint32_t m = 0; m < swarm->reference.shape.members; m++) {
        round.weights[m] = swarm->entry.members[m].weight;
        round.clips[m] = swarm->clips[m];
    }
    train(swarm, number);
    encode_all(swarm);
    sum_all(swarm, &round);
    vote_and_apply(swarm, &round);
}

static void rounds_equal_the_reference_at(int64_t count, enum codec codec, uint32_t members,
                                          uint32_t rounds) {
    static struct swarm swarm;
    struct fixture_shape shape = {count, codec, members, 0.7F, 0.9F};
    swarm_begin(&shape, &swarm);
    for (uint32_t round = 1; round <= rounds; round++) {
        run_round(&swarm, round);
    }
    swarm_end(&swarm);
}

static void rounds_equal_the_reference_to_the_bit(void **state) {
    (void)state;
    static const int64_t SMALL[] = {1, 63, 64, 255, 257};
    static const int64_t LARGE[] = {LEAF_ELEMENTS - 1, LEAF_ELEMENTS, LEAF_ELEMENTS + 1};
    static const uint32_t MEMBERS[] = {1, 2, 3, 5};
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        for (size_t m = 0; m < ARRAY_COUNT(MEMBERS); m++) {
            for (size_t i = 0; i < ARRAY_COUNT(SMALL); i++) {
                rounds_equal_the_reference_at(SMALL[i], (enum codec)codec, MEMBERS[m], 5);
            }
        }
        for (size_t i = 0; i < ARRAY_COUNT(LARGE); i++) {
            rounds_equal_the_reference_at(LARGE[i], (enum codec)codec, 3, 3);
        }
    }
}

static void rounds_of_several_stretches_equal_the_reference(void **state) {
    (void)state;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        rounds_equal_the_reference_at(REPLICA_CHUNK_ELEMENTS + LEAF_ELEMENTS + 777,
                                      (enum codec)codec, 2, codec == CODEC_INT4 ? 2 : 1);
    }
}

static void what_is_applied_follows_what_is_meant(void **state) {
    (void)state;
    enum { COUNT = 9001, ROUNDS = 20, MEMBERS = 3 };
    static struct swarm swarm;
    static double meant[COUNT], start[COUNT];
    struct fixture_shape shape = {COUNT, CODEC_INT4, MEMBERS, 1, 0};
    swarm_begin(&shape, &swarm);
    for (int i = 0; i < COUNT; i++) {
        start[i] = (double)swarm.reference.params[i];
        meant[i] = 0;
    }
    for (uint32_t number = 1; number <= ROUNDS; number++) {
        deal(&swarm, 1);
        swarm.entry.round = number;
        struct reference_round round = {.slices = swarm.entry.slices, .cut = swarm.cut};
        for (uint32_t m = 0; m < MEMBERS; m++) {
            round.weights[m] = swarm.entry.members[m].weight = 500;
            round.clips[m] = swarm.clips[m] = 1;
        }
        train(&swarm, number);
        for (int i = 0; i < COUNT; i++) {
            for (uint32_t m = 0; m < MEMBERS; m++) {
                meant[i] +=
                    (double)(swarm.reference.params[i] - swarm.reference.inner[m][i]) / MEMBERS;
            }
        }
        encode_all(&swarm);
        sum_all(&swarm, &round);
        vote_and_apply(&swarm, &round);
    }
    /* A residual is half a step of a block whose largest size is noise plus an older residual. */
    for (int i = 0; i < COUNT - 64; i++) {
        double owed = 0;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            owed += (double)swarm.members[m].replica.feedback[i] / MEMBERS;
        }
        double applied = start[i] - (double)swarm.members[0].replica.params[i];
        bool in_last_blocks = i + 192 > COUNT;
        assert_true(fabs(applied + owed - meant[i]) < 1e-5);
        assert_true(in_last_blocks || fabs(owed) < 0.0004);
    }
    swarm_end(&swarm);
}

/* ---- what is not finite, not named, not of this history ---- */

static void a_value_that_is_not_finite_makes_the_contribution_zero(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    static const float BAD[] = {NAN, INFINITY, -INFINITY};
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        static struct swarm swarm;
        struct fixture_shape shape = {COUNT, (enum codec)codec, 1, 1, 0};
        swarm_begin(&shape, &swarm);
        struct replica *replica = &swarm.members[0].replica;
        for (size_t b = 0; b < ARRAY_COUNT(BAD); b++) {
            *fixture_inner(&swarm.members[0], COUNT - 1) = BAD[b];
            assert_false(replica_encode_contribution(replica));
            for (uint64_t i = 0; i < swarm.cut->bytes; i++) {
                assert_int_equal(replica->contribution[i], 0);
            }
        }
        swarm_end(&swarm);
    }
}

static void a_mean_is_zero_when_nothing_can_be_weighed(void **state) {
    (void)state;
    enum { COUNT = 300 };
    static const uint64_t WEIGHTS[] = {0, (uint64_t)1 << 53, UINT64_MAX};
    static struct swarm swarm;
    struct fixture_shape shape = {COUNT, CODEC_INT4, 1, 1, 0};
    swarm_begin(&shape, &swarm);
    struct replica *replica = &swarm.members[0].replica;
    train(&swarm, 1);
    assert_true(replica_encode_contribution(replica));
    for (size_t i = 0; i < ARRAY_COUNT(WEIGHTS); i++) {
        struct addend own = {replica_own_contribution(replica, 0), WEIGHTS[i], 1, true};
        struct addend addends[2] = {own, own};
        (void)replica_sum(replica, 1, 0, addends, 2);
        for (uint64_t b = 0; b < swarm.cut->bytes; b++) {
            assert_int_equal(replica_result(replica, 1, 0)[b], 0);
        }
    }
    swarm_end(&swarm);
}

static void feedback_stands_still_for_who_is_not_named(void **state) {
    (void)state;
    enum { COUNT = 300 };
    static struct swarm swarm;
    static float owed[COUNT];
    struct fixture_shape shape = {COUNT, CODEC_INT4, 2, 1, 0};
    swarm_begin(&shape, &swarm);
    run_round(&swarm, 1);
    struct replica *replica = &swarm.members[1].replica;
    memcpy(owed, replica->feedback, sizeof owed);
    assert_true(owed[0] != 0);
    deal(&swarm, 1);
    swarm.entry.round = 2;
    swarm.entry.slices[0].contributors = 1;
    swarm.entry.slices[0].owner = 0;
    train(&swarm, 2);
    encode_all(&swarm);
    sum_slice(&swarm, 0);
    (void)replica_apply(replica, &swarm.entry, 1);
    assert_memory_equal(owed, replica->feedback, sizeof owed);
    replica_clear_feedback(replica);
    for (int i = 0; i < COUNT; i++) {
        assert_true(replica->feedback[i] == 0);
    }
    swarm_end(&swarm);
}

/* It was owed by an earlier start of the member, whose contribution is lost; slices that the commit
 * does not name it in are owed as before. */
static void feedback_is_forgotten_where_an_earlier_start_contributed(void **state) {
    (void)state;
    enum { COUNT = 70000, MEMBERS = 3 };
    static struct swarm swarm;
    static float owed[COUNT];
    struct fixture_shape shape = {COUNT, CODEC_INT4, MEMBERS, 1, 0};
    swarm_begin(&shape, &swarm);
    run_round(&swarm, 1);
    struct replica *replica = &swarm.members[1].replica;
    assert_true(swarm.slice_count > 1);
    memcpy(owed, replica->feedback, sizeof owed);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        swarm.entry.seats[m].id = (struct identity){{(uint8_t)(m + 1)}};
        swarm.entry.members[m].weight = 10;
    }
    for (uint32_t s = 0; s < swarm.slice_count; s++) {
        swarm.entry.slices[s].contributors = s == 0 ? 5 : 7;
    }
    replica_clear_sent_feedback(replica, &swarm.entry, &(struct identity){{9}});
    assert_memory_equal(owed, replica->feedback, sizeof owed);
    swarm.entry.members[1].weight = 0;
    replica_clear_sent_feedback(replica, &swarm.entry, &swarm.entry.seats[1].id);
    assert_memory_equal(owed, replica->feedback, sizeof owed);
    swarm.entry.members[1].weight = 10;
    replica_clear_sent_feedback(replica, &swarm.entry, &swarm.entry.seats[1].id);
    int64_t end = slices_range(swarm.cut, 0).end;
    assert_memory_equal(owed, replica->feedback, (size_t)end * sizeof(float));
    for (int64_t i = end; i < COUNT; i++) {
        assert_true(replica->feedback[i] == 0);
    }
    swarm_end(&swarm);
}

static void a_result_of_another_sum_leaves_no_residual(void **state) {
    (void)state;
    enum { COUNT = 300 };
    static struct swarm swarm;
    static float owed[COUNT];
    struct fixture_shape shape = {COUNT, CODEC_INT4, 2, 1, 0};
    swarm_begin(&shape, &swarm);
    deal(&swarm, 1);
    train(&swarm, 1);
    encode_all(&swarm);
    sum_slice(&swarm, 0); /* by its owner, member 0 */
    struct replica *owner = &swarm.members[0].replica;
    struct hash first = swarm.entry.slices[0].hash;
    memcpy(owed, owner->residual, sizeof owed);
    swarm.entry.slices[0].contributors = 2; /* and once more, with fewer */
    sum_slice(&swarm, 0);
    assert_false(hash_equal(&first, &swarm.entry.slices[0].hash));
    swarm.entry.slices[0].hash = first; /* but the first one was committed, without this member */
    (void)replica_apply(owner, &swarm.entry, 0);
    for (int i = 0; i < COUNT; i++) {
        assert_true(owner->feedback[i] == 0);
    }
    swarm_end(&swarm);
}

/* ---- leaves ---- */

static void copy_leaves(struct replica *from, struct replica *to) {
    static uint8_t bytes[LEAF_BYTES];
    uint64_t leaf_count = replica_leaf_count(&from->shape.slices);
    for (uint64_t i = 0; i < leaf_count; i++) {
        (void)replica_read_leaf(from, i, bytes);
        replica_write_leaf(to, i, bytes);
    }
}

/* The last leaf first: none needs another. */
static void leaves_brought_forward_are_those_of_apply_at(int64_t count, enum codec codec) {
    static struct swarm swarm;
    static struct fixture_replica joiner;
    struct fixture_shape shape = {count, codec, 2, 0.7F, 0.9F};
    size_t bytes = sizeof(float) * (size_t)count;
    swarm_begin(&shape, &swarm);
    struct replica *from = &swarm.members[0].replica;
    fixture_replica_make(&shape, &joiner);
    run_round(&swarm, 1);
    copy_leaves(from, &joiner.replica);
    for (uint32_t round = 2; round <= 3; round++) {
        run_round(&swarm, round);
        memcpy(replica_result(&joiner.replica, round, 0), replica_result(from, round, 0),
               swarm.cut->bytes);
        for (uint64_t i = replica_leaf_count(&from->shape.slices); i > 0; i--) {
            replica_replay_leaf(from->compute, &joiner.replica, i - 1, round,
                                swarm.entry.seat_count);
            assert_true(hash_equal(&joiner.replica.leaves[i - 1], &from->leaves[i - 1]));
        }
        assert_memory_equal(joiner.replica.params, from->params, bytes);
        assert_memory_equal(joiner.replica.momentum, from->momentum, bytes);
    }
    fixture_replica_free(&joiner);
    swarm_end(&swarm);
}

static void leaves_brought_forward_are_those_of_apply(void **state) {
    (void)state;
    static const int64_t COUNTS[] = {1, 257, LEAF_ELEMENTS, 2 * LEAF_ELEMENTS + 777};
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        for (size_t c = 0; c < ARRAY_COUNT(COUNTS); c++) {
            leaves_brought_forward_are_those_of_apply_at(COUNTS[c], (enum codec)codec);
        }
    }
}

static void leaves_carry_a_state_to_another_replica(void **state) {
    (void)state;
    static const int64_t COUNTS[] = {1, 257, LEAF_ELEMENTS, 2 * LEAF_ELEMENTS + 3};
    static uint8_t bytes[LEAF_BYTES];
    for (size_t c = 0; c < ARRAY_COUNT(COUNTS); c++) {
        static struct swarm swarm;
        static struct fixture_replica joiner;
        struct fixture_shape shape = {COUNTS[c], CODEC_INT8, 1, 0.7F, 0.9F};
        swarm_begin(&shape, &swarm);
        run_round(&swarm, 1);
        struct replica *from = &swarm.members[0].replica;
        fixture_replica_make(&shape, &joiner);
        uint64_t total = replica_state_bytes(&from->shape.slices);
        for (uint64_t i = 0; i < replica_leaf_count(&from->shape.slices); i++) {
            size_t length = replica_read_leaf(from, i, bytes);
            struct hash name = merkle_leaf_hash(bytes, length);
            assert_int_equal(length, merkle_leaf_bytes(total, i));
            assert_true(hash_equal(&name, &from->leaves[i]));
            replica_write_leaf(&joiner.replica, i, bytes);
        }
        replica_refresh_hashes(&joiner.replica);
        replica_reset_inner(&joiner.replica);
        assert_true(hash_equal(&joiner.replica.root, &from->root));
        assert_true(*fixture_inner(&joiner, shape.count - 1) == from->params[shape.count - 1]);
        fixture_replica_free(&joiner);
        swarm_end(&swarm);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_equal_the_reference_to_the_bit),
        cmocka_unit_test(rounds_of_several_stretches_equal_the_reference),
        cmocka_unit_test(what_is_applied_follows_what_is_meant),
        cmocka_unit_test(a_value_that_is_not_finite_makes_the_contribution_zero),
        cmocka_unit_test(a_mean_is_zero_when_nothing_can_be_weighed),
        cmocka_unit_test(feedback_stands_still_for_who_is_not_named),
        cmocka_unit_test(feedback_is_forgotten_where_an_earlier_start_contributed),
        cmocka_unit_test(a_result_of_another_sum_leaves_no_residual),
        cmocka_unit_test(leaves_brought_forward_are_those_of_apply),
        cmocka_unit_test(leaves_carry_a_state_to_another_replica),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
