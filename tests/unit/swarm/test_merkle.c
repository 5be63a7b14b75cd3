/* test_merkle: roots against a recursive tree in Python over hashlib.blake2b (split at the largest
 * power of two), and what must not pass for a leaf. */
#include "runtime/swarm/ledger/merkle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WHOLE_BYTES = 8 << 20, NAMES_MAX = 1000 };

static uint8_t *whole;               /* i % 251 */
static struct hash names[NAMES_MAX]; /* the hash of i as 8 bytes */

static int fill(void **state) {
    (void)state;
    whole = malloc(WHOLE_BYTES);
    for (int i = 0; whole != NULL && i < WHOLE_BYTES; i++) {
        whole[i] = (uint8_t)(i % 251);
    }
    for (uint64_t i = 0; i < NAMES_MAX; i++) {
        names[i] = hash_of(&i, sizeof i);
    }
    return whole == NULL;
}

static int release(void **state) {
    (void)state;
    free(whole);
    return 0;
}

static void assert_hex(struct hash hash, const char *wanted) {
    char hex[HASH_HEX_BYTES];
    assert_string_equal(hash_hex(&hash, hex), wanted);
}

static struct hash stream_root(size_t bytes, size_t piece) {
    static struct merkle_stream stream;
    merkle_begin(&stream);
    for (size_t at = 0; at < bytes; at += piece) {
        merkle_add(&stream, whole + at, bytes - at < piece ? bytes - at : piece);
    }
    return merkle_end(&stream);
}

static void a_stream_has_the_known_root_in_pieces_of_any_size(void **state) {
    (void)state;
    static const struct {
        size_t bytes;
        const char *root;
    } ROWS[] = {
        {0, "43eef4c3b1d1ab172d0e67b4343716cd593b650761af8abd368840bce94828dc"},
        {1, "df1257d9b71ef6261213b4bc0018cab2d1c67b79bd639c9bc4c2c7919aba14ba"},
        {1048575, "cc1fd98d88a1ab06899faa5b7001c4df2ffad2f0371d3231f44acb50e362fc98"},
        {1048576, "08f69181310e41a5ba9fcbbbbc38d20a2a6bab2b194a6865c85fd75a48a26c28"},
        {1048577, "9adc5216273d1b15491e7aeb1a40b272f65525f166527389f60b7ad96880bfc4"},
        {2097152, "6bf5147a3b5f38bc2186b8a0cc86d2f93b5787f169d4295dba16db0ec6a2e504"},
        {2097157, "16aa88c0544828d9c03f512df3873706f22e707ca44eb346ed39a28701082825"},
        {3145728, "85c99ddb5d33835aa06472e4dbf2e756e4601bd78f87f7b5d9c36a21bf2ed262"},
        {5242887, "2a90ccc0b397a5dc0cba9b8d51be589c6157fa64678bdba52d69da57bac973b5"},
        {7340032, "f31d69fe2bbf6650b0464e73800a9c68ef0d67757d0943f721e81201f12f11c7"},
        {8388608, "3dc12e0c02f088695064ae61446d65f64da99bb3e4f6f904cef798f54fd5460b"},
    };
    static const size_t PIECES[] = {WHOLE_BYTES, LEAF_BYTES, LEAF_BYTES - 1, 65537, 4099};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        assert_hex(stream_root(ROWS[i].bytes, PIECES[i % ARRAY_COUNT(PIECES)]), ROWS[i].root);
    }
    for (size_t i = 0; i < ARRAY_COUNT(PIECES); i++) {
        assert_hex(stream_root(ROWS[6].bytes, PIECES[i]), ROWS[6].root);
    }
    assert_hex(stream_root(ROWS[1].bytes, 1), ROWS[1].root);
}

