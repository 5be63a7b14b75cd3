/* test_mesh_command: tables and groups by hand, placements counted anew, bad usage is exit 2. */
#include "base/json.h"
#include "tests/unit/cli/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OUTPUT_BYTES = 1 << 20, RANKS_HERE = 8 };

static char output[OUTPUT_BYTES];

static int run(const char *const *words) {
    return capture(&COMMAND_MESH, words, output, sizeof output);
}

static int64_t integer(const struct json_node *node) {
    int64_t value = -1;
    struct fault fault;
    assert_int_equal(json_as_i64(node, &value, &fault), OK);
    return value;
}

static struct json_node member(const struct json_node *object, const char *key) {
    struct json_node node;
    assert_true(json_find(object, key, &node));
    return node;
}

static void open_document(const char *const *words, struct json_document *document) {
    struct fault fault;
    assert_int_equal(run(words), 0);
    assert_int_equal(json_parse(output, strlen(output), OUTPUT_BYTES, "output", document, &fault),
                     OK);
}

static void coordinates_follow_the_table(void **state) {
    (void)state;
    /* Rank of each cell of a 2 x 4 mesh. */
    static const int TABLE[RANKS_HERE] = {0, 2, 4, 6, 1, 3, 5, 7};
    const char *const words[] = {
        "mesh", "replicate=2,shard=4", "--table", "0,2,4,6,1,3,5,7", "--json", NULL};
    struct json_document document;
    open_document(words, &document);
    struct json_node coordinates = member(&document.root, "coordinates");
    for (int cell = 0; cell < RANKS_HERE; cell++) {
        struct json_node at = json_element(&coordinates, (size_t)TABLE[cell]);
        struct json_node row = json_element(&at, 0);
        struct json_node column = json_element(&at, 1);
        assert_int_equal(integer(&row), cell / 4);
        assert_int_equal(integer(&column), cell % 4);
    }
    json_finish(&document);
}

static void every_projection_has_each_rank_in_one_group(void **state) {
    (void)state;
    const char *const words[] = {"mesh", "a=2,b=2,c=2", "--json", NULL};
    static const int SIZES[] = {0, 2, 2, 4, 2, 4, 4, 8};
    struct json_document document;
    open_document(words, &document);
    struct json_node projections = member(&document.root, "groups");
    assert_int_equal(json_child_count(&projections), 7);
    for (size_t mask = 1; mask < 8; mask++) {
        struct json_node projection = json_element(&projections, mask - 1);
        struct json_node groups = member(&projection, "ranks");
        unsigned seen = 0;
        for (size_t g = 0; g < json_child_count(&groups); g++) {
            struct json_node group = json_element(&groups, g);
            assert_int_equal(json_child_count(&group), SIZES[mask]);
            struct json_node first = json_element(&group, 0);
            for (size_t i = 0; i < json_child_count(&group); i++) {
                struct json_node rank = json_element(&group, i);
                /* row-major: bits outside of the mask are the same in the whole group */
                unsigned bits = (unsigned)((mask & 1) << 2 | (mask & 2) | mask >> 2);
                assert_int_equal(integer(&rank) & ~bits, integer(&first) & ~bits);
                seen |= 1u << integer(&rank);
            }
        }
        assert_int_equal(seen, 255);
    }
    json_finish(&document);
}

/* Nodes of four, the shards' bytes three times the replicas': shard = 4 belongs inside a node. */
static void the_busiest_dimension_goes_inside_a_node(void **state) {
    (void)state;
    const char *const words[] = {"mesh",    "shard=4,replicate=2",     "--per-node", "4",
                                 "--bytes", "replicate=1e9,shard=3e9", "--json",     NULL};
    struct json_document document;
    struct fault fault;
    double far = 0;
    open_document(words, &document);
    struct json_node placement = member(&document.root, "placement");
    assert_int_equal(json_get_f64(&placement, "far_bytes", &far, NULL, &fault), OK);
    /* Row-major: a node has two shards of both replicas; of three others two are elsewhere. */
    assert_true(far > 1.999e9 && far < 2.001e9);
    struct json_node suggested = member(&placement, "suggested");
    assert_int_equal(json_get_f64(&suggested, "far_bytes", &far, NULL, &fault), OK);
    assert_true(far > 0.999e9 && far < 1.001e9);
    struct json_node table = member(&suggested, "table");
    for (size_t cell = 0; cell < RANKS_HERE; cell++) {
        struct json_node rank = json_element(&table, cell);
        assert_int_equal(integer(&rank) / 4, cell % 2);
    }
    json_finish(&document);
}

static void the_text_has_ranks_and_groups(void **state) {
    (void)state;
    const char *const words[] = {"mesh", "replicate=2,shard=3", "--per-node", "3", NULL};
    assert_int_equal(run(words), 0);
    assert_non_null(strstr(output, "mesh replicate=2,shard=3 of 6 ranks"));
    assert_non_null(strstr(output, "    2    5\n"));
    assert_non_null(strstr(output, "    3    4    5\n"));
    assert_non_null(strstr(output, "no order of the dimensions lowers this number"));
}

static void bad_usage_is_exit_2(void **state) {
    (void)state;
    static const struct {
        const char *words[CAPTURE_WORDS_MAX];
        const char *shown;
    } ROWS[] = {
        {{"mesh"}, "skep: mesh: NAME=SIZE,... is missing"},
        {{"mesh", "shard"}, "\"shard\" is not a dimension of the form NAME=SIZE"},
        {{"mesh", "a=2,a=2"}, "skep: mesh: "},
        {{"mesh", "a=2000"}, "more than 1024 ranks"},
        {{"mesh", "a=2", "--table", "0,0"}, "contains rank 0 twice"},
        {{"mesh", "a=2", "--table", "0"}, "the table has 1 ranks"},
        {{"mesh", "a=2", "--per-node", "0"}, "a whole number of at least 1"},
        {{"mesh", "a=2", "--per-node", "5000"}, "at most 1024"},
        {{"mesh", "a=2", "--bytes", "a=1"}, "add --per-node K"},
        {{"mesh", "a=2", "--bytes", "b=1", "--per-node", "2"}, "write --bytes a=1e9"},
        {{"mesh", "a=2", "--bytes", "a=x", "--per-node", "2"}, "write --bytes a=1e9"},
        {{"mesh", "a=2", "--bytes", "a=-1", "--per-node", "2"}, "write --bytes a=1e9"},
        {{"mesh", "a=2", "b=3"}, "one argument too many"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        int code = run(ROWS[i].words);
        if (code != 2 || strstr(output, ROWS[i].shown) == NULL) {
            fail_msg("wanted %s, got %d: %s", ROWS[i].shown, code, output);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coordinates_follow_the_table),
        cmocka_unit_test(every_projection_has_each_rank_in_one_group),
        cmocka_unit_test(the_busiest_dimension_goes_inside_a_node),
        cmocka_unit_test(the_text_has_ranks_and_groups),
        cmocka_unit_test(bad_usage_is_exit_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
