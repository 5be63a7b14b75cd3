/* Node-aware placement: no other placement of a small mesh on full nodes keeps more bytes inside
 * them, and none is worse than no placement. */
#include "runtime/shard/mesh.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS_TRIED = 8 };

/* Bytes that ranks receive from other nodes; node_of by cell. */
static double cost(const struct mesh_dim *dims, int dim_count, const double *bytes,
                   const int *node_of) {
    int ranks = 1;
    for (int d = 0; d < dim_count; d++) {
        ranks *= dims[d].size;
    }
    double sum = 0;
    for (int pair = 0; pair < ranks * ranks; pair++) {
        int a = pair / ranks;
        int b = pair % ranks;
        int differing = 0;
        int along = 0;
        int below = ranks;
        for (int d = 0; d < dim_count; d++) {
            below /= dims[d].size;
            bool differ = a / below % dims[d].size != b / below % dims[d].size;
            differing += differ;
            along = differ ? d : along;
        }
        if (differing == 1 && node_of[a] != node_of[b]) {
            sum += bytes[along] / (dims[along].size - 1);
        }
    }
    return sum;
}

/* The next arrangement of the same numbers in lexical order; false after the last. */
static bool next_arrangement(int *numbers, int count) {
    int i = count - 2;
    while (i >= 0 && numbers[i] >= numbers[i + 1]) {
        i--;
    }
    if (i < 0) {
        return false;
    }
    int j = count - 1;
    while (numbers[j] <= numbers[i]) {
        j--;
    }
    int swapped = numbers[i];
    numbers[i] = numbers[j];
    numbers[j] = swapped;
    for (int low = i + 1, high = count - 1; low < high; low++, high--) {
        swapped = numbers[low];
        numbers[low] = numbers[high];
        numbers[high] = swapped;
    }
    return true;
}

static double least_cost(const struct mesh_dim *dims, int dim_count, const double *bytes, int ranks,
                         int per_node) {
    int node_of[RANKS_TRIED];
    for (int cell = 0; cell < ranks; cell++) {
        node_of[cell] = cell / per_node;
    }
    double least = cost(dims, dim_count, bytes, node_of);
    while (next_arrangement(node_of, ranks)) {
        double other = cost(dims, dim_count, bytes, node_of);
        least = other < least ? other : least;
    }
    return least;
}

struct sample {
    struct mesh_dim dims[MESH_DIMS_MAX];
    int dim_count;
    int ranks;
};

static const struct sample MESHES[] = {
    {{{"a", 5}}, 1, 5},
    {{{"a", 8}}, 1, 8},
    {{{"a", 2}, {"b", 2}}, 2, 4},
    {{{"a", 2}, {"b", 3}}, 2, 6},
    {{{"a", 3}, {"b", 2}}, 2, 6},
    {{{"a", 2}, {"b", 4}}, 2, 8},
    {{{"a", 4}, {"b", 2}}, 2, 8},
    {{{"a", 2}, {"b", 2}, {"c", 2}}, 3, 8},
    {{{"a", 2}, {"b", 1}, {"c", 2}, {"d", 2}}, 4, 8},
};

/* The least that is possible on full nodes, else what rank = cell costs. */
static double wanted_cost(const struct sample *sample, const double *bytes, int per_node) {
    if (sample->ranks % per_node == 0) {
        return least_cost(sample->dims, sample->dim_count, bytes, sample->ranks, per_node);
    }
    int node_of[RANKS_TRIED];
    for (int cell = 0; cell < sample->ranks; cell++) {
        node_of[cell] = cell / per_node;
    }
    return cost(sample->dims, sample->dim_count, bytes, node_of);
}

static void no_placement_of_a_small_mesh_on_full_nodes_is_better(void **state) {
    (void)state;
    uint64_t key = random_key(5, "placement");
    uint64_t next = 0;
    for (size_t m = 0; m < ARRAY_COUNT(MESHES); m++) {
        int ranks = MESHES[m].ranks;
        for (int k = 0; k < 3 * ranks; k++) {
            int per_node = 2 + k % (ranks - 1);
            double bytes[MESH_DIMS_MAX];
            int table[RANKS_TRIED];
            int node_of[RANKS_TRIED];
            for (int d = 0; d < MESHES[m].dim_count; d++) {
                bytes[d] = (int)(random_uniform(key, next++) * 10);
            }
            mesh_place_ranks(MESHES[m].dims, MESHES[m].dim_count, bytes, per_node, table);
            unsigned seen = 0;
            for (int cell = 0; cell < ranks; cell++) {
                seen |= 1U << table[cell];
                node_of[cell] = table[cell] / per_node;
            }
            assert_int_equal(seen, (1U << ranks) - 1);
            double own = cost(MESHES[m].dims, MESHES[m].dim_count, bytes, node_of);
            double most = wanted_cost(&MESHES[m], bytes, per_node);
            if (own > most * (1 + 1e-9)) {
                fail_msg("mesh %d, %d a node, bytes %g %g %g: %g, at most %g", (int)m, per_node,
                         bytes[0], bytes[1], bytes[2], own, most);
            }
        }
    }
}

static void cells_keep_their_numbers_where_nothing_is_better(void **state) {
    (void)state;
    const struct mesh_dim dims[] = {{"replicate", 4}, {"shard", 8}};
    int table[32];
    mesh_place_ranks(dims, 2, (double[]){1, 100}, 8, table);
    for (int cell = 0; cell < 32; cell++) {
        assert_int_equal(table[cell], cell);
    }
}

/* A node of 8 holds the two ranks of the busiest dimension and four of the next. */
static void the_busiest_dimensions_share_a_node(void **state) {
    (void)state;
    const struct mesh_dim dims[] = {{"shard", 8}, {"replicate", 4}, {"expert", 2}};
    int table[64];
    mesh_place_ranks(dims, 3, (double[]){10, 1, 100}, 8, table);
    for (int cell = 0; cell < 64; cell++) {
        assert_int_equal(table[cell] / 8, table[cell ^ 1] / 8);
        int same = 0;
        for (int shard = 0; shard < 8; shard++) {
            same += table[cell % 8 + 8 * shard] / 8 == table[cell] / 8;
        }
        assert_int_equal(same, 4);
    }
}

static void the_largest_mesh_is_placed(void **state) {
    (void)state;
    const struct mesh_dim dims[] = {{"a", 8}, {"b", 8}, {"c", 4}, {"d", 4}};
    static int table[RANKS_MAX];
    static bool seen[RANKS_MAX];
    mesh_place_ranks(dims, 4, (double[]){4, 3, 2, 1}, 8, table);
    for (int cell = 0; cell < RANKS_MAX; cell++) {
        assert_true(table[cell] >= 0 && table[cell] < RANKS_MAX && !seen[table[cell]]);
        seen[table[cell]] = true;
    }
    for (int cell = 0; cell < RANKS_MAX; cell++) { /* eight along "a" are one node */
        assert_int_equal(table[cell] / 8, table[cell % 128] / 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_placement_of_a_small_mesh_on_full_nodes_is_better),
        cmocka_unit_test(cells_keep_their_numbers_where_nothing_is_better),
        cmocka_unit_test(the_busiest_dimensions_share_a_node),
        cmocka_unit_test(the_largest_mesh_is_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