static void names_have_the_known_root(void **state) {
    (void)state;
    static const struct {
        uint64_t count;
        const char *root;
    } ROWS[] = {
        {1, "4e81a4af23fe489a8538cc719970866cecb69df19f6207b95f94134028abfe7d"},
        {2, "38944ca0c023b9ad807cf3703fb645031815a5c63fd2e4685fb91d00cd7e9c19"},
        {3, "d744c5c9588813ba38d89f03b3d619467897ca72bab41490b9aaeef6eec40e14"},
        {5, "74e69abaec8f00afd754537ff8eba81ee0ac229bbf6bce83b09f178964f9f8f2"},
        {6, "c8ce953b7c1c80a52defdad1e3f658a5b530f3ef7845a6335768dcd363a5d768"},
        {7, "3450328e07c7033ac6c81e1f02231891ee0f48805bc47ec4ae25543b6e4bde6f"},
        {11, "6cc828ad1e1418e727101fbc8d4826bb97adf3ae213a0cb6f8d2e9a757a533bc"},
        {64, "288373d37751743130bbbff2ccaaffb4f31c6a5c9f72f83d1150bbd934c908e0"},
        {100, "ce40c3bcc6374cd05f14ca2d470a2840efbc1b86aa0b589b466e7f3a96c5bc24"},
        {1000, "01348a35fbad9602233e42ab595a112d84f57debaee105e8312ddbd15e18eae1"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        assert_hex(merkle_root_from_leaves(ROWS[i].count * LEAF_BYTES - 3, names), ROWS[i].root);
    }
}

static void every_leaf_of_every_shape_is_proved_at_its_place_only(void **state) {
    (void)state;
    struct hash path[MERKLE_DEPTH_MAX];
    for (uint64_t count = 1; count <= 40; count++) {
        const uint64_t bytes = count * LEAF_BYTES - 3;
        const struct hash root = merkle_root_from_leaves(bytes, names);
        for (uint64_t i = 0; i < count; i++) {
            int depth = merkle_path(bytes, names, i, path);
            for (uint64_t at = 0; at < count + 2; at++) {
                assert_int_equal(merkle_verify(&root, bytes, at, &names[i], path, depth), at == i);
                assert_int_equal(merkle_verify(&root, bytes, i, &names[at], path, depth), at == i);
            }
        }
    }
}

static void a_path_that_is_changed_cut_or_longer_proves_nothing(void **state) {
    (void)state;
    const uint64_t bytes = 11 * (uint64_t)LEAF_BYTES;
    const struct hash root = merkle_root_from_leaves(bytes, names);
    struct hash path[MERKLE_DEPTH_MAX + 1] = {0};
    for (uint64_t i = 0; i < 11; i++) {
        int depth = merkle_path(bytes, names, i, path);
        assert_int_equal(depth, i < 8 ? 4 : i < 10 ? 3 : 2);
        for (int count = -1; count <= MERKLE_DEPTH_MAX; count++) {
            assert_int_equal(merkle_verify(&root, bytes, i, &names[i], path, count),
                             count == depth);
        }
        for (int bit = 0; bit < depth * HASH_BYTES * 8; bit += 37) {
            path[bit / 256].bytes[bit % 256 / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(merkle_verify(&root, bytes, i, &names[i], path, depth));
            path[bit / 256].bytes[bit % 256 / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

/* The two names below an inner node, as bytes of a leaf, or with its domain byte in front, must
 * give neither its name nor a tree of the same root. */
static void an_inner_node_does_not_pass_for_a_leaf(void **state) {
    (void)state;
    const uint64_t two = 2 * (uint64_t)LEAF_BYTES;
    uint8_t forged[1 + 2 * HASH_BYTES] = {1};
    memcpy(forged + 1, names, 2 * HASH_BYTES);
    struct merkle_stack stack = {.leaf_count = 0};
    merkle_push_leaf(&stack, &names[0]);
    merkle_push_leaf(&stack, &names[1]);
    const struct hash node = merkle_tree_top(&stack);
    const struct hash root = merkle_root_from_leaves(two, names);
    const struct hash as_leaf[] = {merkle_leaf_hash(forged, sizeof forged),
                                   merkle_leaf_hash(forged + 1, sizeof forged - 1)};
    for (size_t i = 0; i < ARRAY_COUNT(as_leaf); i++) {
        assert_false(hash_equal(&as_leaf[i], &node));
        assert_false(merkle_verify(&root, sizeof forged, 0, &as_leaf[i], NULL, 0));
    }
    /* The node's own name as the only leaf of a smaller whole. */
    assert_false(merkle_verify(&root, LEAF_BYTES, 0, &node, NULL, 0));
}

static void a_repeated_last_leaf_gives_another_root(void **state) {
    (void)state;
    struct hash four[4] = {names[0], names[1], names[2], names[2]};
    const struct hash three = merkle_root_from_leaves(3 * (uint64_t)LEAF_BYTES, four);
    const struct hash doubled = merkle_root_from_leaves(4 * (uint64_t)LEAF_BYTES, four);
    assert_false(hash_equal(&three, &doubled));
}

/* ---- lists ---- */

/* Returns the nodes of a list of the first `count` names. */
static struct hash *build_list(uint64_t count) {
    struct hash *nodes = calloc(merkle_list_node_count(count), sizeof *nodes);
    assert_non_null(nodes);
    memcpy(nodes, names, count * sizeof *nodes);
    merkle_list_build(nodes, count);
    return nodes;
}

static void a_list_has_the_known_root(void **state) {
    (void)state;
    static const struct {
        uint64_t count;
        const char *root;
    } ROWS[] = {
        {1, "f1cee07ffb7b52e510198c1883ece246db7779cde3c5f52062b7c6bddab62e1e"},
        {2, "699c7c4ff4348240158eda4309bd7bd87fd774e47d803df48d2c3717c0d102d9"},
        {3, "bbd3b6f3f63ae9eb39f88ffe71e6cb63bca768ba599183b1c4c0381478ad4970"},
        {5, "a04b80819ce54020917bf494825965783727ecb133cd1f484a031155b6cfab06"},
        {8, "81d676dcf1dab4d0865b1bed820da9e05edecfde457c4684dd58ec990c8cd99e"},
        {969, "2cc4ff081b34d2cd48d54692015ba1553fa17e78975f2bfdee6aec5763a99325"},
        {1000, "945edb2949c655f081c4160ce45be8a8c61075576fc7fd034be08c9cf332c8e4"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct hash *nodes = build_list(ROWS[i].count);
        struct merkle_stack stack = {.leaf_count = 0};
        for (uint64_t leaf = 0; leaf < ROWS[i].count; leaf++) {
            merkle_push_leaf(&stack, &names[leaf]);
        }
        const struct hash top = merkle_tree_top(&stack);
        assert_hex(merkle_tree_root(nodes, ROWS[i].count), ROWS[i].root);
        assert_hex(merkle_list_root_from_top(ROWS[i].count, &top), ROWS[i].root);
        free(nodes);
    }
}

static void every_leaf_of_a_list_is_proved_at_its_place_only(void **state) {
    (void)state;
    struct hash path[MERKLE_DEPTH_MAX + 1] = {0};
    for (uint64_t count = 1; count <= 40; count++) {
        struct hash *nodes = build_list(count);
        const struct hash root = merkle_tree_root(nodes, count);
        for (uint64_t i = 0; i < count; i++) {
            int depth = merkle_list_path(nodes, count, i, path);
            for (uint64_t at = 0; at < count + 2; at++) {
                assert_int_equal(merkle_list_verify(&root, count, at, &names[i], path, depth),
                                 at == i);
                assert_int_equal(merkle_list_verify(&root, count, i, &names[at], path, depth),
                                 at == i);
            }
            assert_false(merkle_list_verify(&root, count, i, &names[i], path, depth + 1));
            assert_false(merkle_list_verify(&root, count, i, &names[i], path, depth - 1));
            assert_false(merkle_list_verify(&root, count + 41, i, &names[i], path, depth));
        }
        free(nodes);
    }
}

static void the_root_holds_the_length(void **state) {
    (void)state;
    const uint64_t bytes = 3 * (uint64_t)LEAF_BYTES;
    struct hash path[MERKLE_DEPTH_MAX];
    const struct hash root = merkle_root_from_leaves(bytes, names);
    int depth = merkle_path(bytes, names, 1, path);
    static const uint64_t OTHERS[] = {0, 1, 2 * LEAF_BYTES, 3 * LEAF_BYTES - 1, 3 * LEAF_BYTES + 1};
    for (size_t i = 0; i < ARRAY_COUNT(OTHERS); i++) {
        assert_false(merkle_verify(&root, OTHERS[i], 1, &names[1], path, depth));
    }
    assert_false(merkle_verify(&root, UINT64_MAX, 1, &names[1], path, depth));
    assert_false(merkle_verify(&root, bytes, UINT64_MAX, &names[1], path, depth));
    assert_true(merkle_verify(&root, bytes, 1, &names[1], path, depth));
}

static void lengths_of_leaves_add_up(void **state) {
    (void)state;
    assert_int_equal(merkle_leaf_count(0), 0);
    assert_int_equal(merkle_leaf_count(1), 1);
    assert_int_equal(merkle_leaf_count(LEAF_BYTES), 1);
    assert_int_equal(merkle_leaf_count(LEAF_BYTES + 1), 2);
    assert_int_equal(merkle_leaf_bytes(LEAF_BYTES + 1, 0), LEAF_BYTES);
    assert_int_equal(merkle_leaf_bytes(LEAF_BYTES + 1, 1), 1);
    assert_int_equal(merkle_leaf_bytes(2 * LEAF_BYTES, 1), LEAF_BYTES);
    assert_true(merkle_leaf_count(MERKLE_BYTES_MAX) == (uint64_t)1 << 41);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_has_the_known_root_in_pieces_of_any_size),
        cmocka_unit_test(names_have_the_known_root),
        cmocka_unit_test(every_leaf_of_every_shape_is_proved_at_its_place_only),
        cmocka_unit_test(a_path_that_is_changed_cut_or_longer_proves_nothing),
        cmocka_unit_test(an_inner_node_does_not_pass_for_a_leaf),
        cmocka_unit_test(a_repeated_last_leaf_gives_another_root),
        cmocka_unit_test(a_list_has_the_known_root),
        cmocka_unit_test(every_leaf_of_a_list_is_proved_at_its_place_only),
        cmocka_unit_test(the_root_holds_the_length),
        cmocka_unit_test(lengths_of_leaves_add_up),
    };
    return cmocka_run_group_tests(tests, fill, release);
}
