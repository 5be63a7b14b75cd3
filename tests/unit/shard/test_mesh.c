/* Meshes: cells, ranks and groups against loops over all ranks; bad meshes and tables. */
#include "runtime/shard/mesh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Row-major but for the table, where one is given. */
struct sample {
    struct mesh_dim dims[MESH_DIMS_MAX];
    int dim_count;
    int ranks;
    const int *table;
};

static const int SHUFFLED[24] = {17, 3,  22, 0,  9,  14, 5,  11, 20, 8,  1,  23,
                                 6,  13, 2,  19, 10, 4,  16, 7,  21, 12, 18, 15};
static const struct sample SAMPLES[] = {
    {{{"world", 1}}, 1, 1, NULL},
    {{{"shard", 7}}, 1, 7, NULL},
    {{{"replicate", 2}, {"shard", 12}}, 2, 24, NULL},
    {{{"replicate", 4}, {"shard", 6}}, 2, 24, SHUFFLED},
    {{{"a", 2}, {"b", 3}, {"c", 4}}, 3, 24, SHUFFLED},
    {{{"a", 3}, {"b", 1}, {"c", 2}, {"d", 4}}, 4, 24, SHUFFLED},
    {{{"a", 4}, {"b", 4}, {"c", 8}, {"d", 8}}, 4, 1024, NULL},
};

static void open_sample(const struct sample *sample, struct region *region, struct mesh *mesh) {
    struct fault fault;
    if (mesh_init(sample->dims, sample->dim_count, sample->table, region, mesh, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    assert_int_equal(mesh->ranks, sample->ranks);
}

static void ranks_and_coordinates_are_each_others_inverse(void **state) {
    (void)state;
    for (size_t s = 0; s < ARRAY_COUNT(SAMPLES); s++) {
        const struct sample *sample = &SAMPLES[s];
        struct region region = {0};
        struct mesh mesh;
        open_sample(sample, &region, &mesh);
        int coordinate[MESH_DIMS_MAX] = {0};
        for (int cell = 0; cell < mesh.ranks; cell++) {
            int rank = sample->table != NULL ? sample->table[cell] : cell;
            int found[MESH_DIMS_MAX];
            assert_int_equal(mesh_rank_at(&mesh, coordinate), rank);
            mesh_get_coordinates(&mesh, rank, found);
            assert_memory_equal(found, coordinate, (size_t)sample->dim_count * sizeof(int));
            /* Count on, the last dimension fastest. */
            int d = sample->dim_count - 1;
            while (d >= 0 && ++coordinate[d] == sample->dims[d].size) {
                coordinate[d--] = 0;
            }
        }
        region_finish(&region);
    }
}

/* Whether two ranks sit in one group of the dimensions in `dims`. */
static bool share_group(const struct mesh *mesh, unsigned dims, int a, int b) {
    int of_a[MESH_DIMS_MAX];
    int of_b[MESH_DIMS_MAX];
    mesh_get_coordinates(mesh, a, of_a);
    mesh_get_coordinates(mesh, b, of_b);
    for (int d = 0; d < mesh->dim_count; d++) {
        if ((dims >> d & 1) == 0 && of_a[d] != of_b[d]) {
            return false;
        }
    }
    return true;
}

static void groups_hold_who_differs_only_there_by_cell(void **state) {
    (void)state;
    for (size_t s = 0; s + 1 < ARRAY_COUNT(SAMPLES); s++) {
        struct region region = {0};
        struct mesh mesh;
        open_sample(&SAMPLES[s], &region, &mesh);
        for (unsigned k = 0; k < (unsigned)mesh.ranks << mesh.dim_count; k++) {
            int rank = (int)(k >> mesh.dim_count);
            unsigned dims = k & ((1U << mesh.dim_count) - 1);
            int group[64];
            int index = -1;
            int count = mesh_list_group(&mesh, dims, rank, group, &index);
            int wanted = 0;
            for (int cell = 0; cell < mesh.ranks; cell++) {
                if (share_group(&mesh, dims, rank, mesh.table[cell])) {
                    assert_true(wanted < count);
                    assert_int_equal(group[wanted++], mesh.table[cell]);
                }
            }
            assert_int_equal(count, wanted);
            assert_int_equal(group[index], rank);
        }
        region_finish(&region);
    }
}

static void dimensions_are_found_by_name(void **state) {
    (void)state;
    struct region region = {0};
    struct mesh mesh;
    open_sample(&SAMPLES[2], &region, &mesh);
    assert_int_equal(mesh_dim_find(&mesh, "replicate"), 0);
    assert_int_equal(mesh_dim_find(&mesh, "shard"), 1);
    assert_int_equal(mesh_dim_find(&mesh, "shar"), -1);
    region_finish(&region);
}

static void bad_meshes_are_refused(void **state) {
    (void)state;
    static const int TWICE[4] = {0, 3, 1, 3};
    static const int BEYOND[4] = {0, 1, 2, 4};
    static const int BELOW[4] = {0, -1, 2, 3};
    static const struct {
        struct mesh_dim dims[MESH_DIMS_MAX];
        int dim_count;
        const int *table;
        const char *reason;
    } CASES[] = {
        {{{"a", 1}}, 0, NULL, "0 dimensions"},
        {{{"a", 1}}, 5, NULL, "5 dimensions"},
        {{{"a", 2}, {"", 2}}, 2, NULL, "dimension 2 has no name"},
        {{{"a", 2}, {"b", 2}, {"a", 2}}, 3, NULL, "two dimensions have the name \"a\""},
        {{{"a", 2}, {"b", 0}}, 2, NULL, "the size is below 1 in dimension \"b\""},
        {{{"a", 32}, {"b", 33}}, 2, NULL, "more than 1024 ranks"},
        {{{"a", 2147483647}, {"b", 2147483647}}, 2, NULL, "more than 1024 ranks"},
        {{{"a", 2}, {"b", 2}}, 2, TWICE, "contains rank 3 twice and does not contain rank 2"},
        {{{"a", 2}, {"b", 2}}, 2, BEYOND, "contains rank 4, but the mesh has ranks 0 to 3"},
        {{{"a", 2}, {"b", 2}}, 2, BELOW, "contains rank -1, but the mesh has ranks 0 to 3"},
    };
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        struct region region = {0};
        struct mesh mesh = {.ranks = 77};
        struct fault fault;
        assert_int_equal(
            mesh_init(CASES[c].dims, CASES[c].dim_count, CASES[c].table, &region, &mesh, &fault),
            STATUS_INPUT);
        assert_int_equal(mesh.ranks, 77);
        if (strstr(fault.reason, CASES[c].reason) == NULL) {
            fail_msg("case %d: %s", (int)c, fault.reason);
        }
        region_finish(&region);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_and_coordinates_are_each_others_inverse),
        cmocka_unit_test(groups_hold_who_differs_only_there_by_cell),
        cmocka_unit_test(dimensions_are_found_by_name),
        cmocka_unit_test(bad_meshes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
