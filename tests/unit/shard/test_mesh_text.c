/* Meshes as text: parsing, faults and printing. */
#include "runtime/shard/mesh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_mesh_is_read_with_and_without_a_table(void **state) {
    (void)state;
    struct region region = {0};
    struct mesh mesh;
    struct fault fault;
    assert_int_equal(mesh_parse("replicate=2,shard=4", &region, &mesh, &fault), OK);
    assert_int_equal(mesh.ranks, 8);
    assert_int_equal(mesh_rank_at(&mesh, (int[]){1, 2}), 6);
    assert_int_equal(mesh_parse("replicate=2,shard=4:0,2,4,6,1,3,5,7", &region, &mesh, &fault), OK);
    assert_int_equal(mesh.dim_count, 2);
    assert_string_equal(mesh.dims[1].name, "shard");
    assert_int_equal(mesh_rank_at(&mesh, (int[]){1, 2}), 5);
    region_finish(&region);
}

static void what_is_no_mesh_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } CASES[] = {
        {"", "\"\" is not a dimension of the form NAME=SIZE"},
        {"shard", "\"shard\" is not a dimension of the form NAME=SIZE"},
        {"shard=", "\"shard=\" is not a dimension"},
        {"shard=4x", "\"shard=4x\" is not a dimension"},
        {"shard=4,", "\"\" is not a dimension"},
        {"shard=99999999999999999999", "is not a dimension of the form NAME=SIZE"},
        {"shard=4294967297", "is not a dimension of the form NAME=SIZE"},
        {"a_name_longer_than_most=4", "is not a dimension of the form NAME=SIZE"},
        {"=4", "dimension 1 has no name"},
        {"shard=0", "the size is below 1 in dimension \"shard\""},
        {"shard=-1", "the size is below 1 in dimension \"shard\""},
        {"a=1,b=1,c=1,d=1,e=1", "more than 4 dimensions"},
        {"shard=2:", "\"\" is not a rank"},
        {"shard=2:0,one", "\"one\" is not a rank"},
        {"shard=2:0", "the table has 1 ranks, but the mesh has 2 cells, one for each rank"},
        {"shard=2:0,1,2", "the table has 3 ranks, but the mesh has 2 cells, one for each rank"},
        {"shard=2:1,1", "contains rank 1 twice and does not contain rank 0"},
        {"shard=2:0,2", "contains rank 2"},
    };
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        struct region region = {0};
        struct mesh mesh = {.ranks = 77};
        struct fault fault;
        assert_int_equal(mesh_parse(CASES[c].text, &region, &mesh, &fault), STATUS_INPUT);
        assert_int_equal(mesh.ranks, 77);
        if (strstr(fault.reason, CASES[c].reason) == NULL) {
            fail_msg("%s: %s", CASES[c].text, fault.reason);
        }
        region_finish(&region);
    }
}

static void a_mesh_prints_cells_and_groups(void **state) {
    (void)state;
    static const char WANTED[] = "mesh replicate=2,shard=2 of 4 ranks\n"
                                 " rank         replicate             shard\n"
                                 "    0                 0                 0\n"
                                 "    1                 1                 0\n"
                                 "    2                 0                 1\n"
                                 "    3                 1                 1\n"
                                 "groups of replicate\n"
                                 "    0    1\n"
                                 "    2    3\n"
                                 "groups of shard\n"
                                 "    0    2\n"
                                 "    1    3\n";
    struct region region = {0};
    struct mesh mesh;
    struct fault fault;
    char buffer[1024];
    struct text text = text_over(buffer, sizeof buffer);
    assert_int_equal(mesh_parse("replicate=2,shard=2:0,2,1,3", &region, &mesh, &fault), OK);
    mesh_print(&mesh, &text);
    assert_false(text.truncated);
    assert_string_equal(buffer, WANTED);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mesh_is_read_with_and_without_a_table),
        cmocka_unit_test(what_is_no_mesh_is_refused),
        cmocka_unit_test(a_mesh_prints_cells_and_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
