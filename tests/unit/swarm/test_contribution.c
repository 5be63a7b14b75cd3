/* test_contribution: the root of a contribution against Python (hashlib.blake2b, struct), and
 * proofs that must not show anything but the declared slice. */
#include "runtime/swarm/ledger/contribution.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLICES = 7 };

static struct hash hashes[SLICES]; /* the hash of i as 8 bytes */
static double norms[SLICES];       /* i / 4 */
static struct hash nodes[4 * SLICES];
static struct hash root;

static int fill(void **state) {
    (void)state;
    for (uint64_t i = 0; i < SLICES; i++) {
        hashes[i] = hash_of(&i, sizeof i);
        norms[i] = (double)i / 4;
        nodes[i] = contribution_leaf(&hashes[i], norms[i]);
    }
    assert_in_range(merkle_list_node_count(SLICES), SLICES, ARRAY_COUNT(nodes));
    merkle_list_build(nodes, SLICES);
    root = merkle_tree_root(nodes, SLICES);
    return 0;
}

static struct slice_proof prove(uint32_t slice) {
    struct slice_proof proof;
    contribution_prove(nodes, norms, SLICES, slice, &proof);
    return proof;
}

static void a_contribution_has_the_known_root(void **state) {
    (void)state;
    char hex[HASH_HEX_BYTES];
    assert_string_equal(hash_hex(&root, hex),
                        "733e17863d402058341e843fa5693b0c6210428ffcc52dc7575f4c2c5b744773");
}

static void a_proof_shows_one_slice_with_its_hash_and_norm(void **state) {
    (void)state;
    for (uint32_t slice = 0; slice < SLICES; slice++) {
        const struct slice_proof proof = prove(slice);
        assert_true(proof.norm == norms[slice]);
        for (uint32_t other = 0; other < SLICES + 1; other++) {
            assert_int_equal(contribution_is_proven(&root, SLICES, other, &hashes[slice], &proof),
                             other == slice);
        }
        for (uint32_t other = 0; other < SLICES; other++) {
            assert_int_equal(contribution_is_proven(&root, SLICES, slice, &hashes[other], &proof),
                             other == slice);
        }
    }
}

static void a_proof_with_another_norm_path_or_root_shows_nothing(void **state) {
    (void)state;
    static const double NORMS[] = {0, 0.75000001, -0.75, 1e300, INFINITY, NAN};
    const struct slice_proof honest = prove(3);
    struct hash false_root = root;
    assert_true(contribution_is_proven(&root, SLICES, 3, &hashes[3], &honest));
    for (size_t i = 0; i < ARRAY_COUNT(NORMS); i++) {
        struct slice_proof proof = honest;
        proof.norm = NORMS[i];
        assert_false(contribution_is_proven(&root, SLICES, 3, &hashes[3], &proof));
    }
    for (uint32_t count = 0; count < 40; count++) {
        struct slice_proof proof = honest;
        proof.path_count = count;
        assert_int_equal(contribution_is_proven(&root, SLICES, 3, &hashes[3], &proof),
                         count == honest.path_count);
    }
    struct slice_proof longest = honest;
    longest.path_count = UINT32_MAX;
    assert_false(contribution_is_proven(&root, SLICES, 3, &hashes[3], &longest));
    false_root.bytes[31] ^= 1;
    assert_false(contribution_is_proven(&false_root, SLICES, 3, &hashes[3], &honest));
}

static void the_longest_path_has_room(void **state) {
    (void)state;
    const uint64_t count = merkle_list_node_count(SWARM_SLICES_MAX);
    struct hash *many = calloc(count, sizeof *many);
    double *zeros = calloc(SWARM_SLICES_MAX, sizeof *zeros);
    assert_non_null(many);
    assert_non_null(zeros);
    merkle_list_build(many, SWARM_SLICES_MAX);
    struct slice_proof proof;
    contribution_prove(many, zeros, SWARM_SLICES_MAX, SWARM_SLICES_MAX - 1, &proof);
    assert_int_equal(proof.path_count, CONTRIBUTION_PATH_MAX);
    free(many);
    free(zeros);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contribution_has_the_known_root),
        cmocka_unit_test(a_proof_shows_one_slice_with_its_hash_and_norm),
        cmocka_unit_test(a_proof_with_another_norm_path_or_root_shows_nothing),
        cmocka_unit_test(the_longest_path_has_room),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
